// Parses header values (addresses, Message-IDs, dates) and decodes raw 8-bit text that should have been
// encoded words.

import { domainToASCII } from "node:url";
import { addressParser, decodeWords } from "postal-mime";
import { decodeText } from "./charset.ts";
import { cleanLine } from "./cleaning.ts";
import type { Mailbox } from "./mail.ts";
import type { HeaderField } from "./tree.ts";

/** Maximum number of addresses of one header. */
/** Characters of an address header that are parsed: about a thousand recipients. */
const maxAddressField = 50_000;
const maxAddresses = 2000;

/** Returns the decoded text of an unstructured header such as Subject. */
export function textOf(value: string | null): string {
  return value === null ? "" : cleanLine(decodeWords(value.slice(0, 20_000)), 2000);
}

/** Returns the mailboxes of every header of that name, including members of groups. */
export function mailboxesOf(headers: readonly HeaderField[], name: string): Mailbox[] {
  const found: Mailbox[] = [];
  for (const field of headers) {
    if (field.name !== name || field.value === "") continue;
    for (const entry of addressParser(field.value.slice(0, maxAddressField), { flatten: true })) {
      if (found.length >= maxAddresses) return found;
      const address = cleanAddress("address" in entry ? (entry.address ?? "") : "");
      if (address !== "") found.push({ address, name: cleanLine(entry.name, 300) });
    }
  }
  return found;
}

/** Returns the address in lower case without surrounding characters; "" when it is not an address. */
export function cleanAddress(text: string): string {
  const address = cleanLine(text, 320)
    .replace(/^[<\s]+|[>\s]+$/g, "")
    .toLowerCase();
  return /^[^\s@<>,;]{1,250}@[^\s@<>,;]{1,253}$/.test(address) ||
    /^"[^"\r\n]{1,200}"@[^\s@<>]{1,253}$/.test(address)
    ? asciiAddress(address)
    : "";
}

/** Returns the address with its domain as A-labels (RFC 5890), the form in which every address is
 *  stored, compared and sent. A Unicode local part is unchanged, as it needs SMTPUTF8. A domain without
 *  such a form is unchanged. */
export function asciiAddress(address: string): string {
  if (/^[\x00-\x7f]*$/.test(address)) return address;
  const at = address.lastIndexOf("@") + 1;
  const domain = asciiDomain(address.slice(at));
  return domain === "" ? address : address.slice(0, at) + domain;
}

/** Returns the domain in lower-case ASCII form; "" when it is not a domain. */
export function asciiDomain(domain: string): string {
  // domainToASCII parses a URL host and drops the text after it: "a.example/b" is not a domain.
  const plain = domain.replace(/\.$/, "");
  return /^[\p{L}\p{M}\p{N}\p{Join_Control}\u{3002}._-]{1,253}$/u.test(plain)
    ? domainToASCII(plain).toLowerCase()
    : "";
}

/** Returns every `<...@...>` of a value in order, without duplicates; at most the last `max`. */
export function messageIdsOf(value: string | null, max = 100): string[] {
  if (value === null) return [];
  const found = new Set<string>();
  for (const [id] of value.slice(0, 200_000).matchAll(/<[^<>\s]{1,990}>/g)) found.add(id);
  return [...found].slice(-max);
}

/** Returns one Message-ID with its brackets, or null. */
export function messageIdOf(value: string | null): string | null {
  return messageIdsOf((value ?? "").slice(0, 2000), 100)[0] ?? null;
}

/** Returns epoch milliseconds; null when the date is missing or invalid. */
export function dateOf(value: string | null): number | null {
  if (value === null || value.length > 200) return null;
  const time = Date.parse(value.replace(/\([^()]{0,100}\)/g, " ").trim());
  return Number.isNaN(time) ? null : time;
}

/** Decodes header values from their bytes, for messages with raw 8-bit or ISO-2022-JP text in headers. */
export function repaired(
  headers: readonly HeaderField[],
  raw: Uint8Array,
  charset: string | null,
): readonly HeaderField[] {
  if (!headers.some((field) => broken(field.value))) return headers;
  const values = rawValues(raw, charset);
  if (values.length !== headers.length) return headers;
  return headers.map((field, i) =>
    broken(field.value) ? { ...field, value: values[i] ?? field.value } : field,
  );
}

const broken = (value: string) => value.includes("\ufffd") || value.includes("\u001b$");

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
