// Reads forwarded messages: their original sender, and the text of attached ones. Runs only in the worker, because a
// library's patterns are slow on hostile text.

import type EmailForwardParser from "email-forward-parser";
import { boundedText, cleanAddress, cleanLine, headerOf, mailboxesOf, textOf } from "./headers.ts";
import type { Mailbox } from "./mail.ts";
import { bodyOf, type MimePart, readTree } from "./mime.ts";

let parser: EmailForwardParser | null = null;

/** Returns the original sender, or null when the text does not contain one. */
export async function forwardedIn(subject: string, text: string): Promise<Mailbox | null> {
  if (parser === null) {
    const { default: Parser } = await import("email-forward-parser");
    parser = new Parser();
  }
  const body = boundedText(text);
  const first = parser.read(body, subject);
  const { email } = first.forwarded && first.email.from.address ? first : parser.read(body);
  const address = cleanAddress(email.from.address ?? "");
  return address === "" ? null : { address, name: cleanLine(email.from.name ?? "", 300) };
}

/** Characters of an attached message that are shown in the text. */
const maxCarried = 50_000;
const maxCarriedMails = 3;

/** Returns the text of attached messages: sender, subject and text below a line that announces the forward. `from`: the
 *  sender of the first. */
export async function carriedText(parts: readonly MimePart[]) {
  const texts: string[] = [];
  const senders: (Mailbox | null)[] = [];
  let isCut = false;
  for (const part of parts.slice(0, maxCarriedMails)) {
    const root = await readTree(part.content);
    const from = mailboxesOf(root.headers, "from")[0] ?? null;
    const subject = textOf(headerOf(root.headers, "subject"));
    senders.push(from);
    const by = from === null ? "" : `From: ${from.name === "" ? from.address : `${from.name} <${from.address}>`}\n`;
    const body = bodyOf(root, { relation: "forward" });
    isCut ||= body.isCut || body.text.length > maxCarried;
    texts.push(
      `---------- Forwarded message ----------\n${by}Subject: ${subject}\n\n${body.text.slice(0, maxCarried)}`,
    );
  }
  return { text: texts.join("\n\n"), from: senders[0] ?? null, isCut };
}
