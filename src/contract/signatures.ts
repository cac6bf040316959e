// Verifies that a request is authentic: signatures of providers, and comparison of secrets in constant time.

import { createHash, createPublicKey, type KeyObject, timingSafeEqual, verify } from "node:crypto";

/** Returns whether both texts are equal. The duration reveals nothing about a partially correct guess. */
export const sameText = (secret: string, given: string): boolean =>
  timingSafeEqual(createHash("sha256").update(secret).digest(), createHash("sha256").update(given).digest());

/** DER prefix of an Ed25519 public key (RFC 8410); the 32 bytes of the key follow it. */
const derPrefix = Buffer.from("302a300506032b6570032100", "hex");

/** Parses an Ed25519 public key: base64 of its 32 bytes, or of its DER form. Returns null for any other text. */
export function ed25519Key(base64: string): KeyObject | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return null;
  const bytes = Buffer.from(base64, "base64");
  const isDer = bytes.length === 44 && bytes.subarray(0, 12).equals(derPrefix);
  if (!isDer && bytes.length !== 32) return null;
  const key = isDer ? bytes : Buffer.concat([derPrefix, bytes]);
  return createPublicKey({ key, format: "der", type: "spki" });
}

/** Returns whether one of the keys signed exactly this body at a current time, as Telnyx does: `telnyx-signature-ed25519`
 *  covers `telnyx-timestamp`, `|` and the raw body, but not the URL. `now`: epoch milliseconds. `toleranceMs`: longest age of
 *  a signature in milliseconds, and how far ahead it may be. Beyond it the request is a replay, or a clock is wrong. */
export function isTelnyxSigned(
  { headers }: Pick<Request, "headers">,
  body: Uint8Array,
  keys: readonly KeyObject[],
  now: number,
  toleranceMs: number,
): boolean {
  const stamp = headers.get("telnyx-timestamp") ?? "";
  const signature = Buffer.from(headers.get("telnyx-signature-ed25519") ?? "", "base64");
  if (!/^\d{1,12}$/.test(stamp) || signature.length !== 64) return false;
  if (Math.abs(now - Number(stamp) * 1000) > toleranceMs) return false;
  const signed = Buffer.concat([Buffer.from(`${stamp}|`), body]);
  return keys.some((key) => verify(null, signed, key, signature));
}

/** The fields of a form or a query. A repeated name has a list, as the code of providers expects. It has no prototype, because
 *  the names come from a request that is not verified yet. */
export type FormFields = Readonly<Record<string, string | readonly string[]>>;

/** Several times what providers send, with all repeats. Each field costs time before the request is verified. */
export const mostFormFields = 1000;

/** Returns the number of fields, with all repeats. */
export const countFields = (form: FormFields): number => Object.values(form).flat().length;

/** Parses a form (`application/x-www-form-urlencoded`) or a query. Keeps blank values and all repeats, because a signature
 *  covers them. Linear. */
export function formOf(body: string): FormFields {
  const form = Object.create(null) as Record<string, string | string[]>;
  const fields = body.replace(/^\?/, "").split("&");
  // The parser of Node.js takes quadratic time for fields without `=`. It removes the question mark.
  const complete = fields.map((field) => (field === "" || field.includes("=") ? field : `${field}=`)).join("&");
  for (const [name, value] of new URLSearchParams(`?${complete}`)) {
    const before = form[name];
    if (before === undefined) form[name] = value;
    // A body that repeats one name thousands of times must not cost quadratic time.
    else if (Array.isArray(before)) before.push(value);
    else form[name] = [before, value];
  }
  return form;
}

/** Returns the value of a field; the first of several. */
export function formField(form: FormFields, name: string): string | undefined {
  const value = form[name];
  return typeof value === "string" ? value : value?.[0];
}
