// Downloads a picture that a customer sent: only from the provider's hosts, with our login only there,
// bounded in size and time. The URL comes from a webhook request. It is checked even though the request is
// signed.

import { finalError, type Json } from "bridgehead/contract";
import { openDownload } from "../media.ts";
import type { MediaRef } from "./received.ts";
import { isLocal, type TwilioSettings } from "./settings.ts";

const timeoutMs = 60_000;

/** Returns the bytes. Rejects with a final error, which names the reason, when the URL is not one of
 *  this message's media. The same applies when the content is not of the announced type. */
export async function* fetchMedia(
  ref: Json,
  settings: TwilioSettings,
  authorization: string,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  const { url, message, mediaType } = readRef(ref);
  yield* openDownload({
    url: mediumAddress(url, message, settings),
    authorization,
    mediaType,
    maxSize: settings.media.maxSize,
    // The redirects of a sandbox stay on this machine.
    local: isLocal(settings.apiUrl),
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
  });
}

/** Returns the URL after checking that it names a medium of this message and of our account. Its host
 *  must be the API's or a configured one. */
function mediumAddress(text: string, message: string, settings: TwilioSettings): URL {
  const url = URL.parse(text);
  const api = new URL(settings.apiUrl);
  if (url === null) throw finalError("fetching media: that is no address");
  if (url.username !== "" || url.password !== "")
    throw finalError("fetching media: the address has a login in it");
  const same = url.origin === api.origin;
  const other = url.protocol === "https:" && url.port === "" && settings.media.hosts.includes(url.hostname);
  if (!(same && (api.protocol === "https:" || isLocal(api))) && !other)
    throw finalError("fetching media: the host is not the provider's");
  const [, account, owner] =
    /\/2010-04-01\/Accounts\/([\w-]+)\/Messages\/([\w-]+)\/Media\/[\w-]+$/.exec(url.pathname) ?? [];
  if (account !== settings.accountSid || owner !== message)
    throw finalError("fetching media: the address is of another account or message");
  return url;
}

function readRef(ref: Json): MediaRef {
  const { url, message, mediaType } = Object(ref) as { [key in keyof MediaRef]?: unknown };
  if (typeof url !== "string" || typeof message !== "string" || typeof mediaType !== "string")
    throw finalError("fetching media: not a reference of this channel");
  return { url, message, mediaType };
}
