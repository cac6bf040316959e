// Finds the original sender of a forwarded message. Runs only in the worker, because the library's patterns
// are slow on hostile text.

import type EmailForwardParser from "email-forward-parser";
import { cleanLine } from "./cleaning.ts";
import { cleanAddress } from "./headers.ts";
import { isForwardLine } from "./lines.ts";
import type { Mail } from "./mail.ts";
import { forwardPrefixes, replyPrefixes } from "./phrases.ts";

const limits = { characters: 20_000, lines: 400, lineLength: 500 };

/** True for a forward by its subject ("Fwd:", "WG:", "TR:", "[Fwd: ...]"); a later "Re:" cancels it. */
export function isForwardSubject(subject: string): boolean {
  return forwardPrefixes.has(prefixOf(subject));
}

/** True for "Re:" and its translations. */
export function isReplySubject(subject: string): boolean {
  return replyPrefixes.has(prefixOf(subject));
}

/** Returns the prefix of a subject in lower case, after the tag of a list ("[shop] Re: ..."); "" without
 *  a prefix. */
function prefixOf(subject: string): string {
  const text = subject.slice(0, 200);
  const word =
    /^\s{0,10}(?:\[[^\]:：]{1,60}\]\s{0,10})?\[?([^\s:：[\]]{1,20})\s{0,5}(?:\[\d{1,3}\]|\(\d{1,3}\))?\s{0,5}[:：]/u;
  return word.exec(text)?.[1]?.toLowerCase() ?? "";
}

/** True for a forward by its body: a line of the bounded text announces the forwarded message, before
 *  any response to another message could. */
export function hasForwardLine(text: string): boolean {
  return bounded(text).split("\n").some(isForwardLine);
}

let parser: EmailForwardParser | null = null;

/** Returns the original sender and subject, as far as the text contains them. */
export async function forwardedIn(subject: string, text: string): Promise<NonNullable<Mail["forwarded"]>> {
  if (parser === null) {
    const { default: Parser } = await import("email-forward-parser");
    parser = new Parser();
  }
  const body = bounded(text);
  const first = parser.read(body, subject);
  const { email } = first.forwarded && first.email.from.address ? first : parser.read(body);
  const address = cleanAddress(email.from.address ?? "");
  const name = cleanLine(email.from.name ?? "", 300);
  const about = cleanLine(email.subject ?? "", 1000);
  return { from: address === "" ? null : { address, name }, subject: about === "" ? null : about };
}

/** Bounds the text for the patterns: fewer and shorter lines, no runs of blank lines. */
function bounded(text: string): string {
  const lines: string[] = [];
  for (const line of text.slice(0, limits.characters).split("\n")) {
    if (lines.length >= limits.lines) break;
    const short = line
      .slice(0, limits.lineLength)
      .replace(/[ \t]{2,}/g, " ")
      .trimEnd();
    if (short !== "" || lines.at(-1) !== "") lines.push(short);
  }
  return lines.join("\n");
}
