// Compares secrets in constant time, so that the response time reveals nothing about a partially correct guess.

import { createHash, timingSafeEqual } from "node:crypto";

/** Returns whether both texts are equal. The duration is the same for all guesses of one length. */
export function sameText(secret: string, given: string): boolean {
  return timingSafeEqual(digest(secret), digest(given));
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
