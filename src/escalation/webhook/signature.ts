// The headers of Standard Webhooks (https://www.standardwebhooks.com): by them a receiver knows a delivery again, sees
// that it is fresh, and that it is ours.

import { createHmac } from "node:crypto";

/** `id`: the same on every try. `nowMs`: of this try. `secret`: `whsec_` and Base64; null: not signed. */
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
