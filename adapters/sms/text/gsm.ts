// The GSM default alphabet (3GPP TS 23.038, 6.2.1). A message inside it costs 7 bits a character, any other
// message 16.

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
export function septetsOf(sign: string): 1 | 2 | null {
  if (codes.has(sign)) return 1;
  return extension.has(sign) ? 2 : null;
}

/** Returns true when every character is in the alphabet or its extension. */
export function isGsm(text: string): boolean {
  for (const sign of text) if (septetsOf(sign) === null) return false;
  return true;
}

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

/** Reverses `encodeGsm`. An escape before an undefined code is decoded as that code (TS 23.038,
 *  6.2.1.1). */
export function decodeGsm(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at++) {
    const code = (bytes[at] ?? 0) & 0x7f;
    if (code !== escape) {
      text += signs[code] ?? "";
      continue;
    }
    const next = (bytes[++at] ?? 0x20) & 0x7f;
    text += extended.get(next) ?? signs[next] ?? "";
  }
  return text;
}
