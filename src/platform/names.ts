// Ids and key hashes. Ids are UUIDs, as the interface shows them.

import { createHash, randomBytes } from "node:crypto";

/** A UUID (RFC 9562, version 7): begins with the time, so that new rows land at the end of an index. */
export function newUuid(now: number): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(now, 0, 6);
  return format(bytes, 0x70);
}

/** The same UUID (version 8) for the same words, for ever: ids of agents whose definition names none. */
export function uuidOf(...words: readonly string[]): string {
  const hash = createHash("sha256").update(JSON.stringify(words)).digest();
  return format(hash.subarray(0, 16), 0x80);
}

/** What is kept of a key. Keys are long and random, so a plain hash is enough. */
export function keyHash(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

function format(bytes: Buffer, version: number): string {
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | version;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
