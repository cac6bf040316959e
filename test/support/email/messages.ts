// What people write, and what they get.

import PostalMime, { type Email } from "postal-mime";
import type { ReceivedMail } from "./smtp-server.ts";

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
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    value === "" ? [] : [`${name}: ${value}`],
  );
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

export async function readReply(received: ReceivedMail): Promise<Reply> {
  const mail: Email = await PostalMime.parse(Buffer.from(received.raw, "latin1"));
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
