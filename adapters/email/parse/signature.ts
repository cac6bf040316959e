// Finds text that mail clients and templates add below a message: signatures, lines of phones,
// confidentiality notices.

import type { Line } from "./lines.ts";
import {
  businessWords,
  closings,
  devices,
  disclaimers,
  leadingWords,
  mobileEndings,
  mobileSignatures,
} from "./phrases.ts";

/** A block below "-- " with more lines is not a signature. */
const maxSignature = 15;
/** Longer lines are text, or a confidentiality notice in one line. */
const maxLine = 1000;

/** Returns the index of the first line of the signature, the phone's line or the notice at the end of
 *  `lines`; -1 when they end in the customer's text. `names`: parts of the sender's name, lower case. */
export function signatureStart(lines: readonly Line[], names: readonly string[] = []): number {
  let filled = 0;
  let last = -1;
  for (let i = lines.length - 1; i >= 0 && filled <= maxSignature; i--) {
    const line = lines[i];
    if (line === undefined || line.kind === "blank") continue;
    if (line.kind !== "own") break;
    if (isDelimiter(line.text)) {
      if (!isSignature(lines, i, names)) break;
      return i;
    }
    if (last < 0) {
      last = i;
      if (isMobile(line.text)) return i;
    }
    filled++;
  }
  return last < 0 ? -1 : noticeStart(lines, last);
}

const isDelimiter = (text: string) => /^(?:--|— |—|__)\s{0,3}$/.test(text.slice(0, 8)) && text.length < 6;

/** True when the block below the delimiter at `at` is a signature. People also write lists below dashes,
 *  so one sign is required: the delimiter of RFC 3676 ("-- "), the sender's name, a contact number or
 *  address, or a single name. */
function isSignature(lines: readonly Line[], at: number, names: readonly string[]): boolean {
  const before = filledBefore(lines, at).slice(-40).trim();
  if (/[:：]$/.test(before) || leadingWords.test(before)) return false;
  const block = lines.slice(at + 1).filter((line) => line.kind === "own");
  const texts = block.map((line) => line.text.slice(0, maxLine).trim());
  const [first] = texts;
  if (first === undefined || texts.every(isMobile)) return true;
  const notice = isNotice(texts.join(" "));
  if (isAddressList(texts) || texts.some(isItem) || (!notice && texts.some(isSentence))) return false;
  const named = texts.some((text) => hasName(text, names));
  if (!named && !isName(first) && !isClosing(first) && !isMobile(first)) return false;
  const strict = /^--[ \u00a0]/.test(lines[at]?.text ?? "");
  return strict || named || notice || texts.some(isContact) || (texts.length === 1 && isName(first));
}

function filledBefore(lines: readonly Line[], at: number): string {
  for (let i = at - 1; i >= 0; i--) if (lines[i]?.kind !== "blank") return lines[i]?.text ?? "";
  return "";
}

/** True for a list item, an amount, or an order number. */
const isItem = (text: string) =>
  (/\d/.test(text) && businessWords.test(text.toLowerCase())) ||
  /^(?:[-*•·–+]|\d{1,3}[.)])\s+\S/.test(text) ||
  /(?:^|\s)\d{1,6}\s?[x×](?:\s|$)/i.test(text);

const isSentence = (text: string) =>
  /[?？]$/.test(text) || (/[.!。！]$/.test(text) && text.split(/\s+/, 7).length > 5 && !isMobile(text));

/** True for a few capitalized terms without digits, as names, roles and companies are written. Short
 *  particles may be in lower case. */
function isName(text: string): boolean {
  if (text.length > 60 || /[\d?!:;]/.test(text)) return false;
  const words = text.split(/[\s,&/|-]+/).filter((word) => word !== "");
  return (
    words.length > 0 && words.length <= 6 && words.every((word) => word.length <= 3 || !/^\p{Ll}/u.test(word))
  );
}

function hasName(text: string, names: readonly string[]): boolean {
  if (text.length > 100) return false;
  const words = text.toLowerCase().split(/[^\p{L}\p{M}]+/u);
  return names.some((name) => words.includes(name));
}

/** True for an email address, a web address or a telephone number. */
const isContact = (text: string) =>
  /\S@\S+\.\S|https?:\/\/|\bwww\./i.test(text) || /[+(]?\d[\d ()/.-]{6,24}\d/.test(text);

export const isClosing = (text: string) =>
  text.length < 60 && closings.some((closing) => text.trim().toLowerCase().startsWith(closing));

/** True for the line that a phone or a program adds below a message: it has a known start (or end), is
 *  short, and names a device or a program. */
function isMobile(text: string): boolean {
  const line = text
    .trim()
    .replace(/^[-–—_*\s]{1,10}/, "")
    .toLowerCase();
  if (line.length === 0 || line.length > 160 || /[?]/.test(line) || line.split(/\s+/).length > 14)
    return false;
  if (!devices.some((device) => line.includes(device))) return false;
  return (
    mobileSignatures.some((start) => line.startsWith(start)) ||
    mobileEndings.some((end) => line.endsWith(end))
  );
}

/** A list of addresses is content, and never a signature. */
function isAddressList(texts: readonly string[]): boolean {
  const addresses = texts.filter(
    (text) => text.length < 320 && /^\W{0,4}[^\s@]{1,64}@[^\s@]{1,255}$/.test(text),
  );
  return addresses.length >= 3 || (addresses.length >= 2 && addresses.length === texts.length);
}

/** Returns the index at which the last paragraph begins when it is a confidentiality notice, else -1. */
function noticeStart(lines: readonly Line[], last: number): number {
  let start = last;
  while (start > 0 && last - start < maxSignature && lines[start - 1]?.kind === "own") start--;
  const text = lines
    .slice(start, last + 1)
    .map((line) => line.text.slice(0, maxLine))
    .join(" ");
  // Without a blank line above it, the paragraph may also contain the customer's text.
  if (start > 0 && lines[start - 1]?.kind === "own") return -1;
  return isNotice(text) ? start : -1;
}

function isNotice(text: string): boolean {
  const lower = text.toLowerCase();
  return (
    lower.length >= 60 &&
    !/[?？]/.test(lower) &&
    [disclaimers.secret, disclaimers.reader, disclaimers.mistake].every((words) => words.test(lower))
  );
}
