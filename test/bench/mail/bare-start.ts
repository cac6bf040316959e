// The baseline for the start: a process with the packages that the daemon has loaded when it sends its first reply. It
// answers the newest email of the mailbox over connections of the same kinds, has no own code, and stores nothing.
// Arguments: one JSON object (BareStartOptions).

import Sqlite from "better-sqlite3";
import { ImapFlow } from "imapflow";
import SMTPConnection from "nodemailer/lib/smtp-connection";
import PostalMime from "postal-mime";
import Pool from "undici/lib/dispatcher/pool.js";
import type { BareOptions } from "./bare.ts";
import { answerOf, headersOf, type Post } from "./bare-agent.ts";

export interface BareStartOptions extends Omit<BareOptions, "conversations" | "connections"> {
  /** URLs of the modules to load, which include those of the imports above. */
  readonly packages: readonly string[];
}

const host = "127.0.0.1";
const options = JSON.parse(process.argv[2] ?? "") as BareStartOptions;
// Only an orderly end writes the compile cache.
process.on("SIGTERM", () => process.exit(0));
await Promise.all(options.packages.map((url) => import(url)));
// Loads the native part of the package.
new Sqlite(":memory:").close();

const imap = new ImapFlow({
  host,
  port: options.imapPort,
  secure: false,
  doSTARTTLS: false,
  auth: { user: options.user, pass: options.password },
  logger: false,
});
await imap.connect();
await imap.mailboxOpen("INBOX");
const newest = await imap.fetchOne("*", { source: true });
const mail = await PostalMime.parse((newest && newest.source) || "");

// The module of the pool alone has no `request`.
const platform = new Pool(options.platform);
const post: Post = (path, body) =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    platform.dispatch(
      { method: "POST", path, headers: headersOf(options.key), body: JSON.stringify(body) },
      {
        onRequestStart: () => {},
        onResponseStart: (_controller, status) => void (status >= 300 && reject(new Error(`${path}: HTTP ${status}`))),
        onResponseData: (_controller, chunk) => void chunks.push(chunk),
        onResponseEnd: () => resolve(JSON.parse(Buffer.concat(chunks).toString()) as Record<string, string>),
        onResponseError: (_controller, error) => reject(error),
      },
    );
  });
const answer = await answerOf(post, mail);

const smtp = new SMTPConnection({ host, port: options.smtpPort, secure: false, ignoreTLS: true });
await new Promise<void>((resolve, reject) => {
  smtp.once("error", reject);
  smtp.connect((error) => (error ? reject(error) : resolve()));
});
const to = mail.from?.address ?? "";
const reply = `From: ${options.user}\r\nTo: ${to}\r\nSubject: Re: ${mail.subject}\r\nIn-Reply-To: ${mail.messageId}\r\n\r\n${answer}\r\n`;
await new Promise<void>((resolve, reject) => {
  smtp.send({ from: options.user, to }, reply, (error) => (error ? reject(error) : resolve()));
});
