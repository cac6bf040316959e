// Builds the MIME tree of a message with postal-mime, within limits, and determines which parts are its text and which
// are attachments. We use the tree instead of postal-mime's output, because the output loses data that we need: bytes (for
// wrong charsets), the kinds of parts, and the source part of each text.

import PostalMime, { decodeWords } from "postal-mime";
import { decodeBounded, decodeHtml, maxPartBytes } from "./charsets.ts";
import {
  cleanFileName,
  cleanText,
  findMarkers,
  maxTextLength,
  signatureMark,
  unflow,
  withoutPgpSignature,
} from "./headers.ts";
import { htmlToText } from "./html/text.ts";
import type { MailAttachment } from "./mail.ts";
import type { TrimOptions } from "./quotes/trim.ts";

/** Limits of one message; a larger one is rejected as malformed. */
const limits = { maxNestingDepth: 64, maxHeadersSize: 1024 * 1024 };

export interface HeaderField {
  /** Lower case. */
  readonly name: string;
  /** Unfolded, not decoded. */
  readonly value: string;
}

export interface MimePart {
  readonly headers: readonly HeaderField[];
  /** Lower case, without parameters. */
  readonly mediaType: string;
  readonly parameters: { readonly [name: string]: string | undefined };
  /** `mixed`, `alternative` ... or null for a leaf. */
  readonly multipart: string | null;
  /** `inline`, `attachment` or "". */
  readonly disposition: string;
  readonly fileName: string | null;
  /** Without angle brackets. */
  readonly contentId: string | null;
  /** The bytes of a leaf, with the transfer encoding decoded. */
  readonly content: Uint8Array;
  readonly children: readonly MimePart[];
}

/** postal-mime's internal node. Its published types omit these fields, so tests verify them for the
 *  installed version. */
interface Node {
  readonly postalMime: object;
  readonly childNodes: readonly Node[];
  readonly headers: readonly { readonly key: string; readonly value: string }[];
  readonly contentType: { readonly parsed: Structured; readonly multipart: string | false };
  readonly contentDisposition: { readonly parsed: Structured };
  readonly contentId?: string;
  /** The bytes that our decoder returned. */
  readonly content: Uint8Array | null;
  contentDecoder: Decoder | null;
  setupContentDecoder: (this: Node, encoding: string) => void;
}
interface Structured {
  readonly value: string;
  readonly params: { readonly [name: string]: string | undefined };
}
interface Builder {
  root?: Node;
  collectNode: () => Promise<void>;
  buildMessage: () => void;
  parse(raw: Uint8Array | ArrayBufferLike): Promise<unknown>;
}

const collectNothing = () => Promise.resolve();
const buildNothing = () => {};

/** Reads the tree. Throws an error when the message exceeds the limits. */
export async function readTree(raw: Uint8Array): Promise<MimePart> {
  const builder = new PostalMime(limits) as unknown as Builder;
  const { root } = builder;
  if (root === undefined) throw new Error("the MIME parser built no tree");
  // Only the tree is used; these two would build postal-mime's own output.
  builder.collectNode = collectNothing;
  builder.buildMessage = buildNothing;
  // All nodes share the prototype of the first.
  const shared = Object.getPrototypeOf(root) as Node;
  if (shared.setupContentDecoder !== setUp) {
    theirSetUp = shared.setupContentDecoder;
    shared.setupContentDecoder = setUp;
  }
  builders.add(builder);
  await builder.parse(raw.byteLength === raw.buffer.byteLength ? raw.buffer : raw);
  return toPart(root);
}

/** The parsers of this module. Others in this thread keep the library's decoders. */
const builders = new WeakSet<object>();
let theirSetUp: Node["setupContentDecoder"];

function setUp(this: Node, encoding: string): void {
  if (builders.has(this.postalMime)) this.contentDecoder = decoderFor(encoding);
  else theirSetUp.call(this, encoding);
}

function toPart(node: Node): MimePart {
  const { value, params } = node.contentType.parsed;
  const fileName = node.contentDisposition.parsed.params["filename"] ?? params["name"] ?? null;
  // A multipart without any boundary is read as plain text, and so is an invalid type, such as "text" (RFC 2045, 5.2).
  const childless = node.contentType.multipart !== false && node.childNodes.length === 0;
  const isType = fileName !== null || /^[^\s/]+\/[^\s/]+$/.test(value);
  return {
    headers: node.headers.map(({ key, value }) => ({ name: key, value })),
    mediaType: childless || !isType ? "text/plain" : value || "text/plain",
    parameters: params,
    multipart: childless || node.contentType.multipart === false ? null : node.contentType.multipart,
    disposition: node.contentDisposition.parsed.value,
    fileName: fileName === null || fileName === "" ? null : decodeWords(fileName),
    contentId: node.contentId?.replace(/[<>\s]/g, "") ?? null,
    content: node.content ?? new Uint8Array(),
    children: node.childNodes.map(toPart),
  };
}

/** True for a message of text without files, reports, calendar objects and encrypted parts. */
export const isOnlyText = (part: MimePart): boolean =>
  part.multipart === null
    ? /^text\/(?:plain|html)$/.test(part.mediaType) && part.fileName === null
    : /^multipart\/(?:alternative|mixed|related)$/.test(part.mediaType) && part.children.every(isOnlyText);

/** Yields every part in document order, the root first. */
export function* walk(part: MimePart): Generator<MimePart> {
  yield part;
  for (const child of part.children) yield* walk(child);
}

export interface Decoder {
  update(line: Uint8Array<ArrayBuffer>): void;
  /** Returns the decoded bytes; for unencoded parts a view of the message's buffer. */
  finalize(): Promise<Uint8Array>;
}

/** For `7bit`, `8bit` and `binary` the bytes are unchanged, line ends included. */
function decoderFor(encoding: string): Decoder {
  let buffer: ArrayBuffer | null = null;
  let start = 0;
  let end = 0;
  return {
    update(line) {
      if (buffer === null) start = line.byteOffset;
      buffer = line.buffer;
      end = line.byteOffset + line.byteLength;
    },
    finalize: () => Promise.resolve(decode(encoding, Buffer.from(buffer ?? new ArrayBuffer(0), start, end - start))),
  };
}

function decode(encoding: string, bytes: Buffer): Uint8Array {
  if (/base64/i.test(encoding)) return base64(bytes);
  return /quoted-printable/i.test(encoding) ? quotedPrintable(bytes) : bytes;
}

/** Decodes base64 (RFC 2045, section 6.8). Gateways put their banner before or after the text, each in an encoding of its own, so
 *  padding ends a run and not the content. Other characters are ignored. */
function base64(bytes: Buffer): Uint8Array {
  const text = bytes.toString("latin1");
  const out = Buffer.allocUnsafe(Math.ceil((text.length * 3) / 4));
  let to = 0;
  for (let from = 0; from < text.length; ) {
    const padding = text.indexOf("=", from);
    const end = padding < 0 ? text.length : padding;
    if (end > from) to += out.write(text.slice(from, end), to, "base64");
    from = end + 1;
  }
  return out.subarray(0, to);
}

/** Decodes quoted-printable (RFC 2045, section 6.7). Invalid sequences are unchanged. */
function quotedPrintable(bytes: Buffer): Uint8Array {
  const first = bytes.indexOf(0x3d);
  if (first < 0) return bytes;
  const out = Buffer.allocUnsafe(bytes.length);
  let to = bytes.copy(out, 0, 0, first);
  for (let at = first; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte !== 0x3d) {
      out[to++] = byte;
      continue;
    }
    const soft = softBreak(bytes, at + 1);
    const [high, low] = [hex(bytes[at + 1]), hex(bytes[at + 2])];
    if (soft > 0) at += soft;
    else if (high >= 0 && low >= 0) {
      out[to++] = high * 16 + low;
      at += 2;
    } else out[to++] = byte;
  }
  return out.subarray(0, to);
}

/** Returns how many bytes after the equals sign belong to a soft line break; 0 when there is no soft line break. */
function softBreak(bytes: Buffer, from: number): number {
  let at = from;
  while (at - from < 80 && (bytes[at] === 0x20 || bytes[at] === 0x09)) at++;
  if (at >= bytes.length) return at - from + 1;
  if (bytes[at] === 0x0d && bytes[at + 1] === 0x0a) return at - from + 2;
  return bytes[at] === 0x0a ? at - from + 1 : 0;
}

function hex(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

/** Limits above what a person sends; further parts are dropped. */
const maxAttachments = 500;
const maxTextParts = 100;

export interface Body {
  readonly text: string;
  readonly markers: readonly string[];
  readonly attachments: readonly MailAttachment[];
  /** Attached messages that a mail client shows as text, and in a forward the others. */
  readonly carried: readonly MimePart[];
  /** True when the HTML shows coloured answers inside a quoted message. */
  readonly inlineAnswers: boolean;
  /** True when the end of a part's text is missing, because it is longer than the limits. */
  readonly isCut: boolean;
}

interface Pieces {
  readonly options: TrimOptions;
  readonly texts: PartText[];
  readonly markers: Set<string>;
  readonly attachments: MailAttachment[];
  readonly carried: MimePart[];
}

/** The text of one part, and how it was read. */
interface PartText extends Pick<Body, "text" | "inlineAnswers" | "isCut"> {
  readonly html: boolean;
}

/** Walks the tree in order and reads one part of each set of alternatives. `options`: what the message answers. */
export function bodyOf(root: MimePart, options: TrimOptions): Body {
  const pieces: Pieces = { options, texts: [], markers: new Set(), attachments: [], carried: [] };
  collect(root, pieces, false);
  const whole = joined(pieces.texts);
  return {
    ...whole,
    text: whole.text.trim(),
    markers: [...pieces.markers],
    attachments: pieces.attachments,
    carried: pieces.carried,
  };
}

const joined = (texts: readonly PartText[]): Omit<PartText, "html"> => ({
  text: texts.flatMap(({ text }) => (text === "" ? [] : [text])).join("\n\n"),
  inlineAnswers: texts.some((one) => one.inlineAnswers),
  isCut: texts.some((one) => one.isCut),
});

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
  const isShown = part.disposition !== "attachment" || pieces.options.relation === "forward";
  // Browsers and some programs do not know the type of a saved message.
  const isSaved = part.mediaType === "application/octet-stream" && /\.eml$/i.test(part.fileName ?? "");
  if ((part.mediaType === "message/rfc822" || isSaved) && isShown) pieces.carried.push(part);
  addAttachment(part, pieces, related);
}

/** HTML is preferred, because it distinguishes quotes, signatures and hidden text. Plain text is used when the HTML has no
 *  text, and when both have the same text: the sender's own line breaks and columns are then better than a conversion. */
function collectAlternative(part: MimePart, pieces: Pieces, related: boolean): void {
  const hasText = part.children.some(isText);
  const found = part.children
    .filter((child) => !hasText || !isOtherForm(child))
    .map((child): PartText => {
      const own: Pieces = { ...pieces, texts: [] };
      collect(child, own, related);
      return { ...joined(own.texts), html: hasHtml(child) };
    });
  const html = found.filter((one) => one.html && one.text !== "").at(-1);
  const plain = found.find((one) => !one.html && one.text !== "");
  const best = html !== undefined && plain !== undefined && hasSameText(html, plain.text) ? plain : (html ?? plain);
  if (best !== undefined && pieces.texts.length < maxTextParts) pieces.texts.push(best);
}

/** True when both have the same text in the same order, the same part of it quoted, nothing else marked, and the plain text
 *  has the pages that the HTML links to. Punctuation, spaces and other link targets are ignored. */
function hasSameText({ text: html, inlineAnswers }: PartText, plain: string): boolean {
  if (inlineAnswers || html.includes(signatureMark)) return false;
  const pages = html.match(/https?:\/\/[^\s/]{1,300}\/[^\s<>[\]]{1,2000}/g) ?? [];
  if (!pages.slice(0, 50).every((page) => plain.includes(page))) return false;
  return wordsOf(plain) === wordsOf(html) && wordsOf(unquoted(plain)) === wordsOf(unquoted(html));
}

function wordsOf(text: string): string {
  const bare = text.toLowerCase().replace(/[[<(]?\b(?:https?:\/\/|mailto:|tel:)[^\s<>[\]]{1,2000}/g, " ");
  const other = /^[\x00-\x7f]*$/.test(bare) ? /[^a-z0-9]+/g : /[^\p{L}\p{M}\p{N}]+/gu;
  return bare.replace(other, " ").trim();
}

const unquoted = (text: string) =>
  text
    .split("\n")
    .filter((line) => !/^\s{0,10}>/.test(line))
    .join("\n");

const hasHtml = (part: MimePart): boolean => part.mediaType === "text/html" || part.children.some(hasHtml);

/** True for a form of the text that only some programs show, next to plain text or HTML: AMP, a watch's HTML, Gmail's reactions
 *  as JSON. It is no file of the sender. */
const isOtherForm = (part: MimePart) =>
  /^text\/(?!calendar)/.test(part.mediaType) && part.fileName === null && !isText(part);

const isText = (part: MimePart) =>
  (/^text\/(?:plain|html|enriched)$/.test(part.mediaType) ||
    (/^text\/(?:x-)?markdown$/.test(part.mediaType) && part.fileName === null)) &&
  (detachedText.test(part.fileName ?? "") || (part.disposition !== "attachment" && !isInlineFile(part)));

/** Exchange makes an attachment with such a name of each text that follows a file, as below the pictures of a phone. */
const detachedText = /^ATT\d{5}\.(?:txt|html?)$/i;

/** Apple Mail sends text files as "inline" with a name. A body has no name, or one that a gateway added. */
const isInlineFile = (part: MimePart) =>
  part.disposition === "inline" &&
  part.mediaType === "text/plain" &&
  /\.(?:txt|log|csv|md|json|xml|conf|cfg|ini|yaml|yml|diff|patch)$/i.test(part.fileName ?? "");

function readingOf(part: MimePart, options: TrimOptions): PartText {
  const charset = part.parameters["charset"] ?? null;
  if (part.mediaType === "text/html") {
    const { decoded, isCut } = decodeHtml(part.content, charset);
    const read = htmlToText(decoded, options);
    return { ...read, html: true, isCut: isCut || read.isCut };
  }
  const { decoded, isCut } = decodeBounded(part.content, charset);
  const text = plainTextOf(part, decoded);
  return { text, html: false, inlineAnswers: false, isCut: isCut || decoded.length > maxTextLength };
}

function plainTextOf(part: MimePart, text: string): string {
  if (part.mediaType === "text/enriched") return cleanText(text.replace(/<[^<>\n]{1,60}>/g, "")).trim();
  const { format, delsp } = part.parameters;
  const whole = format?.toLowerCase() === "flowed" ? unflow(text, delsp?.toLowerCase() === "yes") : text;
  return withoutPgpSignature(cleanText(whole)).replace(/^\n+/, "").trimEnd();
}

function addMarkers(part: MimePart, pieces: Pieces): void {
  const bytes = Buffer.from(part.content.buffer, part.content.byteOffset, part.content.byteLength);
  if (!bytes.includes("[ref:bh-")) return;
  for (const marker of findMarkers(bytes.subarray(0, maxPartBytes).toString("latin1"))) pieces.markers.add(marker);
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
