// Recognizes attribution lines such as "On Friday, Anna wrote:" in many languages.

import { attributions, datedByYear, handWritten } from "./phrases.ts";

/** Maximum length of an attribution with name, address and date, as programs write it. */
const maxLength = 400;

export interface Attribution {
  /** The customer's text before the attribution on the same line. */
  readonly before: string;
  /** The start of the quote that follows on the same line. */
  readonly after: string;
  /** True when it begins with a keyword such as "On". Others begin with a name or a date and may be the
   *  end of a longer attribution. */
  readonly anchored: boolean;
  /** True when a mail client wrote it: it has an address or a time, and neither "you wrote" nor "I
   *  wrote". */
  readonly byProgram: boolean;
  readonly addresses: readonly string[];
}

/** Finds an attribution in a line, or in wrapped lines that the caller joined. Returns null without one. */
export function attributionIn(text: string): Attribution | null {
  const line = betweenRules(text);
  const end = colonOf(line);
  if (end < 0) return null;
  const head = line.slice(0, end + 1);
  const after = line.slice(end + 1).trim();
  const start = after === "" ? 0 : sentenceStart(head);
  const words = head.slice(start);
  if (start < 0 || words.length > maxLength) return null;
  const lower = words.toLowerCase();
  const match = matchOf(lower);
  if (match === null) return null;
  const addresses = addressesIn(words);
  return {
    before: head.slice(0, start).trim(),
    after,
    anchored: match === "anchored",
    byProgram: (addresses.length > 0 || hasTime(lower)) && !handWritten.some((one) => lower.includes(one)),
    addresses,
  };
}

/** Zoho writes the attribution between dashes and without a colon: `---- On ... wrote ----`. */
function betweenRules(text: string): string {
  if (!text.startsWith("---") || !text.endsWith("--")) return text;
  let start = 0;
  let end = text.length;
  while (start < end && (text[start] === "-" || text[start] === " ")) start++;
  while (end > start && (text[end - 1] === "-" || text[end - 1] === " ")) end--;
  return `${text.slice(start, end)}:`;
}

/** Returns the index of the colon that ends the line, precedes a quote mark, or follows the verb of an
 *  anchored attribution. */
function colonOf(line: string): number {
  if (/[:：]$/.test(line)) return line.length - 1;
  const marked = Math.max(line.indexOf(": >"), line.indexOf(":>"));
  if (marked >= 0 || !line.includes("@")) return marked;
  const lower = line.slice(0, maxLength).toLowerCase();
  for (const { starts, says } of attributions) {
    if (!starts.some((start) => start !== "" && lower.startsWith(start))) continue;
    for (const verb of says) {
      const at = lower.indexOf(`${verb}: `);
      if (at > lower.indexOf("@") && lower.includes("@")) return at + verb.length;
    }
  }
  return -1;
}

/** Returns the index at which a sentence can begin in the line; 0 when the line itself begins with an
 *  attribution, -1 when there is no such index. */
function sentenceStart(head: string): number {
  const words = ["On ", "Am ", "Le ", "El ", "Op ", "Em ", "Den ", "Il "];
  let best = words.some((word) => head.startsWith(word)) ? 0 : -1;
  for (const word of words) {
    const at = head.lastIndexOf(` ${word}`);
    if (at >= 0) best = Math.max(best, at + 1);
  }
  return best;
}

function matchOf(line: string): "anchored" | "loose" | null {
  if (!line.includes("@") && !looksDated(line)) return null;
  let best: "loose" | null = datedByYear.test(line) || isDatedAddress(line) ? "loose" : null;
  for (const { starts, says } of attributions) {
    const start = starts.find((one) => line.startsWith(one));
    if (start === undefined || !says.some((verb) => line.includes(verb, Math.max(0, start.length - 1))))
      continue;
    if (start !== "") return "anchored";
    best = "loose";
  }
  return best;
}

/** True for a date, a time, and an address in brackets at the end: the form without a verb of Gmail
 *  (Russian, Hebrew), mail.ru and Yandex. */
function isDatedAddress(line: string): boolean {
  return (
    /[<(]\s{0,2}[^\s<>()]{1,64}@[^\s<>()]{1,255}[>)][\s\u200e\u200f\u202a-\u202e]{0,8}[:：]$/.test(
      line.slice(-350),
    ) &&
    /\d/.test(line) &&
    hasTime(line) &&
    looksDated(line.replace(/\d{1,2}:\d\d/g, ""))
  );
}

const hasTime = (line: string) =>
  /\d{1,2}[:.h]\d\d(?!\d)(?!\.\d)/.test(line.replace(/\d{1,2}\.\d{1,2}\.\d{2,4}/g, ""));

/** True for a year, a time, or a day with dots or slashes. A single number ("the 3 of us wrote:") is not
 *  a date. */
function looksDated(line: string): boolean {
  return /\b(?:19|20)\d\d\b|\d{1,2}[:.h]\d\d|\d{1,2}[./-]\s?\d{1,2}[./-]|\d{4}[年년]/u.test(line);
}

/** True for a year, or a day with a month in digits. */
export function hasDate(text: string): boolean {
  return /\b(?:19|20)\d\d\b|\b\d{1,2}[./-]\s?\d{1,2}[./-]|\d{4}[年년]/u.test(text);
}

/** Returns the addresses in a line, lower case. */
export function addressesIn(text: string): readonly string[] {
  const found = text.slice(0, 1000).match(/[^\s<>()[\]:;,"'@]{1,64}@[^\s<>()[\]:;,"'@]{1,255}/g) ?? [];
  return found.map((address) => address.toLowerCase());
}
