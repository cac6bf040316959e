// What people and mail servers write: letters with their place in a thread, and bounces.

import type { ReceivedMail } from "../../email/smtp-server.ts";

/** A mail of a person. `tag` is a word that occurs in no other letter; the agent repeats it in its answer. */
export interface Letter {
  readonly id: string;
  readonly person: string;
  readonly tag: string;
  readonly subject: string;
  /** Ids of earlier letters of the thread, oldest first. */
  readonly earlier: readonly string[];
}

/** The `number`-th letter (from 0) of a person; all letters of one person are one thread. */
export function letter(person: string, number: number): Letter {
  const [name = ""] = person.split("@");
  const id = (n: number) => `<${name}.${n}@people.test>`;
  return {
    id: id(number),
    person,
    tag: `tag-${name}-${number}`,
    subject: number === 0 ? `About ${name}` : `Re: About ${name}`,
    earlier: Array.from({ length: number }, (_, n) => id(n)),
  };
}

export function rawLetter({ id, person, tag, subject, earlier }: Letter): string {
  return [
    `From: ${person}`,
    "To: support@bridge.test",
    `Subject: ${subject}`,
    `Message-ID: ${id}`,
    `Date: ${new Date().toUTCString()}`,
    ...(earlier.length > 0
      ? [`In-Reply-To: ${earlier.at(-1)}`, `References: ${earlier.slice(-10).join("\n ")}`]
      : []),
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8",
    "",
    `Please say something about ${tag} today.`,
    "",
  ].join("\n");
}

export const anyTag = /tag-[a-z0-9-]+-\d+/g;

/** The word by which a text belongs to a letter. */
export const tagIn = (text: string): string | null => /tag-[a-z0-9-]+-\d+/.exec(text)?.[0] ?? null;

/** A header's value, unfolded; "" without one. */
export function header(raw: string, name: string): string {
  const head = raw.slice(0, raw.search(/\r?\n\r?\n/)).replace(/\r?\n[ \t]+/g, " ");
  return new RegExp(`^${name}:[ \\t]*(.*)$`, "im").exec(head)?.[1]?.trim() ?? "";
}

/** A delivery report (RFC 3464): the mail reached nobody, and never will. */
export function rawBounce(mail: ReceivedMail, number: number): string {
  return [
    "From: Mail Delivery System <MAILER-DAEMON@people.test>",
    "To: support@bridge.test",
    "Subject: Undelivered Mail Returned to Sender",
    `Message-ID: <bounce.${number}.${mail.messageId.slice(1, -1)}>`,
    `Date: ${new Date().toUTCString()}`,
    "Auto-Submitted: auto-replied",
    "MIME-Version: 1.0",
    'Content-Type: multipart/report; report-type=delivery-status; boundary="cut"',
    "",
    "--cut",
    "Content-Type: text/plain",
    "",
    `<${mail.to[0]}>: user unknown`,
    "--cut",
    "Content-Type: message/delivery-status",
    "",
    "Reporting-MTA: dns; mx.people.test",
    "",
    `Final-Recipient: rfc822; ${mail.to[0]}`,
    "Action: failed",
    "Status: 5.1.1",
    "Diagnostic-Code: smtp; 550 5.1.1 user unknown",
    "",
    "--cut",
    "Content-Type: text/rfc822-headers",
    "",
    `Message-ID: ${mail.messageId}`,
    `From: ${mail.from}`,
    `To: ${mail.to[0]}`,
    "",
    "--cut--",
    "",
  ].join("\n");
}

/** Returns a generator of numbers in [0, 1), the same ones for the same seed (mulberry32). */

export function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
