// The links in notifications, which acknowledge with one tap. The URL carries a token; the store has its
// hash.

import { createHash } from "node:crypto";

/** Path prefix at the listener. */
export const linkPath = "/escalations";

/** Returns the URL of a token; null without a public URL, because the link could not be opened. */
export const linkTo = (publicUrl: string | undefined, token: string): string | null =>
  publicUrl === undefined ? null : `${publicUrl}${linkPath}/${token}`;

/** Returns the stored form of a token. */
export const hashOf = (token: string): string => createHash("sha256").update(token).digest("hex");
