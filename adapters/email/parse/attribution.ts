// "On Friday, Anna wrote:" in many languages.

import { attributions, datedByYear } from "./phrases.ts";

/** Longest attribution with name, address and date that programs write. */
const maxLength = 400;

export interface Attribution {
  /** What the writer put in front of it on the same line. */
  readonly before: string;
  /** What of the quote follows on the same line. */
  readonly after: string;
  /** It begins with a word such as "On"; others begin with a name or a date and may be the end of a longer one. */
  readonly anchored: boolean;
}

/** Finds an attribution in a line (or some wrapped lines joined). Null when there is none. */
export function attributionIn(line: string): Attribution | null {
  const end = colonOf(line);
  if (end < 0) return null;
  const head = line.slice(0, end + 1);
  const after = line.slice(end + 1).trim();
  const start = after === "" ? 0 : sentenceStart(head);
  const text = head.slice(start);
  if (start < 0 || text.length > maxLength) return null;
  const match = matchOf(text);
  return match === null
    ? null
    : { before: head.slice(0, start).trim(), after, anchored: match === "anchored" };
}

/** The colon that ends the line, or that is followed by a quote mark. */
function colonOf(line: string): number {
  if (/[:：]$/.test(line)) return line.length - 1;
  return Math.max(line.indexOf(": >"), line.indexOf(":>"));
}

/** Where a sentence could begin in the middle of a line, or -1. */
function sentenceStart(head: string): number {
  let best = -1;
  for (const word of [" On ", " Am ", " Le ", " El ", " Op ", " Em ", " Den ", " Il "]) {
    best = Math.max(best, head.lastIndexOf(word));
  }
  return best < 0 ? -1 : best + 1;
}

function matchOf(text: string): "anchored" | "loose" | null {
  const line = text.toLowerCase();
  if (!line.includes("@") && !looksDated(line)) return null;
  if (datedByYear.test(line)) return "loose";
  let best: "loose" | null = null;
  for (const { starts, says } of attributions) {
    const start = starts.find((one) => line.startsWith(one));
    if (start === undefined || !says.some((verb) => line.includes(verb, Math.max(0, start.length - 1))))
      continue;
    if (start !== "") return "anchored";
    best = "loose";
  }
  return best;
}

/** A year, a time, or a day with dots or slashes: one number alone ("the 3 of us wrote:") is no date. */
function looksDated(line: string): boolean {
  return /\b(?:19|20)\d\d\b|\d{1,2}[:.h]\d\d|\d{1,2}[./-]\s?\d{1,2}[./-]|\d{4}[年년]/u.test(line);
}
