// Classifies the lines of a message: written by the sender, quoted, or the start of a quoted or forwarded
// message.

import { type Attribution, addressesIn, attributionIn, hasDate } from "./attribution.ts";
import {
  forwardedMessage,
  genericDates,
  type HeaderLabel,
  headerLabels,
  originalMessage,
} from "./phrases.ts";

export interface Line {
  readonly text: string;
  /** `tail`: a quoted message starts here and extends to the end, marked or not. `forward`: a message of
   *  a third party starts here and is content. Both occur at most once. The lines after them keep the
   *  kind that their first character determines. */
  readonly kind: "own" | "blank" | "quote" | "tail" | "forward";
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

type Mutable = { text: string; kind: Line["kind"] };

/** Classifies each line. Each line is inspected a bounded number of times. */
export function scan(texts: readonly string[], options: ScanOptions): readonly Line[] {
  const lines: Mutable[] = texts.map((text) => ({ text, kind: kindOf(text) }));
  const labels = labelReader(texts);
  let looks = 0;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    if (line === undefined || line.text.length > maxLine) continue;
    if (line.kind === "quote" && startsQuotedForward(lines, i)) line.kind = "forward";
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

/** True for a quoted forward line: Apple Mail quotes a forwarded message together with the line that
 *  announces it. */
function startsQuotedForward(lines: readonly Mutable[], at: number): boolean {
  return (
    lines[at - 1]?.kind !== "quote" && isForwardLine((lines[at]?.text ?? "").replace(/^[>\s]{1,20}/, ""))
  );
}

/** Returns `tail` or `forward` when a quoted message starts at this line, else null. */
function startOf(
  texts: readonly string[],
  at: number,
  labels: Labels,
  { tails, isOwn }: ScanOptions,
): "tail" | "forward" | null {
  const text = (texts[at] ?? "").trim();
  // All such lines begin with a dash or contain a colon; most other lines have neither.
  if (!isDash(text[0]) && !text.includes(":") && !text.includes("：")) return null;
  if (isForwardLine(text)) return "forward";
  if (!tails) return null;
  const original = isOriginalMessage(text);
  const first = original || isRule(text) ? nextFilled(texts, at + 1) : at;
  const from = senderOfBlock(first, labels);
  if (from === null) return original ? "tail" : null;
  return addressesIn(from).every(isOwn) ? "tail" : "forward";
}

/** Finds the attribution that ends at line `end`, possibly wrapped. Marks it and the text it quotes. */
function markAttribution(lines: Mutable[], end: number, labels: Labels, options: ScanOptions): void {
  let joined = "";
  let best: { start: number; found: Attribution } | null = null;
  for (let start = end; start >= 0 && end - start < maxWrap; start--) {
    const line = lines[start];
    if (line === undefined || line.kind !== "own" || line.text.length > maxLine) break;
    if (start < end && !mayBeWrapped(line.text)) break;
    joined = joined === "" ? line.text.trim() : `${line.text.trim()} ${joined}`;
    const found = attributionIn(joined);
    if (found === null || (found.before !== "" && start !== end)) continue;
    // "On ..." begins a wrapped attribution only with its date; otherwise the line may be the end of the
    // customer's text.
    if (best === null || (found.anchored && hasDate(line.text))) best = { start, found };
    if (best.start === start && (found.anchored || (found.addresses.length > 0 && hasDate(joined)))) break;
  }
  if (best !== null) settleAttribution(lines, best.start, end, best.found, labels, options);
}

/** True when the line does not end a sentence. A sentence ends before the attribution begins. */
const mayBeWrapped = (text: string) => !/[.!?…]\s*$/.test(text.slice(-20));

function settleAttribution(
  lines: Mutable[],
  start: number,
  end: number,
  found: Attribution,
  labels: Labels,
  { tails, isOwn }: ScanOptions,
): void {
  if (found.after === "" && markQuoteBelow(lines, end)) {
    for (let i = start; i <= end; i++) (lines[i] as Mutable).kind = "quote";
    return;
  }
  if (!tails || !found.byProgram) return;
  const kind = found.addresses.every(isOwn) ? "tail" : "forward";
  const first = lines[start];
  if (first === undefined) return;
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
function aboveAttribution(lines: readonly Mutable[], start: number, labels: Labels): number {
  let top = start;
  while (top > 0 && start - top < 4 && labels(top - 1) !== null) top--;
  return top < start && isRule((lines[top - 1]?.text ?? "").trim()) ? top - 1 : start;
}

/** True when the text below an attribution is marked as a quote. The marks `|` and `C>` (initials) count
 *  only here, because elsewhere they begin the lines of tables and of other content. Their lines become
 *  quotes. */
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
type Labels = (at: number) => Label | null;

/** Reads the header label of a line. The result is cached, because a block of labels is inspected from
 *  each of its lines. */
function labelReader(texts: readonly string[]): Labels {
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

/** Returns the value of "From" when a header block starts at this line, as Outlook and others write it
 *  above a quoted message; else null. A form or a timetable ("From: Berlin, To: Munich, Date: May,
 *  Subject: trip") does not count: "From" must have an address, or the block must have a subject and
 *  "Sent". */
function senderOfBlock(at: number, labels: Labels): string | null {
  if (at < 0) return null;
  const first = labels(at);
  if (first === null) return null;
  const seen = new Map<HeaderLabel, Label>([[first.label, first]]);
  for (let i = at + 1; i < at + headerBlock; i++) {
    const next = labels(i);
    if (next === null) {
      if (seen.size >= 3) break;
    } else if (!seen.has(next.label)) seen.set(next.label, next);
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
  return label === undefined
    ? null
    : { label, value: line.slice(colon + 1), generic: genericDates.has(word) };
}
