// Determines which parts of a message are its text and which are attachments, and the original sender of a forwarded
// message. Runs only in the worker, because a library's patterns are slow on hostile text.

import type EmailForwardParser from "email-forward-parser";
import {
  cleanAddress,
  cleanFileName,
  cleanLine,
  cleanText,
  decodeText,
  findMarkers,
  unflow,
} from "./headers.ts";
import { htmlToText } from "./html/text.ts";
import type { Mail, MailAttachment } from "./mail.ts";
import type { MimePart } from "./mime.ts";
import { isForwardLine } from "./quotes/lines.ts";
import { forwardPrefixes, replyPrefixes } from "./quotes/phrases.ts";
import type { TrimOptions } from "./quotes/trim.ts";

/** Limits above what a person sends; further parts are dropped. */
const maxAttachments = 500;
const maxTextParts = 100;
/** Bytes of one text part that are decoded; the rest is truncated. */
const maxPartBytes = 4_000_000;

export interface Body {
  readonly text: string;
  readonly markers: readonly string[];
  readonly attachments: readonly MailAttachment[];
  /** Messages attached inline, which a mail client shows as text. */
  readonly carried: readonly MimePart[];
  /** True when the HTML shows coloured answers inside a quoted message. */
  readonly inlineAnswers: boolean;
}

interface Pieces {
  readonly options: TrimOptions;
  readonly texts: PartText[];
  readonly markers: Set<string>;
  readonly attachments: MailAttachment[];
  readonly carried: MimePart[];
}

/** The text of one part, and how it was read. */
interface PartText {
  readonly text: string;
  readonly html: boolean;
  readonly inlineAnswers: boolean;
}

/** Walks the tree in order and reads one part of each set of alternatives. `options`: what the message
 *  answers. */
export function bodyOf(root: MimePart, options: TrimOptions): Body {
  const pieces: Pieces = { options, texts: [], markers: new Set(), attachments: [], carried: [] };
  collect(root, pieces, false);
  const texts = pieces.texts.filter((piece) => piece.text !== "");
  const text = joined(texts);
  return {
    text: text.trim(),
    inlineAnswers: texts.some((piece) => piece.inlineAnswers),
    markers: [...pieces.markers],
    attachments: pieces.attachments,
    carried: pieces.carried,
  };
}

const joined = (texts: readonly PartText[]) =>
  texts
    .map((piece) => piece.text)
    .filter((piece) => piece !== "")
    .join("\n\n");

function collect(part: MimePart, pieces: Pieces, related: boolean): void {
  if (part.multipart === "alternative") return collectAlternative(part, pieces, related);
  if (part.multipart !== null) {
    for (const child of part.children) collect(child, pieces, related || part.multipart === "related");
    return;
  }
  if (isText(part) && pieces.texts.length < maxTextParts) {
    addMarkers(part, pieces);
    pieces.texts.push(readingOf(part, pieces.options));
    return;
  }
  if (part.mediaType === "message/rfc822" && part.disposition !== "attachment") pieces.carried.push(part);
  addAttachment(part, pieces, related);
}

/** HTML is preferred, because it distinguishes quotes and hidden text. Plain text is used when the HTML
 *  has no text, and when both have the same text: the sender's own line breaks and columns are then
 *  better than a conversion. */
function collectAlternative(part: MimePart, pieces: Pieces, related: boolean): void {
  const before = pieces.texts.length;
  const found = part.children.map((child): PartText => {
    const own: Pieces = { ...pieces, texts: [] };
    collect(child, own, related);
    return {
      text: joined(own.texts),
      html: hasHtml(child),
      inlineAnswers: own.texts.some((one) => one.inlineAnswers),
    };
  });
  const html = found.filter((one) => one.html && one.text !== "").at(-1);
  const plain = found.find((one) => !one.html && one.text !== "");
  const same =
    html !== undefined && plain !== undefined && !html.inlineAnswers && saysTheSame(plain.text, html.text);
  const best = same ? plain : (html ?? plain);
  if (best !== undefined && before < maxTextParts) pieces.texts.push(best);
}

/** True when both have the same text in the same order, and the same part of it quoted. Punctuation,
 *  spaces and link targets are ignored. */
function saysTheSame(plain: string, html: string): boolean {
  return wordsOf(plain) === wordsOf(html) && wordsOf(unquoted(plain)) === wordsOf(unquoted(html));
}

function wordsOf(text: string): string {
  const bare = text.toLowerCase().replace(/[[<(]?\b(?:https?:\/\/|mailto:|tel:)[^\s<>[\]]{1,2000}/g, " ");
  return bare.replace(/[^\p{L}\p{M}\p{N}]+/gu, " ").trim();
}

const unquoted = (text: string) =>
  text
    .split("\n")
    .filter((line) => !/^\s{0,10}>/.test(line))
    .join("\n");

const hasHtml = (part: MimePart): boolean => part.mediaType === "text/html" || part.children.some(hasHtml);

const isText = (part: MimePart) =>
  (part.mediaType === "text/plain" || part.mediaType === "text/html" || part.mediaType === "text/enriched") &&
  part.disposition !== "attachment" &&
  !(
    part.disposition === "inline" &&
    part.fileName !== null &&
    part.mediaType === "text/plain" &&
    part.headers.length > 0 &&
    isNamedFile(part)
  );

/** Apple Mail sends text files as "inline" with a name. A body has no name, or one that a gateway added. */
const isNamedFile = (part: MimePart) =>
  /\.(?:txt|log|csv|md|json|xml|conf|cfg|ini|yaml|yml|diff|patch)$/i.test(part.fileName ?? "");

function decoded(part: MimePart): string {
  return decodeText(
    part.content.subarray(0, maxPartBytes),
    part.parameters["charset"] ?? charsetInHtml(part),
  );
}

/** HTML may declare its charset in its own head element. */
function charsetInHtml(part: MimePart): string | null {
  if (part.mediaType !== "text/html") return null;
  const head = Buffer.from(part.content.subarray(0, 2000)).toString("latin1");
  return /charset\s{0,3}=\s{0,3}["']?([\w.:-]{2,40})/i.exec(head)?.[1] ?? null;
}

function readingOf(part: MimePart, options: TrimOptions): PartText {
  const text = decoded(part);
  if (part.mediaType === "text/html") return { ...htmlToText(text, options), html: true };
  return { text: plainTextOf(part, text), html: false, inlineAnswers: false };
}

function plainTextOf(part: MimePart, text: string): string {
  if (part.mediaType === "text/enriched") return cleanText(text.replace(/<[^<>\n]{1,60}>/g, "")).trim();
  const { format, delsp } = part.parameters;
  const whole = format?.toLowerCase() === "flowed" ? unflow(text, delsp?.toLowerCase() === "yes") : text;
  return cleanText(whole).replace(/^\n+/, "").trimEnd();
}

function addMarkers(part: MimePart, pieces: Pieces): void {
  const bytes = Buffer.from(part.content.buffer, part.content.byteOffset, part.content.byteLength);
  if (!bytes.includes("[ref:bh-")) return;
  for (const marker of findMarkers(bytes.subarray(0, maxPartBytes).toString("latin1")))
    pieces.markers.add(marker);
}

function addAttachment(part: MimePart, pieces: Pieces, related: boolean): void {
  if (pieces.attachments.length >= maxAttachments) return;
  const mediaType = /^[\w.+-]{1,80}\/[\w.+-]{1,120}$/.test(part.mediaType)
    ? part.mediaType
    : "application/octet-stream";
  if (part.content.length === 0 && part.fileName === null) return;
  pieces.attachments.push({
    name: cleanFileName(part.fileName, fallbackName(mediaType, pieces.attachments.length + 1)),
    mediaType,
    inline:
      (related && part.contentId !== null && part.disposition !== "attachment") ||
      (part.disposition === "inline" && part.contentId !== null),
    // The bytes are copied, because the buffer is transferred to another thread.
    bytes: Uint8Array.prototype.slice.call(part.content),
  });
}

function fallbackName(mediaType: string, number: number): string {
  const known: { readonly [type: string]: string } = {
    "message/rfc822": "message.eml",
    "application/ms-tnef": "winmail.dat",
    "text/calendar": "invitation.ics",
    "application/pkcs7-mime": "smime.p7m",
    "application/pkcs7-signature": "smime.p7s",
    "application/pgp-signature": "signature.asc",
    "application/pgp-encrypted": "version.asc",
    "text/plain": `text-${number}.txt`,
    "text/html": `text-${number}.html`,
  };
  if (Object.hasOwn(known, mediaType)) return known[mediaType] as string;
  const [type, sub] = mediaType.split("/");
  const ending = /^[a-z0-9]{2,5}$/.test(sub ?? "") ? `.${sub}` : "";
  return `${type === "image" ? "image" : "attachment"}-${number}${ending}`;
}

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
