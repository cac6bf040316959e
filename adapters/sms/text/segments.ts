// How a text is cut into what a phone network carries: 140 octets a segment, of which a header takes six when there
// are several. A character that takes two units is never cut in two.

import { isGsm, septetsOf } from "./gsm.ts";

export type Encoding = "gsm7" | "ucs2";

/** Units (septets, or 16-bit units) that one segment holds: alone, and as one of several. */
export const capacity = {
  gsm7: { alone: 160, each: 153 },
  ucs2: { alone: 70, each: 67 },
} as const;

export interface Segments {
  readonly encoding: Encoding;
  readonly units: number;
  /** The text of each segment, in order; joined they are the text. */
  readonly texts: readonly string[];
}

/** What sending this text as it is will take, by default in the cheaper encoding that can. An empty text is one empty
 *  segment. */
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
