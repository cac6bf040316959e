// Classifies the lines of a message: written by the sender, quoted, or the start of a quoted or forwarded message.
// Recognizes attribution lines such as "On Friday, Anna wrote:" in many languages.

import { isHeaderBlock } from "../headers.ts";
import {
  attributions,
  datedByYear,
  forwardedMessage,
  genericDates,
  type HeaderLabel,
  handWritten,
  headerLabels,
  originalMessage,
} from "./phrases.ts";

export interface TextLine {
  readonly text: string;
  /** `tail`: a quoted message starts here and extends to the end, marked or not. `forward`: a message of
   *  a third party starts here and is content. Both occur at most once. The lines after them keep the
   *  kind that their first character determines. */
  readonly kind: "own" | "blank" | "quote" | "tail" | "forward";
  /** True for text in a container that the mail client marks as a signature. */
  readonly signed?: true;
}

export interface ScanOptions {
  /** Report unmarked quotes as `tail`. Otherwise only marked quotes and forwards are recognized. */
  readonly tails: boolean;
  /** True for addresses whose messages may be cut as quotes. A header block or attribution of another
   *  sender starts a forward. */
  readonly isOwn: (address: string) => boolean;
}

/** Longer lines are not inspected, because mail clients never generate lines that long. */
const maxLine = 1000;
/** Number of lines over which mail clients wrap "On ... wrote:". */
const maxWrap = 4;
/** Attribution candidates that are inspected per message; limits the work on hostile text. */
const maxLooks = 150;
/** Lines of a header block that are inspected after its first line. */
const headerBlock = 10;

type Mutable = { text: string; kind: TextLine["kind"] };

/** Classifies each line. Each line is inspected a bounded number of times. */
export function scan(texts: readonly string[], options: ScanOptions): readonly TextLine[] {
  const lines: Mutable[] = texts.map((text) => ({ text, kind: kindOf(text) }));
  const labels = labelReader(texts);
  let looks = 0;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    if (line === undefined || line.text.length > maxLine) continue;
    // Apple Mail quotes a forwarded message together with the line that announces it.
    if (line.kind === "quote" && lines[i - 1]?.kind !== "quote" && isForwardLine(unmarked(line.text)))
      line.kind = "forward";
    if (line.kind !== "own") {
      if (line.kind === "forward") break;
      continue;
    }
    const start = startOf(texts, i, labels, options);
    if (start !== null) line.kind = start;
    else if (looks < maxLooks && mayEndAttribution(line.text)) {
      looks++;
      markAttribution(lines, i, labels, options);
    }
    if (lines[i]?.kind === "tail" || lines[i]?.kind === "forward" || lines[i + 1]?.kind === "tail") break;
  }
  return lines;
}

function kindOf(text: string): "own" | "blank" | "quote" {
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (char === ">") return "quote";
    if (char !== " " && char !== "\t") return "own";
  }
  return "blank";
}

const unmarked = (text: string) => text.replace(/^[>\s]{1,20}/, "");

/** Returns `tail` or `forward` when a quoted message starts at this line, else null. */
function startOf(
  texts: readonly string[],
  at: number,
  labels: LabelAt,
  { tails, isOwn }: ScanOptions,
): "tail" | "forward" | null {
  const text = (texts[at] ?? "").trim();
  // All such lines begin with a dash or contain a colon; most other lines have neither.
  if (!isDash(text[0]) && !text.includes(":") && !text.includes("：")) return null;
  if (isForwardLine(text)) return "forward";
  if (!tails) return null;
  const original = isOriginalMessage(text);
  const first = original || isRule(text) || isTitle(text) ? nextFilled(texts, at + 1) : at;
  const from = senderOfBlock(first, labels);
  if (from === null) return original || (isRule(text) && isHeaderBlock(texts, at, isOwn)) ? "tail" : null;
  return addressesIn(from).every(isOwn) ? "tail" : "forward";
}

/** Finds the attribution that ends at line `end`, possibly wrapped. Marks it and the text it quotes. */
function markAttribution(lines: Mutable[], end: number, labels: LabelAt, { tails, isOwn }: ScanOptions): void {
  let joined = "";
  let best: { start: number; found: Attribution } | null = null;
  for (let start = end; start >= 0 && end - start < maxWrap; start--) {
    const line = lines[start];
    if (line === undefined || line.kind !== "own" || line.text.length > maxLine) break;
    // A line that ends a sentence is above the attribution.
    if (start < end && /[.!?…]\s*$/.test(line.text.slice(-20))) break;
    joined = joined === "" ? line.text.trim() : `${line.text.trim()} ${joined}`;
    const found = attributionIn(joined);
    if (found === null || (found.before !== "" && start !== end)) continue;
    // "On ..." begins a wrapped attribution only with its date; otherwise the line may be the end of the
    // customer's text.
    if (best === null || (found.anchored && hasDate(line.text))) best = { start, found };
    if (best.start === start && (found.anchored || (found.addresses.length > 0 && hasDate(joined)))) break;
  }
  if (best === null) return;
  const { start, found } = best;

  if (found.after === "" && markQuoteBelow(lines, end)) {
    for (let i = aboveAttribution(lines, start, labels); i <= end; i++) (lines[i] as Mutable).kind = "quote";
    return;
  }
  const first = lines[start];
  if (!tails || !found.byProgram || first === undefined) return;
  const kind = found.addresses.every(isOwn) ? "tail" : "forward";
  if (found.before === "") {
    const top = lines[aboveAttribution(lines, start, labels)];
    if (top !== undefined) top.kind = kind;
    if (kind === "forward") first.kind = kind;
    return;
  }
  // One line holds the customer's text, the attribution and the quote.
  if (kind === "forward") return;
  first.text = found.before;
  const after = lines[end + 1];
  if (after !== undefined) after.kind = "tail";
}

/** Returns the first line of the quote. Yandex writes a rule, "To:" and "Subject:" above its
 *  attribution; all of them belong to the quote. */
function aboveAttribution(lines: readonly Mutable[], start: number, labels: LabelAt): number {
  let top = start;
  while (top > 0 && start - top < 4 && labels(top - 1) !== null) top--;
  return top < start && isRule((lines[top - 1]?.text ?? "").trim()) ? top - 1 : start;
}

/** True when the text below an attribution is marked as a quote. The marks `|` and `C>` (initials) count only here,
 *  because elsewhere they begin the lines of tables and of other content. Their lines become quotes. */
function markQuoteBelow(lines: Mutable[], end: number): boolean {
  let at = end + 1;
  while (at < end + 4 && lines[at]?.kind === "blank") at++;
  const next = lines[at];
  if (next === undefined) return false;
  if (next.kind === "quote") return true;
  const mark = /^\s{0,3}(?:\||\p{L}{1,4}>)/u.exec(next.text)?.[0].trim();
  if (mark === undefined || (mark === "|" && /\|\s*$/.test(next.text.trimEnd().slice(1)))) return false;
  for (let line = lines[at]; line !== undefined; line = lines[++at]) {
    if (line.kind === "own" && line.text.trimStart().startsWith(mark)) line.kind = "quote";
    else if (line.kind !== "blank" && line.kind !== "quote") break;
  }
  return true;
}

function mayEndAttribution(text: string): boolean {
  const end = text.trim();
  return (
    end.endsWith(":") ||
    end.endsWith("：") ||
    end.includes(": >") ||
    end.includes(":>") ||
    (end.startsWith("--") && end.endsWith("--")) ||
    (end.includes("@") && /\S: {1,5}\S/.test(end))
  );
}

/** True for `-----Original Message-----`: dashes, a known phrase, dashes. */
function isOriginalMessage(text: string): boolean {
  return originalMessage.has(betweenDashes(text));
}

/** True for a line that announces a forwarded message: between dashes, or Apple's form with a colon. */
export function isForwardLine(text: string): boolean {
  const line = text.trim();
  if (line.length > 200) return false;
  if (forwardedMessage.has(betweenDashes(line))) return true;
  return /[:：]$/.test(line) && forwardedMessage.has(line.slice(0, -1).trim().toLowerCase());
}

/** True for text between dashes, as programs write it in their language above a header block. */
const isTitle = (text: string): boolean => text.endsWith("--") && betweenDashes(text) !== "";

/** Returns the lower-case text between at least two dashes (or underscores, equals signs) on the left
 *  and any on the right; else "". */
function betweenDashes(text: string): string {
  if (text.length > 200) return "";
  let start = 0;
  let end = text.length;
  while (start < end && isDash(text[start])) start++;
  if (start < 2) return "";
  while (end > start && isDash(text[end - 1])) end--;
  return text.slice(start, end).toLowerCase().replace(/:$/, "");
}

const isDash = (char: string | undefined) => char !== undefined && " -_=*–—".includes(char);

/** True for a line of underscores or dashes, as Outlook draws it above a header block. */
export function isRule(text: string): boolean {
  return text.length >= 5 && text.length <= 200 && /^[-_=—–*]+$/.test(text);
}

function nextFilled(texts: readonly string[], from: number): number {
  for (let i = from; i < Math.min(texts.length, from + 3); i++) if ((texts[i] ?? "").trim() !== "") return i;
  return -1;
}

interface Label {
  readonly label: HeaderLabel;
  readonly value: string;
  /** True for "Date" and its translations. Mail clients write "Sent" when they omit the addresses. */
  readonly generic: boolean;
}
type LabelAt = (at: number) => Label | null;

/** Reads the header label of a line. The result is cached, because a block of labels is inspected from
 *  each of its lines. */
function labelReader(texts: readonly string[]): LabelAt {
  const known = new Map<number, Label | null>();
  return (at) => {
    let label = known.get(at);
    if (label === undefined) {
      label = labelOf(texts[at] ?? "");
      known.set(at, label);
    }
    return label;
  };
}

/** Returns the value of "From" when a header block starts at this line, as Outlook and others write it above a quoted
 *  message; else null. A form or a timetable ("From: Berlin, To: Munich, Date: May, Subject: trip") does not count:
 *  "From" must have an address, or the block must have a subject and "Sent". */
function senderOfBlock(at: number, labels: LabelAt): string | null {
  if (at < 0) return null;
  const first = labels(at);
  if (first === null) return null;
  const seen = new Map<HeaderLabel, Label>([[first.label, first]]);
  for (let i = at + 1; i < at + headerBlock; i++) {
    const next = labels(i);
    if (next === null) {
      // A long list of recipients is wrapped. Before "From" there is none, but text of the author above the block.
      if (seen.size >= 3 || !seen.has("from")) break;
    } else if (!seen.has(next.label)) seen.set(next.label, next);
    // Text of the author that looks like a block ends where the block begins.
    else if (next.label === "from") break;
    else if (first.label !== "from") return null;
  }
  const from = seen.get("from")?.value;
  if (from === undefined || seen.size < 3) return null;
  const sent = seen.get("sent");
  const outlook = seen.has("subject") && first.label !== "subject" && sent !== undefined && !sent.generic;
  return outlook || from.includes("@") ? from : null;
}

function labelOf(text: string): Label | null {
  if (text.length > maxLine) return null;
  const line = text.replace(/^[\s*_]{0,10}/, "");
  const colon = line.slice(0, 40).search(/[:：]/);
  if (colon <= 0) return null;
  const word = line
    .slice(0, colon)
    .replace(/[*_\s]{1,10}$/, "")
    .toLowerCase();
  const label = headerLabels.get(word);
  return label === undefined ? null : { label, value: line.slice(colon + 1), generic: genericDates.has(word) };
}

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
  /** True when a mail client certainly wrote it: it has known words, an address or a date with a time, and nothing that
   *  people write ("you wrote"). An unmarked quote can follow only these. */
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
  const known = matchOf(lower);
  const match = known ?? (isDated(lower) && hasAddress.test(lower) ? "loose" : null);
  if (match === null) return null;
  const addresses = addressesIn(words);
  const isTyped = handWritten.some((one) => ` ${lower}`.includes(one));
  return {
    before: head.slice(0, start).trim(),
    after,
    anchored: match === "anchored",
    byProgram: known !== null && (addresses.length > 0 || isDated(lower)) && !isTyped,
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
    if (start === undefined || !says.some((verb) => line.includes(verb, Math.max(0, start.length - 1)))) continue;
    if (start !== "") return "anchored";
    best = "loose";
  }
  return best;
}

/** True for a date, a time, and an address in brackets at the end: the form without a verb of Gmail
 *  (Russian, Hebrew), mail.ru and Yandex. */
function isDatedAddress(line: string): boolean {
  return (
    /[<(]\s{0,2}[^\s<>()]{1,64}@[^\s<>()]{1,255}[>)][\s\u200e\u200f\u202a-\u202e]{0,8}[:：]$/.test(line.slice(-350)) &&
    isDated(line)
  );
}

const isDated = (line: string) => hasTime(line) && looksDated(line.replace(/\d{1,2}:\d\d/g, ""));
const hasAddress = /[<(]\s{0,2}[^\s<>()]{1,64}@[^\s<>()]{1,255}[>)]|\s[^\s<>()]{1,64}@[^\s<>()]{1,255}[:：]$/;

const hasTime = (line: string) =>
  /\p{Nd}{1,2}[:.h]\p{Nd}{2}(?!\p{Nd}|\.\d)/u.test(line.replace(/\d{1,2}\.\d{1,2}\.\d{2,4}/g, ""));

/** True for a year, a time, or a day with dots or slashes. A single number ("the 3 of us wrote:") is not a date. */
function looksDated(line: string): boolean {
  return /\b(?:19|20)\d\d\b|\d{1,2}[:.h]\d\d|\d{1,2}[./-]\s?\d{1,2}[./-]|\d{4}[年년]|[^\P{Nd}0-9]{4}/u.test(line);
}

/** True for a year, or a day with a month in digits. */
function hasDate(text: string): boolean {
  return /\b(?:19|20)\d\d\b|\b\d{1,2}[./-]\s?\d{1,2}[./-]|\d{4}[年년]/u.test(text);
}

/** Returns the addresses in a line, lower case. */
export function addressesIn(text: string): readonly string[] {
  const found = text.slice(0, 1000).match(/[^\s<>()[\]:;,"'@]{1,64}@[^\s<>()[\]:;,"'@]{1,255}/g) ?? [];
  return found.map((address) => address.toLowerCase());
}
