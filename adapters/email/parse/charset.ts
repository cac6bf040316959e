// Decodes bytes to text. The declared charset is used only when the bytes are consistent with it.

import { isAscii, isUtf8 } from "node:buffer";

/** Charsets that are practically always a wrong label when the text is valid UTF-8 and not ASCII. */
const weakDeclaration =
  /^(?:us-ascii|ascii|iso-?8859-\d{1,2}|latin-?\d|windows-125\d|cp125\d|iso-2022-jp|unknown.*)$/;
/** Stateful or wide encodings, whose bytes can look like ASCII. */
const notAsciiBased = /^(?:utf-?16|utf-?32|hz-gb|iso-2022)/;
/** Names that the platform's decoder does not support. */
const aliases: ReadonlyMap<string, string> = new Map([
  ["cp932", "shift_jis"],
  ["cp936", "gbk"],
  ["cp949", "euc-kr"],
  ["cp950", "big5"],
  ["ks_c_5601", "euc-kr"],
  ["utf_8", "utf-8"],
  ["iso-2022-jp-1", "iso-2022-jp"],
  ["iso-2022-jp-2", "iso-2022-jp"],
  ["iso-2022-jp-ms", "iso-2022-jp"],
  ["cp50220", "iso-2022-jp"],
  ["cp50221", "iso-2022-jp"],
]);

/** Decodes the text of a part. Never throws; undecodable bytes become U+FFFD. */
export function decodeText(bytes: Uint8Array, declared: string | null): string {
  const label = (declared ?? "").trim().toLowerCase();
  if (looksJapanese(bytes)) return decodeWith("iso-2022-jp", bytes);
  if (isAscii(bytes) && !notAsciiBased.test(label)) return decodeWith("utf-8", bytes);
  if (label === "" || weakDeclaration.test(label)) {
    if (isUtf8(bytes)) return decodeWith("utf-8", bytes);
    return decodeWith(label === "" || /ascii|2022|unknown/.test(label) ? "windows-1252" : label, bytes);
  }
  if (/^utf-?8$/.test(label) && !isUtf8(bytes)) return decodeBrokenUtf8(bytes);
  return decodeWith(label, bytes);
}

/** True for ISO-2022-JP, which is recognized by its escape sequences and has no byte above 127. */
function looksJapanese(bytes: Uint8Array): boolean {
  for (let at = bytes.indexOf(0x1b); at >= 0; at = bytes.indexOf(0x1b, at + 1)) {
    const [set, final] = [bytes[at + 1], bytes[at + 2]];
    if (set === 0x24 && (final === 0x40 || final === 0x42)) return isAscii(bytes);
  }
  return false;
}

/** Text with a few UTF-8 errors (truncated or mixed) stays UTF-8. Text with many errors is decoded as
 *  Latin text with a wrong label. */
function decodeBrokenUtf8(bytes: Uint8Array): string {
  const text = decodeWith("utf-8", bytes);
  let broken = 0;
  let foreign = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0xfffd) broken++;
    else if (code > 127) foreign++;
  }
  return broken > foreign ? decodeWith("windows-1252", bytes) : text;
}

function decodeWith(label: string, bytes: Uint8Array): string {
  const names = [
    label,
    aliases.get(label),
    label.replace(/^(?:x-|cs)/, ""),
    isUtf8(bytes) ? "utf-8" : "windows-1252",
  ];
  for (const name of names) {
    if (name === undefined) continue;
    try {
      return new TextDecoder(name).decode(bytes);
    } catch {
      // An unsupported name: try the next candidate.
    }
  }
  return new TextDecoder().decode(bytes);
}
