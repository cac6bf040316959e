// Telnyx signs webhooks with Ed25519 and shows the public key as base64 of its 32 bytes.

import { createPublicKey, type KeyObject } from "node:crypto";

/** What precedes the 32 bytes in the DER form of an Ed25519 key (RFC 8410). */
const derPrefix = Buffer.from("302a300506032b6570032100", "hex");

/** The 32 bytes; null for anything that is not base64 of them, or of their DER form. */
function bytesOf(text: string): Buffer | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  const bytes = Buffer.from(text, "base64");
  if (bytes.length === 32) return bytes;
  const isDer = bytes.length === 44 && bytes.subarray(0, 12).equals(derPrefix);
  return isDer ? bytes.subarray(12) : null;
}

/** Checked when the configuration is loaded: with a wrong key every call would be refused. */
export const isEd25519Key = (text: string): boolean => bytesOf(text) !== null;

/** Throws for a text that is no such key. */
export function ed25519KeyOf(text: string): KeyObject {
  const bytes = bytesOf(text);
  if (bytes === null) throw new Error("reading an Ed25519 public key: it is not base64 of 32 bytes");
  return createPublicKey({ key: Buffer.concat([derPrefix, bytes]), format: "der", type: "spki" });
}
