// Telnyx signs webhooks with Ed25519 and shows the public key as base64 of its 32 bytes.

import { createPublicKey, type KeyObject } from "node:crypto";

/** DER prefix of an Ed25519 public key (RFC 8410); the 32 bytes of the key follow it. */
const derPrefix = Buffer.from("302a300506032b6570032100", "hex");

/** Returns the key's 32 bytes from base64, raw or in DER form. Returns null for any other text. */
function bytesOf(text: string): Buffer | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  const bytes = Buffer.from(text, "base64");
  if (bytes.length === 32) return bytes;
  const isDer = bytes.length === 44 && bytes.subarray(0, 12).equals(derPrefix);
  return isDer ? bytes.subarray(12) : null;
}

/** Validates the key when the configuration is loaded. With a wrong key every request would be rejected. */
export const isEd25519Key = (text: string): boolean => bytesOf(text) !== null;

/** Throws an error for a text that is not an Ed25519 public key. */
export function ed25519KeyOf(text: string): KeyObject {
  const bytes = bytesOf(text);
  if (bytes === null) throw new Error("reading an Ed25519 public key: it is not base64 of 32 bytes");
  return createPublicKey({ key: Buffer.concat([derPrefix, bytes]), format: "der", type: "spki" });
}
