// Finds what mail clients, templates and servers add below the text of a message: signatures, the lines of phones, confidentiality
// notices, the notes of virus scanners. A signature begins with a delimiter ("-- "), or it is in a container that the client marks.

import { findMarkers } from "../headers.ts";
import type { TextLine } from "./lines.ts";
import {
  apologies,
  businessWords,
  closings,
  deviceNames,
  devices,
  disclaimers,
  inflected,
  leadingWords,
  mobileLines,
  mobileTerms,
} from "./phrases.ts";

/** A block below "-- " with more lines is not a signature. */
const maxSignature = 15;
/** Lines of a container with a signature. */
const maxContainer = 60;
/** Longer lines are text, or a confidentiality notice in one line. */
const maxLine = 1000;

/** Returns the index of the first line of the signature, the phone's line or the notice at the end of
 *  `lines`; -1 when they end in the customer's text. `names`: parts of the sender's name, lower case. */
export function signatureStart(lines: readonly TextLine[], names: readonly string[] = []): number {
  const container = containerStart(lines, names);
  if (container >= 0) return container;
  let filled = 0;
  let last = -1;
  for (let i = lines.length - 1; i >= 0 && filled <= maxSignature; i--) {
    const line = lines[i];
    if (line === undefined || line.kind === "blank") continue;
    if (line.kind !== "own") break;
    if (isDelimiter(line.text)) {
      const strict = /^--[ \u00a0]/.test(line.text);
      if (!isSignature(lastFilled(lines, i), lines.slice(i + 1), names, strict)) break;
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

/** Returns the index of the first line of the container at the end of `lines` that the mail client marks; -1 without one, and
 *  when the customer seems to have typed into it. */
function containerStart(lines: readonly TextLine[], names: readonly string[]): number {
  let start = -1;
  for (let i = lines.length - 1; i >= Math.max(0, lines.length - maxContainer); i--) {
    const { kind, text, signed } = lines[i] as TextLine;
    if (signed) start = i;
    // A rule in a container has no text that could be marked, and neither has the target of a link around it.
    else if (kind !== "blank" && (kind !== "own" || /[\p{L}\p{N}]/u.test(text.replace(bareLink, "")))) break;
  }
  if (start < 0) return -1;
  const block = lines.slice(start);
  return isSignature(lastFilled(lines, start), block, names, true) && !block.some(isProse) ? start : -1;
}

const bareLink = /^\s{0,20}\[https?:[^\s\]]{1,1000}\]\s{0,20}$/;

/** True for three words in lower case one after the other, which names, roles and addresses do not have. */
const isProse = ({ text }: TextLine) =>
  /(?:^|\s)(?:\p{Ll}[\p{L}\p{M}'’]{0,40},? ){2}\p{Ll}/u.test(text.slice(0, maxLine)) &&
  !isMobile(text) &&
  !isNotice(text);

const isDelimiter = (text: string) => /^(?:--|— |—|__)\s{0,3}$/.test(text.slice(0, 8)) && text.length < 6;

/** Our marker ends our message. */
export const hasOurMarker = (line: TextLine): boolean => line.text.length < 1000 && findMarkers(line.text).length > 0;

/** Returns the last line before `end` that is not blank. Copies nothing: a mail may have 100,000 lines. */
function lastFilled(lines: readonly TextLine[], end: number): TextLine | undefined {
  let at = end - 1;
  while (lines[at]?.kind === "blank") at--;
  return lines[at];
}

/** True when the block below the line `above` is a signature. People also write lists below dashes, so one sign is required: the
 *  delimiter of RFC 3676 ("-- ") or a container (`strict`), the sender's name, a contact number or address, or a single name. */
function isSignature(
  above: TextLine | undefined,
  block: readonly TextLine[],
  names: readonly string[],
  strict: boolean,
): boolean {
  const before = (above?.text ?? "").slice(-40).trim();
  if (/[:：]$/.test(before) || leadingWords.test(before)) return false;
  const own = block.filter((line) => line.kind === "own");
  // This is our signature, and the text below is the answer.
  if (own.some(hasOurMarker)) return false;
  const texts = own.map((line) => line.text.slice(0, maxLine).trim());
  const [first] = texts;
  if (first === undefined || texts.every(isMobile) || isFooterNote(texts.join(" "))) return true;
  const notice = isNotice(texts.join(" "));
  if (isAddressList(texts) || texts.some(isItem) || (!notice && texts.some(isSentence))) return false;
  const named = texts.some((text) => hasName(text, names));
  if (!named && !isName(first) && !isClosing(first) && !isMobile(first)) return false;
  return strict || named || notice || texts.some(isContact) || (texts.length === 1 && isName(first));
}

/** True for a list item, an amount, or an order number. */
const isItem = (text: string) =>
  (/\d/.test(text) && businessWords.test(text.toLowerCase())) ||
  /^(?:[-*•·–+]|\d{1,3}[.)])\s+\S/.test(text) ||
  /(?:^|\s)\d{1,6}\s?[x×](?:\s|$)/i.test(text);

const isSentence = (text: string) =>
  /[?？。！]$/.test(text) || (/[.!]$/.test(text) && text.split(/\s+/, 7).length > 5 && !isMobile(text));

/** True for a few capitalized terms without digits, as names, roles and companies are written. Short
 *  particles may be in lower case. */
function isName(text: string): boolean {
  if (text.length > 60 || /[\d?!:;]/.test(text)) return false;
  const words = text.split(/[\s,&/|-]+/).filter((word) => word !== "");
  return words.length > 0 && words.length <= 6 && words.every((word) => word.length <= 3 || !/^\p{Ll}/u.test(word));
}

export function hasName(text: string, names: readonly string[]): boolean {
  if (text.length > 100) return false;
  const words = text.toLowerCase().split(/[^\p{L}\p{M}]+/u);
  return names.some((name) => words.includes(name));
}

/** True for an email address, a web address or a telephone number. */
const isContact = (text: string) =>
  /\S@\S+\.\S|https?:\/\/|\bwww\./i.test(text) || /[+(]?\d[\d ()/.-]{6,24}\d/.test(text);

export const isClosing = (text: string) =>
  text.length < 60 && closings.some((closing) => text.trim().toLowerCase().startsWith(closing));

/** True for the line that a phone or a program adds below a message: it has a known start (or end), names a device or a
 *  program, and contains nothing else. "Sent from my iPhone the photos are blank" is the customer's sentence. */
function isMobile(text: string): boolean {
  if (text.length > maxLine) return false;
  const line = withoutApology(
    text
      .trim()
      .toLowerCase()
      .replace(/[[<(]?https?:\/\/[^\s<>[\]]{1,800}[>\]]?/g, " ")
      .replace(/\s{1,20}/g, " ")
      .replaceAll("’", "'")
      .replace(/^[-–—_*\s]{1,10}/, "")
      .replace(/[\s.!*_>\])]{1,20}$/, ""),
  );
  if (line.length === 0 || line.length > 160 || /[?]/.test(line) || line.split(/\s+/).length > 14) return false;
  if (!devices.some((device) => `${line.replace(/[;,:]/g, " ")} `.includes(device))) return false;
  return mobileLines.some(
    ({ starts, ends, words }) =>
      starts.some((start) => line.startsWith(start) && namesOnly(line.slice(start.length), words)) ||
      ends.some((end) => line.endsWith(end) && namesOnly(line.slice(0, -end.length), words)),
  );
}

/** Removes "Please excuse my brevity" at the end of the line. */
function withoutApology(line: string): string {
  const apology = apologies.find((words) => line.endsWith(words));
  return apology === undefined ? line : line.slice(0, -apology.length).replace(/[\s.,;:–—-]{1,10}$/, "");
}

/** True when the text has only names of devices, programs and models, and the given words. */
function namesOnly(text: string, words: ReadonlySet<string>): boolean {
  let spaced = text;
  for (const term of mobileTerms) spaced = spaced.replaceAll(term, " ");
  const isKnown = (word: string) => words.has(word) || isDeviceName(word);
  return spaced.split(/[\s,;:.!|/"()[\]<>®™]+/).every((word) => isKnown(word) || word.split(/[-']/).every(isKnown));
}

const deviceWords = new Set(devices.flatMap((device) => [device, ...device.split(/[ .]/)]));

function isDeviceName(word: string): boolean {
  if (word === "" || deviceWords.has(word) || deviceNames.has(word)) return true;
  // Models: "S21", "10", "5G".
  if (/^[a-z]{0,3}\d{1,4}[a-z+]{0,3}$/.test(word)) return true;
  return inflected.some((name) => word.startsWith(name) && word.length <= name.length + 6);
}

/** A list of addresses is content, and never a signature. */
function isAddressList(texts: readonly string[]): boolean {
  const addresses = texts.filter((text) => text.length < 320 && /^\W{0,4}[^\s@]{1,64}@[^\s@]{1,255}$/.test(text));
  return addresses.length >= 3 || (addresses.length >= 2 && addresses.length === texts.length);
}

/** Returns the index at which the last paragraph begins when it is a confidentiality notice, else -1. */
function noticeStart(lines: readonly TextLine[], last: number): number {
  let start = last;
  while (start > 0 && last - start < maxSignature && lines[start - 1]?.kind === "own") start--;
  const text = lines
    .slice(start, last + 1)
    .map((line) => line.text.slice(0, maxLine))
    .join(" ");
  // Without a blank line above it, the paragraph may also contain the customer's text.
  if (start > 0 && lines[start - 1]?.kind === "own") return -1;
  if (isNotice(text) || isFooterNote(text)) return start;
  // Elsewhere it may be the address that the customer writes about.
  const isBelowQuote = lines.slice(0, start).findLast(({ kind }) => kind !== "blank")?.kind === "quote";
  return isBelowQuote && isCompanyFooter(lines.slice(start, last + 1).map((line) => line.text)) ? start : -1;
}

// Notes that mail servers and virus scanners write below the text. Customers write about viruses as well, so each rule asks
// for the form of such a note and not for single words.

/** Characters of a paragraph that are inspected. */
const maxParagraph = 900;

const virusFree =
  /^(?:virus-?free|virenfrei|garanti sans virus|sans virus|libre de virus|(?:mail )?priva di virus|virusvrij|livre de vírus|wolny od wirusów|без вирусов|virüs bulunmuyor|bez virů|vírusmentes)[.\s]{0,3}[<[]?(?:https?:\/\/)?www\.(?:avast|avg)\.\S{1,300}(?:\s[<[]\S{1,900}){0,3}$/iu;
const noteStarts =
  /^(?:(?:this|the) (?:e-?mail|message|mail)|information from|diese (?:e-?mail|nachricht|mail)|l['’]absence de virus|ce (?:courrier|message)|cet e-?mail|este (?:correo|mensaje|e-?mail)|el software|questa (?:e-?mail|mail)|deze e-?mail|ta wiadomość|это сообщение|bu e-?posta|tato zpráva)/iu;
const noteWords = /vir(?:us|en)|vírus|wirus|вирус|virüs|scanned|checked|geprüft|\bengine\b/iu;
const scanners =
  /avast|\bavg\b|\beset\b|mailscanner|symantec|messagelabs|kaspersky|bitdefender|sophos|norton|mcafee|avira|g ?data|f-secure|trend ?micro|clamav|mimecast|barracuda|websense/iu;

/** The request not to print the message. */
const printing =
  /(?:before|bevor|avant d|antes de|prima di|voordat|voor u|zanim)(?=[^.?]{0,100}(?:print|druck|imprim|stamp|wydruk))(?=[^.?]{0,100}(?:mail|message|nachricht|courriel|correo|mensa|messaggio|bericht|wiadomo))/iu;
const nature = /environment|umwelt|bäume|trees?\b|environnement|medio ?ambiente|ambiente|milieu|środowisk/iu;
const longestRequest = 300;

/** True for the note of a virus scanner, or the request not to print the message, in one paragraph. */
export function isFooterNote(paragraph: string): boolean {
  if (paragraph.length > maxParagraph) return false;
  const text = paragraph
    .replace(/[-_=*]{2,}/g, " ")
    .replace(/\s+/g, " ")
    .trim();
  if (text.includes("?") && !text.includes("://")) return false;
  if (text.length <= longestRequest && printing.test(text) && nature.test(text)) return true;
  return virusFree.test(text) || (noteStarts.test(text) && noteWords.test(text) && scanners.test(text));
}

/** True for a confidentiality notice, in one paragraph. */
function isNotice(text: string): boolean {
  const lower = text.toLowerCase();
  return (
    lower.length >= 60 &&
    !/[?？]/.test(lower) &&
    [disclaimers.secret, disclaimers.reader, disclaimers.mistake].every((words) => words.test(lower))
  );
}

/** Lines of a company's footer. */
const mostFooter = 12;
const register =
  /\bHR[AB]\b|amtsgericht|handelsregister|registergericht|firmenbuch|geschäftsführ|aufsichtsrat|sitz der|ust-?id|registered (?:in|office|number|company)|company (?:no|number|reg)|\bvat\b|capital social|au capital de|\bsiret\b|\brcs\b|registro mercantil|\bcif\b|p\.? ?iva\b|\bkvk\b|\bnip\b|\bkrs\b|\bregon\b|org\.? ?nr|\bcvr\b/i;
/** The other words of such a footer that are not names. */
const legalWords =
  /^(?:regist\p{L}*|offices?|numbers?|company|code|under|with|address|limited|authori[sz]ed|regulated|trading|directors?|and|the|durch|vertreten\p{L}*|siège|social\p{L}*|sede|legale?|capital\p{L}*|iscritt\p{L}*|imprese|statutair\p{L}*|gevestigd|kamer|koophandel|wpisan\p{L}*|rejestr\p{L}*|kapitał|zakładowy)[.:;]?$/iu;
const companyForm =
  /\b(?:GmbH|mbH|AG|KG|UG|SE|Ltd|Limited|plc|LLC|Inc|Corp|SAS|SARL|Oy|AB|ApS|A\/S|[SB]\.? ?[ALV]|S\.? ?[rp]\.? ?[lA]|Sp\. ?z)\b/;

/** True for the name of a company with legal facts and addresses, without any sentence, as servers add them to mail that they
 *  send. `lines`: without blank ones. */
export function isCompanyFooter(lines: readonly string[]): boolean {
  const [first = ""] = lines.map((line) => line.slice(0, maxParagraph));
  if (!companyForm.test(first) && !register.test(first)) return false;
  if (lines.length > mostFooter || !lines.some((line) => register.test(line.slice(0, maxParagraph)))) return false;
  return lines.every((line) => {
    if (line.length > maxParagraph || /[?？]/.test(line)) return false;
    const words = line.replace(/\S{0,100}(?:@|www\.|:\/\/)\S{0,500}/g, " ").split(/[\s|,/·•]+/);
    return words.every((word) => !/^\p{Ll}{3}/u.test(word) || legalWords.test(word));
  });
}
