// The token that binds a websocket to its call. It is created in the response to the call's webhook and expires after a
// minute. It works once: its id becomes the id of the stored opening, which is unique.

import { createHmac, randomBytes } from "node:crypto";
import { sameText } from "./constant-time.ts";

const holdsMs = 60_000;

/** The token key is derived from the secret, so the secret signs no token directly. */
const keyOf = (secret: string) => createHmac("sha256", secret).update("bridgehead call token").digest();
const sign = (secret: string, what: string) =>
  createHmac("sha256", keyOf(secret)).update(what).digest("base64url");

/** Returns a URL-safe token for the call. `now` is in milliseconds. */
export function callToken(secret: string, call: string, now: number): string {
  const id = randomBytes(15).toString("base64url");
  const until = Math.floor(now + holdsMs).toString(36);
  return `${id}.${until}.${sign(secret, `${id}.${until}.${call}`)}`;
}

/** Returns the token's id. Returns null when the token has expired or no secret signed it for this call. */
export function readToken(
  secrets: readonly string[],
  token: string | null | undefined,
  call: string,
  now: number,
): string | null {
  const [id = "", until = "", signature = ""] = (token ?? "").split(".");
  const fits = secrets.some((secret) => sameText(sign(secret, `${id}.${until}.${call}`), signature));
  return fits && id !== "" && now <= Number.parseInt(until, 36) ? id : null;
}
