// Renders one reply as text messages: plain text, split at natural boundaries, numbered, with at most one signature at the end.

import type { Reply } from "bridgehead/contract";
import { clean, toPlain } from "./plain.ts";

export interface TextOptions {
  /** Target length of a part in characters (UTF-16 units). Longer texts are delivered less reliably. */
  readonly target: number;
  /** Maximum length of a part in characters, including its number and the signature. */
  readonly max: number;
  /** If `target` gives more parts than this, parts grow towards `max`. A reply that needs still more
   *  parts gets them: nothing is cut off. */
  readonly parts: number;
  /** Format of the part numbers, written for the first of two: `(1/2)`. Empty: no numbers. */
  readonly numbering: string;
}

/** Placeholder for a reply that is empty without its markup. A text message cannot be empty. */
const noWords = "(no text)";

/** Returns the parts of a reply in the order they are sent; at least one, none empty. Pure and deterministic. The
 *  signature is omitted when the last part has no room for it within the target, or within the maximum if parts are longer
 *  anyway: it never makes a further part. Notices and plain text are not parsed as Markdown. */
export function textsOf(
  reply: Pick<Reply, "kind" | "plain" | "text" | "signature" | "introduction">,
  options: TextOptions,
): readonly string[] {
  const words = reply.kind === "notice" || reply.plain ? reply.text : toPlain(reply.text);
  const said = [reply.introduction ?? "", words].map(clean).filter((text) => text !== "");
  const body = said.join("\n\n") || noWords;
  const signature = clean(reply.signature ?? "");
  const parts = partsOf(body, options);
  const last = `${parts.at(-1)}\n${signature}`;
  const target = Math.min(options.target, options.max);
  const room = parts.some(({ length }) => length > target) ? options.max : target;
  return signature === "" || last.length > room ? parts : [...parts.slice(0, -1), last];
}

function partsOf(body: string, options: TextOptions): readonly string[] {
  const target = Math.min(options.target, options.max);
  // The target length certainly gives too many parts, so it is not tried.
  const many = body.length > target * options.parts && target < options.max;
  let parts = numbered(body, many ? options.max : target, options);
  if (!many && (parts.length <= options.parts || target === options.max)) return parts;
  // Binary search between the two limits for the shortest parts that are few enough. Longer parts return fewer.
  let [low, high] = [target, options.max];
  if (!many) parts = numbered(body, high, options);
  // Even the longest parts are too many.
  if (parts.length > options.parts) return parts;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const tried = numbered(body, middle, options);
    if (tried.length > options.parts) low = middle;
    else [high, parts] = [middle, tried];
  }
  return parts;
}

/** Returns parts of at most `most` characters, including their numbers, or of at most `options.max` for a URL. A single
 *  part has no number. */
function numbered(body: string, most: number, options: TextOptions): readonly string[] {
  if (body.length <= most || options.numbering === "") return split(body, most, options.max);
  for (let digits = String(Math.ceil(body.length / most)).length; ; digits++) {
    const nines = 10 ** digits - 1;
    const width = label(options.numbering, nines, nines).length;
    const parts = split(body, Math.max(1, most - width), options.max - width);
    if (parts.length === 1) return parts;
    if (parts.length > nines) continue;
    return parts.map((part, at) => label(options.numbering, at + 1, parts.length) + part);
  }
}

function label(numbering: string, part: number, parts: number): string {
  const numbers = [part, parts];
  return `${numbering.replace(/\d+/g, (digits) => String(numbers.shift() ?? digits))} `;
}

// Splits a text at natural boundaries: between paragraphs, then lines, then sentences, then at white space.
// It splits inside a word last, and never inside a grapheme. A URL is split only when it is longer than a text may be.
const graphemes = new Intl.Segmenter("und", { granularity: "grapheme" });
const sentences = new Intl.Segmenter("und", { granularity: "sentence" });

type Cutter = (text: string) => readonly string[];

const after =
  (separator: RegExp): Cutter =>
  (text) =>
    text.split(separator);

/** A character of a script that is written without spaces, or its punctuation. It ends a sentence or a URL before it. */
const unspaced =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}\u3000-\u303f\uff00-\uffef]/u;
const sentenceEnd = new RegExp(String.raw`(?:\s|${unspaced.source})$`, "u");
const sentenceStart = new RegExp(`^${unspaced.source}`, "u");
const url = new RegExp(String.raw`(https?:\/\/(?:(?!${unspaced.source})\S)+)`, "iu");

/** Returns sentences. `?` and `.` without white space behind them do not end one: they may be part of a URL. */
function sentencesOf(text: string): readonly string[] {
  const found: string[] = [];
  let sentence = "";
  // The end of what has been appended. Reading it from the appended text would be quadratic.
  let end = "";
  for (const { segment } of sentences.segment(text)) {
    if (sentenceEnd.test(end) || sentenceStart.test(segment)) {
      found.push(sentence);
      sentence = "";
    }
    sentence += segment;
    end = segment.slice(-2);
  }
  return [...found, sentence];
}

const aroundUrls: Cutter = (text) => text.split(url);

/** From coarse to fine. The pieces that each cutter returns, concatenated, equal its input. */
const cutters: readonly Cutter[] = [
  after(/(?<=\n\n)/),
  after(/(?<=\n)/),
  sentencesOf,
  after(/(?<=\s)(?=\S)/),
  aroundUrls,
  (text) => Array.from(graphemes.segment(text), ({ segment }) => segment),
];

/** Returns parts of at most `most` UTF-16 units, as few as good boundaries allow. A longer URL is a part of its own if it
 *  has at most `limit` units. Only white space at the boundaries is lost. A longer single grapheme (a stack of accents) is
 *  split between its code points. */
export function split(text: string, most: number, limit = most): readonly string[] {
  return pack(text.trim(), { most, limit }, 0)
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

interface PartSize {
  readonly most: number;
  readonly limit: number;
}

function pack(text: string, size: PartSize, level: number): string[] {
  const { most, limit } = size;
  if (text.trim().length <= most) return [text];
  const cut = cutters[level] ?? ((whole: string) => Array.from(whole));
  const parts: string[] = [];
  let part = measured("");
  for (const piece of cut(text)) {
    const joined = append(part, piece);
    if (joined.to - joined.from <= most) {
      part = joined;
      continue;
    }
    // A piece that is too long for a part is split with the next finer cutter. Its last piece shares a part
    // with the following text.
    const room = cut === aroundUrls && url.test(piece) ? limit : most;
    const fits = piece.trim().length <= room || level >= cutters.length;
    const rest = fits ? [piece] : pack(piece, size, level + 1);
    if (part.to > part.from) parts.push(part.text);
    parts.push(...rest.slice(0, -1));
    part = measured(rest.at(-1) ?? "");
  }
  return part.text === "" ? parts : [...parts, part.text];
}

/** A text with the index of its first character that is not white space, and the index after the last one. White space
 *  at the ends is trimmed and takes no room. Measuring only the appended piece keeps packing linear. */
interface Measured {
  readonly text: string;
  readonly from: number;
  readonly to: number;
}

const measured = (text: string): Measured => append({ text: "", from: 0, to: 0 }, text);

function append({ text, from, to }: Measured, piece: string): Measured {
  const whole = text + piece;
  const end = piece.trimEnd().length;
  if (end === 0) return { text: whole, from, to };
  const first = to > from ? from : text.length + piece.length - piece.trimStart().length;
  return { text: whole, from: first, to: text.length + end };
}
