// "On Friday, Anna wrote:" in many languages.

import { attributions, datedByYear } from "./phrases.ts";

/** Longest attribution with name, address and date that programs write. */
const maxLength = 400;

/**
 * Finds an attribution in a line (or some wrapped lines joined). `before` is what the writer put in front of it on the same line,
 * `after` what of the quote follows on it. Null when there is none.
 */
export function attributionIn(line: string): { before: string; after: string } | null {
  const end = colonOf(line);
  if (end < 0) return null;
  const head = line.slice(0, end + 1);
  const after = line.slice(end + 1).trim();
  if (after === "" && head.length <= maxLength && isAttribution(head)) return { before: "", after };
  if (after === "") return null;
  const start = sentenceStart(head);
  return start > 0 && isAttribution(head.slice(start))
    ? { before: head.slice(0, start).trim(), after }
    : null;
}

/** The colon that ends the line, or that is followed by a quote mark. */
function colonOf(line: string): number {
  if (/[:：]$/.test(line)) return line.length - 1;
  const marked = Math.max(line.indexOf(": >"), line.indexOf(":>"));
  return marked;
}

/** Where a sentence of English, German, French or Spanish form could begin in the middle of a line. */
function sentenceStart(head: string): number {
  let best = -1;
  for (const word of [" On ", " Am ", " Le ", " El ", " Op ", " Em ", " Den ", " Il "])
    best = Math.max(best, head.lastIndexOf(word));
  return best < 0 ? -1 : best + 1;
}

function isAttribution(text: string): boolean {
  const line = text.toLowerCase();
  if (!/[\d@]/.test(line)) return false;
  if (datedByYear.test(line)) return true;
  const strong = line.includes("@") || looksDated(line);
  return (
    strong &&
    attributions.some(({ starts, says }) =>
      starts.some((start) => line.startsWith(start) && hasVerb(line, start, says)),
    )
  );
}

function hasVerb(line: string, start: string, says: readonly string[]): boolean {
  return says.some((verb) => line.includes(verb, Math.max(0, start.length - 1)));
}

/** A year, a time, or a day with dots or slashes: one number alone ("the 3 of us wrote:") is no date. */
function looksDated(line: string): boolean {
  return /\b(?:19|20)\d\d\b|\d{1,2}[:.h]\d\d|\d{1,2}[./-]\s?\d{1,2}[./-]|\d{4}[年년]/u.test(line);
}
