// The headers of Standard Webhooks (https://www.standardwebhooks.com). With them a receiver deduplicates a
// delivery and verifies its age and its origin.

import { createHmac } from "node:crypto";

/** `id`: the same at every attempt. `nowMs`: time of this attempt. `secret`: `whsec_` and Base64; null:
 *  not signed. */
export function webhookHeaders(
  id: string,
  nowMs: number,
  body: string,
  secret: string | null,
): { readonly [name: string]: string } {
  const timestamp = String(Math.floor(nowMs / 1000));
  const named = { "webhook-id": id, "webhook-timestamp": timestamp };
  if (secret === null) return named;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return { ...named, "webhook-signature": `v1,${signature}` };
}
