// A mail's fingerprint: the same for two copies of one mail in one mailbox, whatever the server added on the way.

import { createHash } from "node:crypto";

/** Header lines that differ between copies of a mail. */
const addedByServers = /^(?:delivered-to|received|x-[^:\s]{0,200})\s{0,20}:/i;

/** Hex SHA-256 with line ends as CRLF and the servers' own header lines left out. */
export function digestOf(raw: Uint8Array): string {
  const bytes = normalised(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength));
  const hash = createHash("sha256");
  let at = 0;
  let skipping = false;
  while (at < bytes.length) {
    const end = bytes.indexOf(0x0a, at);
    const next = end < 0 ? bytes.length : end + 1;
    if (next - at <= 2 && bytes[next - 1] === 0x0a) break;
    const folded = bytes[at] === 0x20 || bytes[at] === 0x09;
    if (!folded) skipping = addedByServers.test(bytes.toString("latin1", at, Math.min(next, at + 240)));
    if (!skipping) hash.update(bytes.subarray(at, next));
    at = next;
  }
  return hash.update(bytes.subarray(at)).digest("hex");
}

/** The same bytes with every bare LF turned into CRLF; usually that is the same buffer. */
function normalised(bytes: Buffer): Buffer {
  let bare = 0;
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) {
    if (at === 0 || bytes[at - 1] !== 0x0d) bare++;
  }
  if (bare === 0) return bytes;
  const out = Buffer.allocUnsafe(bytes.length + bare);
  let to = 0;
  for (let from = 0; from < bytes.length; from++) {
    const byte = bytes[from] as number;
    if (byte === 0x0a && (from === 0 || bytes[from - 1] !== 0x0d)) out[to++] = 0x0d;
    out[to++] = byte;
  }
  return out;
}
