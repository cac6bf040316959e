// The baseline for email: a script that reads a mailbox, asks the platform and replies in the thread. It uses the same
// libraries and stores nothing: a crash loses emails, or asks and answers them twice.
// Arguments: one JSON object (BareOptions). Prints `ready` when it idles on an empty inbox.

import { ImapFlow } from "imapflow";
import { createTransport } from "nodemailer";
import PostalMime from "postal-mime";
import { Pool } from "undici";
import { answerOf, headersOf, type Post } from "./bare-agent.ts";

export interface BareOptions {
  readonly imapPort: number;
  readonly user: string;
  readonly password: string;
  readonly smtpPort: number;
  readonly platform: string;
  readonly key: string;
  /** Emails in work at the same time. */
  readonly conversations: number;
  /** SMTP connections. */
  readonly connections: number;
}

const options = JSON.parse(process.argv[2] ?? "") as BareOptions;
const imap = new ImapFlow({
  host: "127.0.0.1",
  port: options.imapPort,
  secure: false,
  doSTARTTLS: false,
  auth: { user: options.user, pass: options.password },
  logger: false,
});
const smtp = createTransport({
  host: "127.0.0.1",
  port: options.smtpPort,
  secure: false,
  ignoreTLS: true,
  pool: true,
  maxConnections: options.connections,
});
const platform = new Pool(options.platform, { connections: options.conversations });

const post: Post = async (path, body) => {
  const response = await platform.request({
    method: "POST",
    path,
    headers: headersOf(options.key),
    body: JSON.stringify(body),
  });
  if (response.statusCode >= 300) throw new Error(`${path}: HTTP ${response.statusCode}`);
  return (await response.body.json()) as Record<string, string>;
};

async function handle(source: Buffer): Promise<void> {
  const mail = await PostalMime.parse(source);
  const address = mail.from?.address ?? "";
  const answer = await answerOf(post, mail);
  await smtp.sendMail({
    from: options.user,
    to: address,
    subject: `Re: ${mail.subject ?? ""}`,
    inReplyTo: mail.messageId,
    references: [mail.references, mail.messageId].filter(Boolean).join(" "),
    text: answer,
  });
}

async function handleAll(sources: readonly Buffer[]): Promise<void> {
  const rest = sources.values();
  const work = async () => {
    for (const source of rest) await handle(source);
  };
  await Promise.all(Array.from({ length: options.conversations }, work));
}

let announced = false;
let wake: () => void = () => {};
imap.on("exists", () => {
  announced = true;
  wake();
});
await imap.connect();
const mailbox = await imap.mailboxOpen("INBOX");
let next = mailbox.uidNext;
process.stdout.write("ready\n");
for (;;) {
  if (!announced) {
    imap.idle().catch(() => {});
    await new Promise<void>((resolve) => (wake = resolve));
  }
  announced = false;
  const mails = await imap.fetchAll(`${next}:*`, { uid: true, source: true }, { uid: true });
  const fresh = mails.filter((mail) => mail.uid >= next);
  await handleAll(fresh.map((mail) => mail.source ?? Buffer.alloc(0)));
  const last = fresh.at(-1);
  if (last === undefined) continue;
  await imap.messageFlagsAdd(`${next}:${last.uid}`, ["\\Seen"], { uid: true, silent: true });
  next = last.uid + 1;
}
