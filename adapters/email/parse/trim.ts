// What the writer of a mail wrote, without the mails quoted below (or above) and without the signature.
// One pass over lines, never a pattern over the text: the work grows with the length and nothing else.

import { type Line, scan } from "./lines.ts";
import { signatureStart } from "./signature.ts";

export interface Trimmed {
  readonly text: string;
  /** False when nothing was removed, or when nothing would have been left. */
  readonly trimmed: boolean;
}

/** No person quotes as much; such a text stays whole. */
const maxLines = 100_000;

/**
 * Cuts trailing quotes and signatures, and a quote that stands above the answer. Quotes between answers stay, they are what is
 * answered. A forward is not trimmed: what it carries is what it is about.
 */
export function trimReply(text: string, forward = false): Trimmed {
  const full = text.trim();
  if (forward) return { text: full, trimmed: false };
  const texts = full.split("\n", maxLines + 1);
  if (texts.length > maxLines) return { text: full, trimmed: false };
  const lines = scan(texts);
  const kept = keep(lines);
  const rest = kept
    .map((line) => line.text)
    .join("\n")
    .trim();
  if (!kept.some((line) => line.kind === "own") || rest === "") return { text: full, trimmed: false };
  return { text: rest, trimmed: rest !== full };
}

/** True when nothing of it is the writer's: all is quoted, or a signature. */
export function isWordless(text: string): boolean {
  const texts = text.trim().split("\n", maxLines + 1);
  if (texts.length > maxLines) return false;
  const lines = scan(texts);
  const tail = lines.findIndex((line) => line.kind === "tail");
  const written = withoutTrailingQuote(tail < 0 ? lines : lines.slice(0, tail));
  const signature = signatureStart(written);
  return !(signature < 0 ? written : written.slice(0, signature)).some((line) => line.kind === "own");
}

function keep(lines: readonly Line[]): readonly Line[] {
  let rest = beforeTail(lines);
  for (let round = 0; round < 3; round++) {
    const shorter = withoutSignature(withoutTrailingQuote(rest));
    if (shorter.length === rest.length) break;
    rest = shorter;
  }
  return withoutLeadingQuote(rest);
}

/** Everything before the first line after which all is quoted, if there is something before it. */
function beforeTail(lines: readonly Line[]): readonly Line[] {
  const tail = lines.findIndex((line) => line.kind === "tail");
  if (tail < 0) return lines;
  return lines.slice(0, tail).some((line) => line.kind === "own") ? lines.slice(0, tail) : lines;
}

function withoutTrailingQuote(lines: readonly Line[]): readonly Line[] {
  let end = lines.length;
  while (end > 0 && lines[end - 1]?.kind !== "own") end--;
  // A mail that ends in its own words ends there; blank lines are trimmed with the text.
  return lines.slice(0, end);
}

function withoutSignature(lines: readonly Line[]): readonly Line[] {
  const start = signatureStart(lines);
  const kept = start < 0 ? lines : lines.slice(0, start);
  return kept.some((line) => line.kind === "own") ? kept : lines;
}

/** One quote, and above everything: the answer below it stands alone. With more quotes it is a dialogue and stays whole. */
function withoutLeadingQuote(lines: readonly Line[]): readonly Line[] {
  const firstOwn = lines.findIndex((line) => line.kind === "own");
  if (firstOwn <= 0 || lines.slice(0, firstOwn).some((line) => line.kind === "tail")) return lines;
  const dialogue = lines.slice(firstOwn).some((line) => line.kind === "quote");
  return dialogue ? lines : lines.slice(firstOwn);
}
