// Emails built in code: for the parser, and as people write and receive them.

import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import PostalMime, { type Email } from "postal-mime";
import type { Mail, ParseContext } from "../../../adapters/email/parse/mail.ts";
import { Parser } from "../../../adapters/email/parse/parser.ts";
import { standardTiming as timing } from "../../../adapters/email/timing.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import type { ReceivedMail } from "./smtp-server.ts";

export type Fields = Readonly<Record<string, string | readonly string[] | null>>;

/** A plain mail from Anna to us; `null` takes a field away, a list repeats it. */
export function mail(fields: Fields = {}, body = "Where is my parcel?\n"): Uint8Array {
  const all: Fields = {
    "Return-Path": "<anna@example.org>",
    Received: "from mx.example.org by mail.example.com; Fri, 3 May 2024 10:00:00 +0000",
    From: "Anna <anna@example.org>",
    To: "support@example.com",
    Subject: "My parcel",
    Date: "Fri, 3 May 2024 10:00:00 +0000",
    "Message-ID": "<m1@example.org>",
    "MIME-Version": "1.0",
    "Content-Type": "text/plain; charset=utf-8",
    ...fields,
  };
  const lines = Object.entries(all).flatMap(([name, value]) =>
    value === null ? [] : [value].flat().map((one) => `${name}: ${one}`),
  );
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body.replace(/\r?\n/g, "\r\n")}`);
}

export interface PartSpec {
  readonly type: string;
  readonly body: string | Uint8Array;
  readonly fields?: Readonly<Record<string, string>>;
}

/** The body of a multipart; the boundary is `bound`. */
export function parts(specs: readonly PartSpec[], boundary = "bound"): string {
  const texts = specs.map(({ type, body, fields }) => {
    const encoded = typeof body !== "string";
    const head = Object.entries({
      "Content-Type": type,
      ...(encoded ? { "Content-Transfer-Encoding": "base64" } : {}),
      ...fields,
    });
    const text = encoded ? Buffer.from(body).toString("base64") : body;
    return `--${boundary}\n${head.map(([name, value]) => `${name}: ${value}`).join("\n")}\n\n${text}\n`;
  });
  return `${texts.join("")}--${boundary}--\n`;
}

/** A multipart mail. */
export function multipart(kind: string, specs: readonly PartSpec[], fields: Fields = {}): Uint8Array {
  return mail({ "Content-Type": `multipart/${kind}; boundary="bound"`, ...fields }, parts(specs));
}

export const html = (text: string, fields: Fields = {}) =>
  mail({ "Content-Type": "text/html; charset=utf-8", ...fields }, text);

/** A bounce as RFC 3464 has it. */
export function bounce(
  options: {
    action?: string;
    status?: string;
    diagnostic?: string;
    recipient?: string;
    about?: string;
    fields?: Fields;
  } = {},
): Uint8Array {
  const {
    action = "failed",
    status = "5.1.1",
    diagnostic = "smtp; 550 5.1.1 no such user",
    recipient = "gone@example.net",
  } = options;
  return multipart(
    "report; report-type=delivery-status",
    [
      { type: "text/plain", body: "Your mail could not be delivered." },
      {
        type: "message/delivery-status",
        body: `Reporting-MTA: dns; mx.example.net\nOriginal-Envelope-Id: env42\n\nFinal-Recipient: rfc822; ${recipient}\nAction: ${action}\nStatus: ${status}\nDiagnostic-Code: ${diagnostic}\n`,
      },
      {
        type: "message/rfc822",
        body: `From: support@example.com\nMessage-ID: ${options.about ?? "<k1.bridgehead@example.com>"}\nSubject: Re: hi\n\nour text`,
      },
    ],
    {
      From: "Mail Delivery System <MAILER-DAEMON@mx.example.net>",
      "Return-Path": "<>",
      Subject: "Undelivered Mail Returned to Sender",
      "Auto-Submitted": "auto-replied",
      ...options.fields,
    },
  );
}

const off: ParseContext = { senderAuth: { mode: "off" }, own: ["support@example.com"] };

/** Header fields of a mail that answers one of our messages. */
export const answering: Fields = {
  Subject: "Re: My parcel",
  "In-Reply-To": "<01jx9q7k3d.bridgehead@example.com>",
  References: "<m0@example.org> <01jx9q7k3d.bridgehead@example.com>",
};

/** A parser of its own and a shortcut to what it reads. */
export function reader(): {
  parser: Parser;
  read: (raw: Uint8Array) => Promise<Mail>;
} {
  const parser = new Parser({ clock: systemClock, timing: { ...timing, parse: 20_000 } });
  return {
    parser,
    async read(raw) {
      const result = await parser.parse(raw, off);
      if (!result.ok) throw new Error(`not parsed: ${result.code} ${result.reason}`);
      return result.mail;
    },
  };
}

// What people write, and what they get.

/** A mail of a person, as it lies in the mailbox. */
export interface Letter {
  readonly messageId: string;
  readonly from: string;
  readonly subject: string;
  readonly text: string;
  readonly raw: string;
}

export interface LetterOptions {
  readonly from?: string;
  readonly name?: string;
  readonly to?: string;
  readonly subject?: string;
  readonly text?: string;
  /** The mail it answers: In-Reply-To, and References with that mail's own before it. */
  readonly answers?: { readonly messageId: string; readonly references?: readonly string[] };
  readonly date?: Date;
  readonly headers?: { readonly [name: string]: string };
}

let written = 0;

export function letter(to: string, options: LetterOptions = {}): Letter {
  written += 1;
  const from = options.from ?? "anna@customer.example";
  const messageId = `<letter-${process.pid}-${written}@customer.example>`;
  const subject = options.subject ?? `Question ${written}`;
  const text = options.text ?? `What about number ${written}?`;
  const chain = options.answers ? [...(options.answers.references ?? []), options.answers.messageId] : [];
  const headers = {
    "Return-Path": `<${from}>`,
    From: `${options.name ?? "Anna Example"} <${from}>`,
    To: options.to ?? to,
    Subject: subject,
    "Message-ID": messageId,
    Date: (options.date ?? new Date()).toUTCString().replace("GMT", "+0000"),
    ...(options.answers ? { "In-Reply-To": options.answers.messageId, References: chain.join("\r\n ") } : {}),
    "MIME-Version": "1.0",
    "Content-Type": "text/plain; charset=utf-8",
    ...options.headers,
  };
  return { messageId, from, subject, text, raw: mailOf(headers, text) };
}

/** A mail from its headers and body, CRLF. A header that is "" is left out. */
export function mailOf(headers: { readonly [name: string]: string }, body: string): string {
  const lines = Object.entries(headers).flatMap(([name, value]) => (value === "" ? [] : [`${name}: ${value}`]));
  return `${lines.join("\r\n")}\r\n\r\n${body.replace(/\r?\n/g, "\r\n")}\r\n`;
}

export interface Attached {
  readonly name: string;
  readonly mediaType: string;
  readonly bytes: Buffer;
}

/** A part of a mail with files; `headers` over those of an attachment of that name. */
export interface Enclosed {
  readonly name: string;
  readonly bytes: Buffer;
  readonly headers?: { readonly [name: string]: string };
}

/** Text and headers of a mail with files, for `letter`. */
export function withFiles(text: string, files: readonly Enclosed[]): Pick<LetterOptions, "text" | "headers"> {
  const boundary = `files-${process.pid}-${(written += 1)}`;
  const parts = [
    `Content-Type: text/plain; charset=utf-8\n\n${text}`,
    ...files.map(({ name, bytes, headers }) => {
      const own = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": `attachment; filename="${name}"`,
        "Content-Transfer-Encoding": "base64",
        ...headers,
      };
      const lines = Object.entries(own).map(([header, value]) => `${header}: ${value}`);
      const encoded = bytes.toString("base64").replace(/.{76}/g, "$&\n");
      return `${lines.join("\n")}\n\n${encoded}`;
    }),
  ];
  const body = `${parts.map((part) => `--${boundary}\n${part}\n`).join("")}--${boundary}--`;
  return { text: body, headers: { "Content-Type": `multipart/mixed; boundary="${boundary}"` } };
}

/** A reply as the person's mail program shows it. */
export interface Reply {
  readonly messageId: string;
  readonly inReplyTo: string;
  readonly references: readonly string[];
  readonly subject: string;
  readonly from: { readonly name: string; readonly address: string };
  readonly to: readonly string[];
  readonly text: string;
  readonly html: string;
  readonly files: readonly Attached[];
  readonly at: number;
  readonly header: (name: string) => string;
}

/** postal-mime makes a Blob of all lines, which takes half a second for 60,000. Long mails are parsed in a thread of their own,
 *  because tests watch the event loop of a daemon in this one. */
const longMail = 20_000;

function parseApart(bytes: Uint8Array): Promise<Email> {
  const { promise, resolve, reject } = Promise.withResolvers<Email>();
  const code = `const { parentPort, workerData } = require("node:worker_threads");
    require(workerData.path).parse(workerData.bytes).then((mail) => parentPort.postMessage(mail));`;
  const path = createRequire(import.meta.url).resolve("postal-mime");
  const worker = new Worker(code, { eval: true, workerData: { path, bytes } });
  worker.once("message", resolve).once("error", reject);
  return promise;
}

export async function readReply(received: ReceivedMail): Promise<Reply> {
  const bytes = Buffer.from(received.raw, "latin1");
  const mail: Email = await (bytes.length > longMail ? parseApart(bytes) : PostalMime.parse(bytes));
  return {
    messageId: mail.messageId ?? "",
    inReplyTo: mail.inReplyTo ?? "",
    references: (mail.references ?? "").split(/\s+/).filter(Boolean),
    subject: mail.subject ?? "",
    from: { name: mail.from?.name ?? "", address: mail.from?.address ?? "" },
    to: received.to,
    text: mail.text ?? "",
    html: mail.html ?? "",
    files: mail.attachments.map(({ filename, mimeType, content }) => ({
      name: filename ?? "",
      mediaType: mimeType,
      bytes: Buffer.from(typeof content === "string" ? content : new Uint8Array(content)),
    })),
    at: received.at,
    header: (name) => mail.headers.find((one) => one.key === name.toLowerCase())?.value ?? "",
  };
}

/** A bounce (RFC 3464) of what we sent as `messageId`. */
export function bounceOf(
  messageId: string,
  to: string,
  recipient: string,
  status: "5.1.1" | "4.4.7" = "5.1.1",
): string {
  written += 1;
  const boundary = `bounce-${written}`;
  const parts = [
    "Content-Type: text/plain\n\nYour mail could not be delivered.",
    `Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.customer.example\n\nFinal-Recipient: rfc822; ${recipient}\nAction: failed\nStatus: ${status}\nDiagnostic-Code: smtp; 550 ${status} no such user`,
    `Content-Type: text/rfc822-headers\n\nFrom: ${to}\nTo: ${recipient}\nMessage-ID: ${messageId}\nSubject: Re: hello`,
  ];
  return mailOf(
    {
      "Return-Path": "<>",
      From: "Mail Delivery System <MAILER-DAEMON@mx.customer.example>",
      To: to,
      Subject: "Undelivered Mail Returned to Sender",
      "Message-ID": `<bounce-${process.pid}-${written}@mx.customer.example>`,
      Date: new Date().toUTCString().replace("GMT", "+0000"),
      "Auto-Submitted": "auto-replied",
      "MIME-Version": "1.0",
      "Content-Type": `multipart/report; report-type=delivery-status; boundary="${boundary}"`,
    },
    `${parts.map((part) => `--${boundary}\n${part}\n`).join("")}--${boundary}--`,
  );
}
