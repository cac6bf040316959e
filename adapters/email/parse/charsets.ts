// Decodes text by its declared charset, or by the one that its HTML names. Mail declares names that the platform's decoder
// does not know, encodings that it does not support, and wrong charsets.

import { isAscii, isUtf8 } from "node:buffer";
import { createRequire } from "node:module";
import type Iconv from "iconv-lite";

const require = createRequire(import.meta.url);
/** Loads iconv-lite for the first text that needs it. */
const iconv = () => require("iconv-lite") as typeof Iconv;

/** The names in iconv-lite of encodings that the platform decodes without the characters of Windows and of Hong Kong. */
const fuller: ReadonlyMap<string, string> = new Map([
  ["euc-kr", "cp949"],
  ["big5", "big5-hkscs"],
]);
/** Encodings that only iconv-lite decodes. */
const unsupported =
  /^(?:utf-?7|unicode-1-1-utf-7|utf-?32(?:le|be)?|viscii|(?:cp|ibm|dos)[-_]?(?:437|7\d\d|8\d\d|1125))$/;

/** Names that the platform's decoder does not support. */
const aliases: ReadonlyMap<string, string> = new Map([
  ["ks_c_5601", "euc-kr"],
  ["uhc", "euc-kr"],
  ["iso-2022-jp-1", "iso-2022-jp"],
  ["iso-2022-jp-2", "iso-2022-jp"],
  ["iso-2022-jp-ms", "iso-2022-jp"],
]);

/** Encodings by the number of their code page, as in cp932, windows-932, ms932 and ibm932. */
const codePages: ReadonlyMap<string, string> = new Map([
  ["874", "windows-874"],
  ["932", "shift_jis"],
  ["936", "gbk"],
  ["949", "euc-kr"],
  ["950", "big5"],
  ["20866", "koi8-r"],
  ["21866", "koi8-u"],
  ["50220", "iso-2022-jp"],
  ["50221", "iso-2022-jp"],
  ["50222", "iso-2022-jp"],
  ["51932", "euc-jp"],
  ["54936", "gb18030"],
  ["65001", "utf-8"],
]);

/** Encodings in which valid UTF-8 is frequent. In every other one it makes no sense, so that the declaration is wrong. */
const multiByte = /^(?:gb|big5|euc|shift)/;

/** Bytes of one text part that are decoded; the rest is truncated. */
export const maxPartBytes = 4_000_000;

/** Decodes HTML. Programs write pictures into it as data URIs; in large HTML these are removed first, because the text may
 *  follow them. */
export function decodeHtml(content: Uint8Array, declared: string | null): DecodedText {
  const head = Buffer.from(content.subarray(0, 2000)).toString("latin1");
  const charset = declared ?? /charset\s{0,3}=\s{0,3}["']?([\w.:-]{2,40})/i.exec(head)?.[1] ?? null;
  const bytes = content.length > maxWithPictures ? withoutPictures(content) : content;
  return decodeBounded(bytes, charset);
}

export interface DecodedText {
  readonly decoded: string;
  /** True when the part is longer than what is decoded. */
  readonly isCut: boolean;
}

/** Decodes the beginning of a text part. */
export const decodeBounded = (bytes: Uint8Array, declared: string | null): DecodedText => ({
  decoded: decodeText(bytes.subarray(0, maxPartBytes), declared),
  isCut: bytes.length > maxPartBytes,
});

/** In bytes. */
const maxWithPictures = 500_000;
const picture = /\bdata:[\w.+-]{1,40}\/[\w.+-]{1,80};base64,/gi;

function withoutPictures({ buffer, byteOffset, byteLength }: Uint8Array): Uint8Array {
  const html = Buffer.from(buffer, byteOffset, byteLength).toString("latin1");
  const kept: string[] = [];
  let from = 0;
  for (const { 0: start, index } of html.matchAll(picture)) {
    if (index < from) continue;
    kept.push(html.slice(from, index));
    // One expression for the whole picture would exceed the stack of the engine.
    const end = /[^\w+/=\r\n-]/g;
    end.lastIndex = index + start.length;
    from = end.exec(html)?.index ?? html.length;
  }
  return Buffer.from(kept.join("") + html.slice(from), "latin1");
}

/** Decodes the text of a part. Never throws; undecodable bytes become U+FFFD. */
export function decodeText(bytes: Uint8Array, declared: string | null): string {
  const label = (declared ?? "")
    .slice(0, 100)
    .toLowerCase()
    .replace(/['";\s]/g, "");
  // Any text in UTF-16 has a space, a line end or another character with a zero.
  const isWide = /^utf-?(?:16|32)/.test(label) && bytes.includes(0);
  if (isAscii(bytes) && !isWide) return decodeSevenBit(bytes, label);
  const encoding = encodingOf(/^utf-?16$/.test(label) ? utf16Of(bytes) : label) ?? "windows-1252";
  if (isUtf8(bytes) && !isWide && !multiByte.test(encoding)) return decodeAs("utf-8", bytes);
  if (encoding === "utf-8") return decodeBrokenUtf8(bytes);
  // Bytes above 127 under the name of a seven-bit encoding are those of the other Japanese one.
  const text = decodeAs(encoding === "iso-2022-jp" ? "shift_jis" : encoding, bytes);
  return text.includes("\ufffd") && isUtf8(bytes) ? decodeAs("utf-8", bytes) : text;
}

function decodeAs(encoding: string, bytes: Uint8Array): string {
  const other = unsupported.test(encoding) ? encoding : fuller.get(encoding);
  return other === undefined ? new TextDecoder(encoding).decode(bytes) : iconv().decode(bytes, other);
}

/** Encoded words of a header value; the others are left to postal-mime. */
const maxWords = 200;

/** Returns a header value with its encoded words (RFC 2047) in UTF-8, except for those of encodings with several bytes per
 *  character: such a character may be divided between two words, and postal-mime joins them. */
export function wordsInUtf8(value: string): string {
  let left = maxWords;
  return value.replace(
    /=\?([^?\s*]{1,40})(?:\*[^?\s]{0,40})?\?([bq])\?([^?]{0,2000})\?=/gi,
    (word, charset: string, encoding: string, coded: string) => {
      if (left-- <= 0 || /[^\x00-\x7f]/.test(coded)) return word;
      const known = encodingOf(charset.toLowerCase()) ?? "";
      if (known === "utf-8" || known === "iso-2022-jp" || multiByte.test(known)) return word;
      const bytes = /b/i.test(encoding) ? Buffer.from(coded, "base64") : unquoted(coded);
      return `=?utf-8?B?${Buffer.from(decodeText(bytes, charset)).toString("base64")}?=`;
    },
  );
}

/** Decodes the Q encoding (RFC 2047, 4.2). */
const unquoted = (coded: string): Buffer =>
  Buffer.from(
    coded
      .replaceAll("_", " ")
      .replace(/=([\da-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1",
  );

/** Returns the name of the encoding, for `decodeAs`; null when it is unknown. */
function encodingOf(label: string): string | null {
  if (unsupported.test(label)) return label;
  const [, page = ""] = /^(?:x-)?(?:cp|ms|windows|ibm)[-_]?(\d{3,5})$/.exec(label) ?? [];
  const stripped = label.replace(/^(?:x-|cs)/, "");
  for (const name of [label, aliases.get(label), codePages.get(page), stripped, label.replaceAll("_", "-")]) {
    if (name === undefined || name === "") continue;
    try {
      return new TextDecoder(name).encoding;
    } catch {
      // An unsupported name: try the next candidate.
    }
  }
  return null;
}

/** Without a byte order mark it is big-endian (RFC 2781, 4.3), unless most characters are Latin in the other order. */
function utf16Of(bytes: Uint8Array): string {
  const start = bytes.subarray(0, 1000);
  const zeros = start.filter((byte, at) => at % 2 === 1 && byte === 0).length;
  return (start[0] === 0xff && start[1] === 0xfe) || zeros > start.length / 4 ? "utf-16le" : "utf-16be";
}

/** Text with a few UTF-8 errors (truncated or mixed) stays UTF-8. Text with many errors is decoded as
 *  Latin text with a wrong label. */
function decodeBrokenUtf8(bytes: Uint8Array): string {
  const text = decodeAs("utf-8", bytes);
  const broken = text.replace(/[^\ufffd]+/g, "").length;
  const foreign = text.replace(/[\x00-\x7f\ufffd]+/g, "").length;
  return broken > foreign ? decodeAs("windows-1252", bytes) : text;
}

/** Decodes ASCII and the encodings that consist of it. Escape sequences distinguish those of Japan and Korea, whatever is
 *  declared. The platform and iconv-lite do not decode ISO-2022-KR and HZ. */
function decodeSevenBit(bytes: Uint8Array, label: string): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
  if (text.includes("\x1b$)C")) return decodeKorean(text);
  if (text.includes("\x1b$B") || text.includes("\x1b$@") || /2022-?jp|5022\d/.test(label))
    return decodeAs("iso-2022-jp", bytes);
  if (label.startsWith("hz")) return decodeHz(text);
  return /utf-?7$/.test(label) ? decodeAs("utf-7", bytes) : text;
}

/** Sets the high bit of each character, which makes EUC of its form in seven bits. */
const eightBit = (text: string) => Buffer.from(text, "latin1").map((byte) => byte | 0x80);

/** Decodes ISO-2022-KR (RFC 1557). */
const decodeKorean = (text: string): string =>
  text
    .replaceAll("\x1b$)C", "")
    .replace(/\x0e((?:[!-~]{2})*)\x0f?/g, (_, characters: string) => decodeAs("euc-kr", eightBit(characters)));

/** Decodes HZ-GB-2312 (RFC 1843). */
const decodeHz = (text: string): string =>
  text.replace(/~(?:\{((?:[!-w][!-~])*)(?:~\})?|~|\r?\n)/g, (mark, characters?: string) => {
    if (characters !== undefined) return decodeAs("gbk", eightBit(characters));
    return mark === "~~" ? "~" : "";
  });
