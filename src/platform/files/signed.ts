// Addresses that open one file for a while, to whoever has them: no key travels with an upload or a download.

import { createHmac, timingSafeEqual } from "node:crypto";

const goodForMs = 15 * 60_000;

export type Purpose = "upload" | "download";

/** The path and query of an address that is good from now on for a quarter of an hour. */
export function signedPath(secret: Uint8Array, purpose: Purpose, fileId: string, now: number): string {
  const expires = now + goodForMs;
  const signature = sign(secret, purpose, fileId, expires);
  return `/message-files/${fileId}/${purpose}?${new URLSearchParams({ expires: String(expires), signature }).toString()}`;
}

/** Is it ours, for this, and still good? */
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
