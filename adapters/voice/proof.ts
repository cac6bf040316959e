// Verifies X-Twilio-Signature over the public URL. That URL comes from the configuration and never from the request
// (twilio.com/docs/usage/security).

import { createHmac, randomBytes } from "node:crypto";
import {
  countFields,
  type FormFields,
  formField,
  formOf,
  mostFormFields,
  type RoutePath,
  sameText,
} from "bridgehead/contract";
import { validateRequest } from "twilio/lib/webhooks/webhooks.js";
import type { VoiceChannel } from "./engine/record.ts";

/** The parameters of a request by name. The first value of a repeated name counts. */
export type Params = Readonly<Record<string, string | undefined>>;

const header = "x-twilio-signature";

/** Returns the parameters of a request that is signed with one of the secrets; else null. */
export async function signedParams(
  { channel }: Pick<VoiceChannel, "channel">,
  secrets: readonly string[],
  path: RoutePath,
  request: Request,
): Promise<Params | null> {
  const { search } = new URL(request.url);
  const signature = request.headers.get(header);
  if (signature === null) return null;
  const form = request.method === "POST" ? formOf(await request.text()) : {};
  if (countFields(form) > mostFormFields) return null;
  const url = channel.url(path).href + search;
  if (!secrets.some((secret) => validateRequest(secret, signature, url, form))) return null;
  return { ...firstOf(formOf(search)), ...firstOf(form) };
}

export const firstOf = (form: FormFields): Params =>
  Object.fromEntries(Object.keys(form).map((name) => [name, formField(form, name)]));

/** Returns whether a websocket upgrade request is signed. The signature covers the exact websocket URL without
 *  parameters. */
export function upgradeIsSigned(
  { channel }: Pick<VoiceChannel, "channel">,
  secrets: readonly string[],
  path: RoutePath,
  request: Request,
): boolean {
  const signature = request.headers.get(header);
  const url = socketUrl(channel.url(path));
  return signature !== null && secrets.some((secret) => validateRequest(secret, signature, url, {}));
}

/** Returns an `https://` URL as a websocket URL (`wss://`). */
export function socketUrl(url: URL): string {
  return url.href.replace(/^http/, "ws");
}

// The token that binds a websocket to its call. It is created in the response to the call's webhook and expires. It
// works once: its id becomes the id of the stored opening, which is unique.

/** The token key is derived from the secret, so the secret signs no token directly. */
const keyOf = (secret: string) => createHmac("sha256", secret).update("bridgehead call token").digest();
const sign = (secret: string, what: string) => createHmac("sha256", keyOf(secret)).update(what).digest("base64url");

/** Returns a URL-safe token for the call, which expires at `until` (clock milliseconds). */
export function callToken(secret: string, call: string, until: number): string {
  const id = randomBytes(15).toString("base64url");
  const end = Math.floor(until).toString(36);
  return `${id}.${end}.${sign(secret, `${id}.${end}.${call}`)}`;
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
