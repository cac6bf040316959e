// Lines of a mail and what each of them is.

import { type Attribution, attributionIn } from "./attribution.ts";
import { findMarkers } from "./marker.ts";
import { forwardedMessage, type HeaderLabel, headerLabels, originalMessage } from "./phrases.ts";

export interface Line {
  readonly text: string;
  /** `tail`: from here on everything is quoted, whether marked so or not. */
  readonly kind: "own" | "blank" | "quote" | "tail";
}

/** Longer lines are never looked into: no mail program writes its own lines that long. */
const maxLine = 1000;
/** Over how many lines a program wraps "On ... wrote:". */
const maxWrap = 3;
/** Lines that end in a colon are looked at closely, but not more of them than any person writes. */
const maxLooks = 3000;
/** How many lines after its first a header block may take. */
const headerBlock = 10;

/** Tells each line's kind, each line looked at a bounded number of times. */
export function scan(texts: readonly string[]): readonly Line[] {
  const lines: { text: string; kind: Line["kind"] }[] = texts.map((text) => ({ text, kind: kindOf(text) }));
  let looks = 0;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i];
    if (line === undefined || line.kind !== "own" || line.text.length > maxLine) continue;
    if (startsTail(texts, i)) line.kind = "tail";
    else if (mayEndAttribution(line.text) && looks++ < maxLooks) markAttribution(lines, i);
    // What comes after the first tail is cut whatever it is.
    if (lines[i]?.kind === "tail" || lines[i + 1]?.kind === "tail") break;
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

function startsTail(texts: readonly string[], at: number): boolean {
  const text = (texts[at] ?? "").trim();
  if (isOriginalMessage(text) || (findMarkers(text).length > 0 && text.length < 200)) return true;
  if (isRule(text)) return startsHeaderBlock(texts, nextFilled(texts, at + 1));
  return startsHeaderBlock(texts, at);
}

/** An attribution wrapped over up to three lines ends here: what follows (or only what is marked) is quoted. */
function markAttribution(lines: { text: string; kind: Line["kind"] }[], end: number): void {
  let joined = "";
  let best: { start: number; found: Attribution } | null = null;
  for (let start = end; start >= 0 && end - start < maxWrap; start--) {
    const line = lines[start];
    if (line === undefined || line.kind !== "own" || line.text.length > maxLine) break;
    if (start < end && !mayBeWrapped(line.text)) break;
    joined = joined === "" ? line.text.trim() : `${line.text.trim()} ${joined}`;
    const found = attributionIn(joined);
    if (found === null || (found.before !== "" && start !== end)) continue;
    if (best === null || found.anchored) best = { start, found };
    if (found.anchored) break;
  }
  if (best !== null) settleAttribution(lines, best.start, end, best.found);
}

/** A sentence ends before the attribution begins. */
const mayBeWrapped = (text: string) => !/[.!?…]\s*$/.test(text.slice(-20));

function settleAttribution(
  lines: { text: string; kind: Line["kind"] }[],
  start: number,
  end: number,
  found: Attribution,
): void {
  const next = lines.slice(end + 1, end + 4).find((line) => line.kind !== "blank");
  const kind = next?.kind === "quote" && found.after === "" ? "quote" : "tail";
  const first = lines[start];
  if (first === undefined) return;
  if (found.before === "") {
    for (let i = start; i <= end; i++) {
      const line = lines[i];
      if (line !== undefined) line.kind = kind;
    }
    return;
  }
  // Everything on one line: the writer's words, then the attribution, then the quote.
  first.text = found.before;
  const after = lines[end + 1];
  if (after !== undefined) after.kind = "tail";
}

function mayEndAttribution(text: string): boolean {
  const end = text.trimEnd();
  return end.endsWith(":") || end.endsWith("：") || end.includes(": >") || end.includes(":>");
}

/** `-----Original Message-----`: dashes, words that are known, dashes. */
function isOriginalMessage(text: string): boolean {
  return originalMessage.has(betweenDashes(text));
}

/** Does this line open a forwarded mail? With dashes, or Apple's form with a colon. */
export function isForwardLine(text: string): boolean {
  const line = text.trim();
  if (line.length > 200) return false;
  if (forwardedMessage.has(betweenDashes(line))) return true;
  return /[:：]$/.test(line) && forwardedMessage.has(line.slice(0, -1).trim().toLowerCase());
}

/** Lower-cased words between at least two dashes (or underscores, equals signs) on the left and any on the right; else "". */
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

/** A line of underscores or dashes, as Outlook draws it above a header block. */
function isRule(text: string): boolean {
  return text.length >= 5 && text.length <= 200 && /^[-_=—–*]+$/.test(text);
}

function nextFilled(texts: readonly string[], from: number): number {
  for (let i = from; i < Math.min(texts.length, from + 3); i++) if ((texts[i] ?? "").trim() !== "") return i;
  return -1;
}

/**
 * Header lines as Outlook and others write them over a quoted mail. A timetable ("From: Berlin, To: Munich, Date: May") is none: there must
 * be a subject, or an address behind "From".
 */
function startsHeaderBlock(texts: readonly string[], at: number): boolean {
  if (at < 0) return false;
  const first = labelOf(texts[at] ?? "");
  if (first === null) return false;
  const seen = new Map<HeaderLabel, string>([[first.label, first.value]]);
  for (let i = at + 1; i < Math.min(texts.length, at + headerBlock); i++) {
    const next = labelOf(texts[i] ?? "");
    if (next !== null) seen.set(next.label, next.value);
    else if (seen.size >= 3) break;
  }
  if (!seen.has("from") || seen.size < 3) return false;
  return seen.has("subject") ? first.label !== "subject" : (seen.get("from") ?? "").includes("@");
}

function labelOf(text: string): { label: HeaderLabel; value: string } | null {
  if (text.length > maxLine) return null;
  const line = text.replace(/^[\s*_]{0,10}/, "");
  const colon = line.slice(0, 40).search(/[:：]/);
  if (colon <= 0) return null;
  const label = headerLabels.get(
    line
      .slice(0, colon)
      .replace(/[*_\s]{1,10}$/, "")
      .toLowerCase(),
  );
  return label === undefined ? null : { label, value: line.slice(colon + 1) };
}
