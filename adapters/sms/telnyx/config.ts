// Configuration keys of a channel that sends texts through Telnyx.

import { createPublicKey, type KeyObject } from "node:crypto";
import { units } from "bridgehead/contract";
import * as z from "zod";

const { duration } = units(z);

/** Parses an Ed25519 key as Telnyx shows it (base64 of 32 octets). Returns it in the form that the
 *  crypto module requires (RFC 8410). */
export function publicKey(base64: string): KeyObject {
  const raw = Buffer.from(base64, "base64");
  if (raw.length !== 32) throw new Error("reading a public key: expected 32 octets in base64");
  const prefix = Buffer.from("302a300506032b6570032100", "hex");
  return createPublicKey({ key: Buffer.concat([prefix, raw]), format: "der", type: "spki" });
}

function isPublicKey(base64: string): boolean {
  try {
    return publicKey(base64).asymmetricKeyType === "ed25519";
  } catch {
    return false;
  }
}

export const telnyxConfig = z
  .strictObject({
    api_key: z.string().min(1).describe("What is the API key?").meta({ secret: true }),
    public_keys: z
      .array(z.string().refine(isPublicKey, "expected the public key from the portal: 32 octets in base64"))
      .min(1)
      .describe("Which public keys verify webhook signatures? A list, so that keys can be rotated."),
    messaging_profile: z
      .string()
      .min(1)
      .optional()
      .describe("Which messaging profile sends? Required for an alphanumeric sender or a number pool."),
    check: duration.prefault("5m").describe("How often is the API key verified?"),
  })
  .describe("How is the API of Telnyx used (provider: telnyx)?");

export type TelnyxConfig = z.output<typeof telnyxConfig>;
