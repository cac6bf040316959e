// A mailbox on loopback, a model server, and the customers who write to the mailbox.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import PostalMime from "postal-mime";
import { expect, onTestFinished } from "vitest";
import { type Delivered, type MailServer, startMailServer } from "../../../src/sandbox/mail-server.ts";
import { startModel } from "../platform/model.ts";

const address = "support@bridge.test";
const password = "mailbox-password";

export interface Mailbox {
  readonly server: MailServer;
  readonly model: Awaited<ReturnType<typeof startModel>>;
  readonly folder: string;
  /** A mail of a customer arrives. */
  receive(from: string, subject: string, text: string): void;
  /** Everything that was sent to other addresses, as subject and text. */
  sent(to: string): Promise<{ readonly subject: string; readonly text: string }[]>;
  /** Writes a configuration with the model, and returns its path. */
  configure(changes?: {
    readonly platform?: string;
    readonly agent?: string;
    readonly more?: string;
  }): string;
}

export async function startMailbox(): Promise<Mailbox> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-embedded-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const out: Delivered[] = [];
  const server = await startMailServer({ address, password, others: (mail) => out.push(mail) });
  onTestFinished(() => server.close());
  const model = await startModel();
  let count = 0;
  writeFileSync(join(folder, "password"), `${password}\n`, { mode: 0o600 });
  writeFileSync(join(folder, "model-key"), "model-key-12345\n", { mode: 0o600 });
  return {
    server,
    model,
    folder,
    receive(from, subject, text) {
      count += 1;
      const date = new Date().toUTCString().replace("GMT", "+0000");
      const head = `From: ${from}\r\nTo: ${address}\r\nSubject: ${subject}\r\nDate: ${date}\r\n`;
      server.deliver(`${head}Message-ID: <m${count}@customer.test>\r\n\r\n${text}\r\n`);
    },
    async sent(to) {
      const theirs = out.filter((mail) => mail.to.includes(to));
      return Promise.all(
        theirs.map(async ({ raw }) => {
          const { subject = "", text = "" } = await PostalMime.parse(Buffer.from(raw, "latin1"));
          return { subject, text };
        }),
      );
    },
    configure({ platform = "embedded", agent = "{}", more = "" } = {}) {
      const login = `tls: none, user: ${address}, password: "\${file:password}"`;
      const file = join(folder, "bridgehead.yaml");
      writeFileSync(
        file,
        `
platform: ${platform}
model: { url: "${model.url}", key: "\${file:model-key}", name: some-model }
agents: { support: ${agent} }
channels:
  support-mail:
    adapter: email
    agent: support
    imap: { host: 127.0.0.1, port: ${server.imapPort}, ${login} }
    smtp: { host: 127.0.0.1, port: ${server.smtpPort}, ${login} }
    first_start: { history: 1h }
http: { listen: "127.0.0.1:0" }
store: sqlite:bridgehead.db
log: { format: json }
${more}`,
      );
      return file;
    },
  };
}

/** Resolves when `count` mails were sent to the address. */
export async function answers(mailbox: Mailbox, to: string, count: number): Promise<string[]> {
  await expect.poll(async () => (await mailbox.sent(to)).length, { timeout: 60_000 }).toBe(count);
  return (await mailbox.sent(to)).map(({ text }) => text);
}
