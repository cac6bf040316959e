// The value that binds a websocket to the call it was announced for. It is made while the call's webhook is answered, holds
// for a minute, and works once: its id becomes the id of the stored opening, which is unique.

import { createHmac, randomBytes } from "node:crypto";
import { sameText } from "./constant-time.ts";

const holdsMs = 60_000;

/** Keys for tokens are not the tokens they are made of. */
const keyOf = (secret: string) => createHmac("sha256", secret).update("bridgehead call token").digest();
const sign = (secret: string, what: string) =>
  createHmac("sha256", keyOf(secret)).update(what).digest("base64url");

/** A token for that call, `now` in milliseconds. URL-safe. */
export function callToken(secret: string, call: string, now: number): string {
  const id = randomBytes(15).toString("base64url");
  const until = Math.floor(now + holdsMs).toString(36);
  return `${id}.${until}.${sign(secret, `${id}.${until}.${call}`)}`;
}

/** The token's id, or null when it was not made with one of the secrets for this call or holds no longer. */
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
