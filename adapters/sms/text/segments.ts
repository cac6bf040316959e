// Splits a text into the segments that a phone network carries: 140 octets each. With several segments, a
// header takes six octets of each. A character of two units is never split.

import { isGsm, septetsOf } from "./gsm.ts";

export type Encoding = "gsm7" | "ucs2";

/** Number of units (septets, or 16-bit units) in a segment: alone, and as one of several. */
export const capacity = {
  gsm7: { alone: 160, each: 153 },
  ucs2: { alone: 70, each: 67 },
} as const;

export interface Segments {
  readonly encoding: Encoding;
  readonly units: number;
  /** The text of each segment, in order. Concatenated they equal the message. */
  readonly texts: readonly string[];
}

/** Returns the segments that this text needs, by default in the cheaper encoding that can represent it.
 *  An empty text is one empty segment. */
export function segmentsOf(text: string, encoding: Encoding = isGsm(text) ? "gsm7" : "ucs2"): Segments {
  const signs = Array.from(text);
  const sizes = signs.map((sign) => (encoding === "gsm7" ? (septetsOf(sign) ?? 1) : sign.length));
  const units = sizes.reduce((sum, size) => sum + size, 0);
  if (units <= capacity[encoding].alone) return { encoding, units, texts: [text] };
  return { encoding, units, texts: fill(signs, sizes, capacity[encoding].each) };
}

function fill(signs: readonly string[], sizes: readonly number[], most: number): string[] {
  const texts: string[] = [];
  let [segment, used] = ["", 0];
  signs.forEach((sign, at) => {
    const size = sizes[at] ?? 1;
    if (used + size > most) {
      texts.push(segment);
      [segment, used] = ["", 0];
    }
    segment += sign;
    used += size;
  });
  return [...texts, segment];
}
