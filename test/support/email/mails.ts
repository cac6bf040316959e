// Small mails built in code.

import type { Mail, ParseContext } from "../../../adapters/email/parse/mail.ts";
import { Parser } from "../../../adapters/email/parse/parser.ts";
import { systemClock } from "../../../src/ops/clock.ts";

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

/** Fields of a mail that answers one of ours. */
export const answering: Fields = {
  Subject: "Re: My parcel",
  "In-Reply-To": "<01jx9q7k3d.bridgehead@example.com>",
  References: "<m0@example.org> <01jx9q7k3d.bridgehead@example.com>",
};

/** A parser of its own and a shortcut to what it reads. */
export function reader(
  options: { maxMilliseconds?: number; maxHeapMb?: number; workers?: number; idleMilliseconds?: number } = {},
): {
  parser: Parser;
  read: (raw: Uint8Array) => Promise<Mail>;
} {
  const parser = new Parser({ clock: systemClock, maxMilliseconds: 20_000, ...options });
  return {
    parser,
    async read(raw) {
      const result = await parser.parse(raw, off);
      if (!result.ok) throw new Error(`not parsed: ${result.code} ${result.reason}`);
      return result.mail;
    },
  };
}
