// Splits a text into the segments that a phone network carries: 140 octets each. With several segments, a
// header takes six octets of each. A character of two units is never split.

export type Encoding = "gsm7" | "ucs2";

/** Number of units (septets, or 16-bit units) in a segment: alone, and as one of several. */
export const capacity = { gsm7: { alone: 160, each: 153 }, ucs2: { alone: 70, each: 67 } } as const;

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

// The GSM default alphabet (3GPP TS 23.038, 6.2.1). A message inside it costs 7 bits a character, any other message 16.
const basic =
  "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?" +
  "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà";
const escape = 0x1b;
const extension: ReadonlyMap<string, number> = new Map([
  ["\f", 0x0a],
  ["^", 0x14],
  ["{", 0x28],
  ["}", 0x29],
  ["\\", 0x2f],
  ["[", 0x3c],
  ["~", 0x3d],
  ["]", 0x3e],
  ["|", 0x40],
  ["€", 0x65],
]);
const codes = new Map(
  Array.from(basic)
    .map((sign, code) => [sign, code] as const)
    .filter(([, code]) => code !== escape),
);
const extended = new Map([...extension].map(([sign, code]) => [code, sign] as const));
const signs = Array.from(basic);

/** Returns the number of septets of one character: 1, or 2 from the extension table. Null: it is not in
 *  the alphabet. */
function septetsOf(sign: string): 1 | 2 | null {
  if (codes.has(sign)) return 1;
  return extension.has(sign) ? 2 : null;
}

/** Any character outside of the alphabet and its extension. */
const foreign = new RegExp(`[^${[...codes.keys(), ...extension.keys()].join("").replace(/[\\\]^-]/g, "\\$&")}]`, "u");

/** Returns true when every character is in the alphabet or its extension. */
export const isGsm = (text: string): boolean => !foreign.test(text);

/** Encodes one septet in each octet, unpacked, as SMPP carries them. Characters outside the alphabet
 *  become question marks. */
export function encodeGsm(text: string): Uint8Array {
  const bytes: number[] = [];
  for (const sign of text) {
    const code = codes.get(sign);
    const second = extension.get(sign);
    if (code !== undefined) bytes.push(code);
    else if (second !== undefined) bytes.push(escape, second);
    else bytes.push(codes.get("?") ?? 0x3f);
  }
  return Uint8Array.from(bytes);
}

/** The languages whose tables the header of a received text names (3GPP TS 23.040, 9.2.3.24.15 and 16). */
export interface NationalTables {
  /** Language of the table behind an escape. */
  readonly single?: number | undefined;
  /** Language of the alphabet itself. */
  readonly locking?: number | undefined;
}

/** Each character with its code before it, in hexadecimal digits. */
const table = (codesAndSigns: string): ReadonlyMap<number, string> =>
  new Map(
    Array.from(codesAndSigns.matchAll(/([0-9A-F]{2})(.)/g), ([, code = "", sign = ""]) => [parseInt(code, 16), sign]),
  );

// What differs from the default tables: Turkish, Spanish, Portuguese (TS 23.038, annex A).
const singleShift: ReadonlyMap<number, ReadonlyMap<number, string>> = new Map([
  [1, table("47Ğ49İ53Ş63ç67ğ69ı73ş")],
  [2, table("09ç41Á49Í4FÓ55Ú61á69í6Fó75ú")],
  [3, table("05ê09ç0BÔ0Cô0EÁ0Fá12Φ13Γ15Ω16Π17Ψ18Σ19Θ1FÊ41À49Í4FÓ55Ú5BÃ5CÕ61Â69í6Fó75ú7Bã7Cõ7Fâ")],
]);
const lockingShift: ReadonlyMap<number, ReadonlyMap<number, string>> = new Map([
  [1, table("04€07ı0BĞ0Cğ1CŞ1Dş40İ60ç")],
  [3, table("04ê06ú07í08ó09ç0BÔ0Cô0EÁ0Fá12ª13Ç14À15∞16^17\\18€19Ó1A|1CÂ1Dâ1EÊ24º40Í5BÃ5CÕ5DÚ60~7Bã7Cõ7D`")],
]);

/** Reverses `encodeGsm`. An escape before an undefined code is decoded as that code (TS 23.038, 6.2.1.1). */
export function decodeGsm(bytes: Uint8Array, { single = 0, locking = 0 }: NationalTables = {}): string {
  const [behindEscape, alphabet] = [singleShift.get(single), lockingShift.get(locking)];
  const signOf = (code: number) => alphabet?.get(code) ?? signs[code] ?? "";
  let text = "";
  for (let at = 0; at < bytes.length; at++) {
    const code = (bytes[at] ?? 0) & 0x7f;
    if (code !== escape) {
      text += signOf(code);
      continue;
    }
    const next = (bytes[++at] ?? 0x20) & 0x7f;
    text += behindEscape?.get(next) ?? extended.get(next) ?? signOf(next);
  }
  return text;
}
