// Renders one reply as text messages: plain text, split at natural boundaries, numbered, with one signature
// at the end.

import type { Reply } from "bridgehead/contract";
import { clean } from "./clean.ts";
import { toPlain } from "./plain.ts";
import { split } from "./split.ts";

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

/** Returns the parts of a reply in the order they are sent; at least one, none empty. Pure and
 *  deterministic. The signature is omitted when even a separate part cannot hold it. Notices and plain
 *  text are not parsed as Markdown. */
export function textsOf(
  reply: Pick<Reply, "kind" | "plain" | "text" | "signature" | "introduction">,
  options: TextOptions,
): readonly string[] {
  const words = reply.kind === "notice" || reply.plain ? reply.text : toPlain(reply.text);
  const said = [reply.introduction ?? "", words].map(clean).filter((text) => text !== "");
  const body = said.join("\n\n") || noWords;
  const signature = clean(reply.signature ?? "");
  const target = Math.min(options.target, options.max);
  // The target length certainly gives too many parts, so it is not tried.
  const many = body.length > target * options.parts && target < options.max;
  let parts = numbered(body, signature, many ? options.max : target, options);
  if (!many && (parts.length <= options.parts || target === options.max)) return parts;
  // Binary search between the two limits for the shortest parts that are few enough. Longer parts return
  // fewer.
  let [low, high] = [target, options.max];
  if (!many) parts = numbered(body, signature, high, options);
  // Even the longest parts are too many.
  if (parts.length > options.parts) return parts;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const tried = numbered(body, signature, middle, options);
    if (tried.length > options.parts) low = middle;
    else [high, parts] = [middle, tried];
  }
  return parts;
}

/** Returns parts of at most `most` characters, including their numbers. A single part has no number. */
function numbered(body: string, signature: string, most: number, options: TextOptions): readonly string[] {
  const isLong = body.length > most && options.numbering !== "";
  const alone = isLong ? [] : signed(body, signature, most, options.max);
  if (alone.length === 1 || options.numbering === "") return alone;
  for (let digits = String(Math.ceil(body.length / most)).length; ; digits++) {
    const nines = 10 ** digits - 1;
    const width = label(options.numbering, nines, nines).length;
    const parts = signed(body, signature, Math.max(1, most - width), options.max - width);
    if (parts.length > nines) continue;
    return parts.map((part, at) => label(options.numbering, at + 1, parts.length) + part);
  }
}

function label(numbering: string, part: number, parts: number): string {
  const numbers = [part, parts];
  return `${numbering.replace(/\d+/g, (digits) => String(numbers.shift() ?? digits))} `;
}

/** Appends the signature to the last part, and splits a long last part again to make room. A very long
 *  signature is a separate part. */
function signed(body: string, signature: string, most: number, limit: number): readonly string[] {
  const parts = split(body, most);
  if (signature === "") return parts;
  const last = parts.at(-1) ?? "";
  const room = most - signature.length - 1;
  if (last.length <= room) return [...parts.slice(0, -1), `${last}\n${signature}`];
  if (room >= most / 2) {
    const shorter = split(last, room);
    return [...parts.slice(0, -1), ...shorter.slice(0, -1), `${shorter.at(-1)}\n${signature}`];
  }
  return signature.length <= limit ? [...parts, signature] : parts;
}
