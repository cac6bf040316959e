// Decodes headers with raw 8-bit or ISO-2022-JP text from their bytes.

import { decodeText } from "./charsets.ts";
import { isBroken } from "./headers.ts";
import { type HeaderField, type MimePart, walk } from "./mime.ts";

/** Returns the headers of a message with the values of its broken fields decoded. */
export function repaired(root: MimePart, raw: Uint8Array): readonly HeaderField[] {
  const { headers } = root;
  const values = rawValues(raw, charsetHint(root));
  if (values.length !== headers.length) return headers;
  return headers.map((field, i) => (isBroken(field) ? { ...field, value: values[i] ?? field.value } : field));
}

/** Splits the header as the MIME parser does, but keeps the bytes of each field for decoding. */
function rawValues(raw: Uint8Array, charset: string | null): string[] {
  const bytes = Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength);
  const fields: Buffer[][] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(0x0a, at);
    const next = end < 0 ? bytes.length : end + 1;
    const line = bytes.subarray(at, trimmedEnd(bytes, at, next));
    if (line.length === 0) break;
    const folded = line[0] === 0x20 || line[0] === 0x09;
    if (folded && fields.length > 0) fields.at(-1)?.push(line);
    else fields.push([line]);
    at = next;
  }
  return fields.map((lines) => valueOf(decodeText(Buffer.concat(lines), charset)));
}

function trimmedEnd(bytes: Buffer, start: number, end: number): number {
  while (end > start && (bytes[end - 1] === 0x0a || bytes[end - 1] === 0x0d)) end--;
  return end;
}

function valueOf(line: string): string {
  const colon = line.indexOf(":");
  return colon < 0 ? "" : line.slice(colon + 1).trim();
}

/** Returns the charset of the text, which is the best guess for raw headers. */
function charsetHint(root: MimePart): string | null {
  for (const part of walk(root)) {
    const charset = part.parameters["charset"];
    if (charset !== undefined) return charset;
  }
  return null;
}
