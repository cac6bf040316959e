// Signed URLs, which give access to one file for a limited time without a key. Uploads and downloads use
// them.

import { createHmac, timingSafeEqual } from "node:crypto";

const goodForMs = 15 * 60_000;

export type Purpose = "upload" | "download";

/** Returns the path and query of a URL that is valid for 15 minutes from now. */
export function signedPath(secret: Uint8Array, purpose: Purpose, fileId: string, now: number): string {
  const expires = now + goodForMs;
  const signature = sign(secret, purpose, fileId, expires);
  return `/message-files/${fileId}/${purpose}?${new URLSearchParams({ expires: String(expires), signature }).toString()}`;
}

/** Verifies the signature, the purpose and the expiry of a URL. */
export function isSigned(
  secret: Uint8Array,
  { purpose, fileId, expires, signature }: Claim,
  now: number,
): boolean {
  const until = Number(expires);
  if (!Number.isSafeInteger(until) || until < now) return false;
  const right = Buffer.from(sign(secret, purpose, fileId, until));
  const given = Buffer.from(signature);
  return right.length === given.length && timingSafeEqual(right, given);
}

interface Claim {
  readonly purpose: Purpose;
  readonly fileId: string;
  readonly expires: string;
  readonly signature: string;
}

function sign(secret: Uint8Array, purpose: Purpose, fileId: string, expires: number): string {
  return createHmac("sha256", secret)
    .update(JSON.stringify([purpose, fileId, expires]))
    .digest("base64url");
}
