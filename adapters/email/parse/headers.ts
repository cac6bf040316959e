// Header values: addresses, message ids, dates, and raw 8-bit text where encoded words should have been.

import { domainToASCII } from "node:url";
import { addressParser, decodeWords } from "postal-mime";
import { decodeText } from "./charset.ts";
import { cleanLine } from "./cleaning.ts";
import type { Mailbox } from "./mail.ts";
import type { HeaderField } from "./tree.ts";

/** How many addresses of one header are looked at. */
/** Characters of an address header that are parsed: a thousand recipients. */
const maxAddressField = 50_000;
const maxAddresses = 2000;

/** Decoded text of an unstructured value such as a subject. */
export function textOf(value: string | null): string {
  return value === null ? "" : cleanLine(decodeWords(value.slice(0, 20_000)), 2000);
}

/** The mailboxes of every header of that name, groups opened. */
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

/** Lower case, nothing around it; "" when it is no address. */
export function cleanAddress(text: string): string {
  const address = cleanLine(text, 320)
    .replace(/^[<\s]+|[>\s]+$/g, "")
    .toLowerCase();
  return /^[^\s@<>,;]{1,250}@[^\s@<>,;]{1,253}$/.test(address) ||
    /^"[^"\r\n]{1,200}"@[^\s@<>]{1,253}$/.test(address)
    ? asciiAddress(address)
    : "";
}

/**
 * The address with its domain as A-labels (RFC 5890), the form in which every address is stored, compared and sent. A
 * local part in Unicode stays, as it needs SMTPUTF8. A domain that has no such form stays as it is.
 */
export function asciiAddress(address: string): string {
  if (/^[\x00-\x7f]*$/.test(address)) return address;
  const at = address.lastIndexOf("@") + 1;
  const domain = asciiDomain(address.slice(at));
  return domain === "" ? address : address.slice(0, at) + domain;
}

/** Lower case, in its ASCII form; "" when it is no domain. */
export function asciiDomain(domain: string): string {
  // domainToASCII reads a URL's host and drops what follows it: "a.example/b" is no domain.
  const plain = domain.replace(/\.$/, "");
  return /^[\p{L}\p{M}\p{N}\p{Join_Control}\u{3002}._-]{1,253}$/u.test(plain)
    ? domainToASCII(plain).toLowerCase()
    : "";
}

/** Every `<...@...>` of a value in order, without repeats; at most `max`, the last ones. */
export function messageIdsOf(value: string | null, max = 100): string[] {
  if (value === null) return [];
  const found = new Set<string>();
  for (const [id] of value.slice(0, 200_000).matchAll(/<[^<>\s]{1,990}>/g)) found.add(id);
  return [...found].slice(-max);
}

/** One id with its brackets, or null. */
export function messageIdOf(value: string | null): string | null {
  return messageIdsOf((value ?? "").slice(0, 2000), 100)[0] ?? null;
}

/** Epoch milliseconds; null when missing or unreadable. */
export function dateOf(value: string | null): number | null {
  if (value === null || value.length > 200) return null;
  const time = Date.parse(value.replace(/\([^()]{0,100}\)/g, " ").trim());
  return Number.isNaN(time) ? null : time;
}

/** Header values again from their bytes, for mails that put raw 8-bit or ISO-2022-JP text into headers. */
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

/** Splits the header as the MIME parser does, but keeps the bytes of each field together for decoding. */
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
