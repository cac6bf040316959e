// The links in notices: one tap acknowledges. The address carries a token; what is stored is its hash.

import { createHash } from "node:crypto";

/** Under which path the listener serves them. */
export const linkPath = "/escalations";

/** The address of a token; null when nobody could open it. */
export const linkTo = (publicUrl: string | undefined, token: string): string | null =>
  publicUrl === undefined ? null : `${publicUrl}${linkPath}/${token}`;

/** What is stored of a token. */
export const hashOf = (token: string): string => createHash("sha256").update(token).digest("hex");
