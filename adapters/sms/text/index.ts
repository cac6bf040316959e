// One reply as the texts that are sent: plain, cut where a person would, numbered, the signature once at the very end.

import type { Reply } from "bridgehead/contract";
import { clean } from "./clean.ts";
import { toPlain } from "./plain.ts";
import { split } from "./split.ts";

export interface TextOptions {
  /** Characters (UTF-16 units) a part aims at; longer texts are delivered less reliably. */
  readonly target: number;
  /** Characters no part exceeds, its number and the signature counted. */
  readonly max: number;
  /** With more parts than this at `target`, parts grow towards `max`. What needs more even so gets more: nothing is cut off. */
  readonly parts: number;
  /** How parts are numbered, written for the first of two: `(1/2)`. Empty: not at all. */
  readonly numbering: string;
}

/** What stands for an answer that has no words left once markup is gone. A text cannot be empty. */
const noWords = "(no text)";

/** The parts of a reply, in the order they are to be sent; at least one, none empty. Pure and deterministic. The signature
 *  is left out when not even a part of its own could hold it. A notice and plain text are not interpreted as Markdown. */
export function textsOf(
  reply: Pick<Reply, "kind" | "plain" | "text" | "signature" | "introduction">,
  options: TextOptions,
): readonly string[] {
  const words = reply.kind === "notice" || reply.plain ? reply.text : toPlain(reply.text);
  const said = [reply.introduction ?? "", words].map(clean).filter((text) => text !== "");
  const body = said.join("\n\n") || noWords;
  const signature = clean(reply.signature ?? "");
  const target = Math.min(options.target, options.max);
  // Certainly too many at the target length: that is not tried.
  const many = body.length > target * options.parts && target < options.max;
  let parts = numbered(body, signature, many ? options.max : target, options);
  if (!many && (parts.length <= options.parts || target === options.max)) return parts;
  // Between the two limits, the shortest parts that are few enough; found by halving, since fewer come of longer ones.
  let [low, high] = [target, options.max];
  if (!many) parts = numbered(body, signature, high, options);
  // Not even the longest parts are few enough.
  if (parts.length > options.parts) return parts;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const tried = numbered(body, signature, middle, options);
    if (tried.length > options.parts) low = middle;
    else [high, parts] = [middle, tried];
  }
  return parts;
}

/** Parts of at most `most` characters with their numbers, which count; one part alone has none. */
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

/** A signature shares the last part, for which a long last part is cut again; a very long one is a part of its own. */
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
