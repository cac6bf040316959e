// The parser's worker thread. It responds to each job with the parsed message and then, when requested,
// with the sender check. The check waits for DNS while other messages are parsed.

import { parentPort } from "node:worker_threads";
import type { Mail } from "./mail.ts";
import { readMail } from "./reading.ts";
import { authenticate } from "./sender-auth.ts";
import type { Answer, Job, ParseContext } from "./types.ts";

const port = parentPort;
if (port === null) throw new Error("parse worker: started outside a worker thread");

/** Messages are parsed one after the other. Concurrent parsing would share the CPU time and add up the
 *  memory. */
let last: Promise<void> = Promise.resolve();

port.on("message", (jobs: readonly Job[]) => {
  for (const job of jobs) last = last.then(() => work(job));
});

post({ id: 0, kind: "ready" });

async function work({ id, raw, context }: Job): Promise<void> {
  let mail: Mail;
  try {
    mail = await readMail(raw, context.own ?? []);
  } catch (error) {
    post({ id, kind: "malformed", reason: reasonOf(error) });
    return;
  }
  const more = context.senderAuth.mode !== "off";
  post({ id, kind: "mail", mail, more }, transferable(mail));
  if (more) void judge(id, mail, raw, context);
}

/** The caller does not wait for this function, because DNS responses can be slow. */
async function judge(id: number, mail: Mail, raw: Uint8Array, context: ParseContext): Promise<void> {
  post({ id, kind: "auth", auth: await authenticate(mail, raw, context.senderAuth) });
}

function post(answer: Answer, transfer: readonly ArrayBuffer[] = []): void {
  port?.postMessage(answer, transfer);
}

/** Attachments are transferred without a copy. Two parts never share a buffer, but a buffer must not be
 *  listed twice. */
function transferable(mail: Mail): ArrayBuffer[] {
  const buffers = new Set<ArrayBuffer>();
  for (const { bytes } of mail.attachments)
    if (bytes.buffer instanceof ArrayBuffer) buffers.add(bytes.buffer);
  return [...buffers];
}

function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 300);
}
