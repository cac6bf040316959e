// Comparing secrets without telling by the time it takes how much of a guess was right.

import { createHash, timingSafeEqual } from "node:crypto";

/** Whether both texts are the same; takes as long for any guess of the same length. */
export function sameText(secret: string, given: string): boolean {
  return timingSafeEqual(digest(secret), digest(given));
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
