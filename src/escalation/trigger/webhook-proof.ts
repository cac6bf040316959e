// Authenticates webhooks of the platform: a key in a header and, when `signing_secrets` is configured, a signature as
// defined by Standard Webhooks.

import { createHash, createHmac, timingSafeEqual } from "node:crypto";

/** Compares in constant time, independent of where the strings differ. */
export function isSame(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(wanted));
}

/** True when the request has all three headers of a Standard Webhooks signature. Does not verify the signature. */
export const isSigned = (headers: Headers): boolean =>
  ["webhook-id", "webhook-timestamp", "webhook-signature"].every((name) => headers.has(name));

/** True when one of the signatures matches one of the secrets (`whsec_...`) and the timestamp is within
 *  `toleranceMs` of `now`. */
export function isSignedBy(
  secrets: readonly string[],
  headers: Headers,
  body: Uint8Array,
  now: number,
  toleranceMs: number,
): boolean {
  const id = headers.get("webhook-id") ?? "";
  const seconds = headers.get("webhook-timestamp") ?? "";
  if (!/^\d{1,12}$/.test(seconds) || Math.abs(now - Number(seconds) * 1000) > toleranceMs) return false;
  const given = (headers.get("webhook-signature") ?? "").split(" ").slice(0, 16);
  const wanted = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    const mac = createHmac("sha256", key).update(`${id}.${seconds}.`).update(body);
    return `v1,${mac.digest("base64")}`;
  });
  return given.some((one) => wanted.some((right) => isSame(one, right)));
}
