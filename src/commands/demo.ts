// bridgehead demo: the daemon, the embedded platform and a small mail server in one process. A first mail is sent by
// itself; every stage and the reply are printed as they come; then the terminal is the customer's.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { startApp } from "../app.ts";
import { loadConfig } from "../config/index.ts";
import { loadAdapter } from "../host/loader.ts";
import { newToken, systemClock } from "../ops/clock.ts";
import { createLog } from "../ops/log.ts";
import { readAgents, startPlatform } from "../platform/index.ts";
import { startMailServer } from "../sandbox/mail-server.ts";
import { type ReplyMail, readReply } from "../sandbox/reply-mail.ts";
import { agentsFile, configFile, customer, demoKey, firstMail, mailFrom, support } from "../sandbox/story.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";

/** Runs until interrupted; `once` (or a closed standard input) ends after the first reply. */
export async function run(options: { readonly once?: boolean }, io: Io): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), "bridgehead-demo-"));
  const password = newToken();
  const log = createLog({ level: "warn", format: "text", out: { write: io.err }, clock: systemClock });
  let reply: (mail: ReplyMail) => void = () => undefined;
  const mail = await startMailServer({
    address: support,
    password,
    others: ({ raw }) => void readReply(raw).then((mail) => reply(mail)),
  });
  const platform = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    agents: readAgents(agentsFile, "the demo"),
    clock: systemClock,
    log,
  });
  const path = join(folder, "bridgehead.yaml");
  await writeFile(
    path,
    configFile({ platformUrl: platform.url, imapPort: mail.imapPort, smtpPort: mail.smtpPort, folder }),
  );
  const loaded = await loadConfig(path, {
    env: { ...io.env, DEMO_PASSWORD: password, DEMO_KEY: demoKey },
    adapters: loadAdapter,
  });
  if (!loaded.ok)
    throw new Error(`the demo's own configuration is refused: ${JSON.stringify(loaded.problems)}`);
  const app = await startApp({
    config: loaded.config,
    platformUrl: platform.url,
    clock: systemClock,
    log,
    publicUrl: () => "http://127.0.0.1",
  });
  const quiet = watchStages(io);

  io.out(`A mailbox (${support}), an agent and this daemon are running. ${customer} writes:`);
  let thread: ReplyMail | null = null;
  const write = (subject: string, text: string): Promise<ReplyMail> => {
    const answered = new Promise<ReplyMail>((resolve) => (reply = resolve));
    io.out(`\n> Subject: ${subject}\n> ${text.replaceAll("\n", "\n> ")}\n`);
    mail.deliver(mailFrom({ subject, text, answers: thread?.messageId ?? null }));
    const noted = settled();
    return Promise.all([answered, noted]).then(([answer]) => {
      thread = answer;
      io.out(`\n< Subject: ${answer.subject}\n< ${answer.text.trimEnd().replaceAll("\n", "\n< ")}\n`);
      return answer;
    });
  };

  try {
    await Promise.race([write(firstMail.subject, firstMail.text), aborted(io.signal)]);
    if (!options.once && io.interactive && !io.signal.aborted) await converse(io, write, mail.smtpPort);
    else io.out("To write the next mail, run it in a terminal: npm run demo");
  } finally {
    quiet();
    await app.stop(io.signal.aborted ? 0 : 5000);
    await platform.close();
    await mail.close();
    await rm(folder, { recursive: true, force: true });
  }
  return exitCodes.ok;
}

/** Every line of standard input is the customer's next mail in the thread. */
async function converse(
  io: Io,
  write: (subject: string, text: string) => Promise<ReplyMail>,
  smtpPort: number,
): Promise<void> {
  io.out(
    `Type a line and press Enter to write the next mail (Ctrl-C ends); any SMTP client reaches ${support} on port ${smtpPort}.`,
  );
  const lines = createInterface({ input: process.stdin, terminal: false });
  io.signal.addEventListener("abort", () => lines.close(), { once: true });
  for await (const line of lines) {
    if (line.trim()) await Promise.race([write(`Re: ${firstMail.subject}`, line), aborted(io.signal)]);
    if (io.signal.aborted) break;
  }
}

/** Resolves when the next outcome of a send has been noted, and printed. */
const settled = (): Promise<void> =>
  new Promise((resolve) => {
    const listener = (message: unknown) => {
      if ((message as { phase: string }).phase !== "after") return;
      unsubscribe("bridgehead:outcome.commit", listener);
      setImmediate(() => setImmediate(resolve));
    };
    subscribe("bridgehead:outcome.commit", listener);
  });

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

const stages: Readonly<Record<string, string>> = {
  "event.commit": "accepted   the mail is on disk",
  "open.commit": "opened     a conversation on the platform",
  "ask.record": "calling    the platform; written down first",
  "answer.commit": "answered   the agent's reply is on disk, dressed as a mail and queued",
  "send.record": "sending    written down first",
  "outcome.commit": "sent       and noted",
};

/** Prints the points a message passes; returns what stops it. */
function watchStages(io: Io): () => void {
  const started = systemClock.monotonic();
  const listeners = Object.entries(stages).map(([name, text]) => {
    const listener = (message: unknown) => {
      const { phase, events } = message as { phase: string; events?: number };
      if (phase !== "after" || events === 0) return;
      const line = `  ${String(Math.round(systemClock.monotonic() - started)).padStart(6)} ms  ${text}`;
      // One commit accepts a mail and writes the attempt down; the intake is told of it last.
      if (name === "event.commit") io.out(line);
      else setImmediate(() => io.out(line));
    };
    subscribe(`bridgehead:${name}`, listener);
    return () => unsubscribe(`bridgehead:${name}`, listener);
  });
  return () => listeners.forEach((stop) => stop());
}
