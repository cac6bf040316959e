// Ids and key hashes. Ids are UUIDs, as the API requires.

import { createHash, randomBytes } from "node:crypto";

/** Generates a UUID version 7 (RFC 9562). It starts with the time, so new rows are appended to the end of an index. */
export function newUuid(now: number): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(now, 0, 6);
  return format(bytes, 0x70);
}

/** Derives a stable UUID version 8 from the given strings, for agents whose definition has no id. */
export function uuidOf(...words: readonly string[]): string {
  const hash = createHash("sha256").update(JSON.stringify(words)).digest();
  return format(hash.subarray(0, 16), 0x80);
}

/** Hashes a key for storage. Keys are long and random, so a plain hash is sufficient. */
export function keyHash(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

function format(bytes: Buffer, version: number): string {
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | version;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
