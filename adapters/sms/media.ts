// Downloads media from URLs in inbound messages, which are untrusted. Redirects are followed explicitly, without our
// login, and never into a private network. Size, time and media type are checked while the bytes arrive.

import { lookup } from "node:dns";
import { type IncomingMessage, request as plain } from "node:http";
import { request as encrypted } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { finalError } from "bridgehead/contract";
import ipaddr from "ipaddr.js";

export interface Download {
  readonly url: URL;
  /** Authorization header of the first request only; null: the URL is public. */
  readonly authorization: string | null;
  /** The announced type. Content that is certainly of another type is refused. */
  readonly mediaType: string;
  /** Maximum size in bytes. */
  readonly maxSize: number;
  /** True when the provider's API runs on this machine. Then http is allowed, and only loopback
   *  addresses are accepted. */
  readonly local: boolean;
  readonly signal: AbortSignal;
}

const mostRedirects = 3;
const redirects = new Set([301, 302, 303, 307, 308]);

/** Returns the bytes. Rejects with the reason; the error is final when no retry could succeed. Bytes
 *  received before an error are unusable. */
export async function* openDownload(download: Download): AsyncIterable<Uint8Array> {
  const response = await follow(download);
  try {
    yield* checked(response, download);
  } finally {
    response.destroy();
  }
}

async function follow(download: Download): Promise<IncomingMessage> {
  let url = download.url;
  for (let hops = 0; ; hops++) {
    const response = await get(url, hops === 0 ? download.authorization : null, download);
    const status = response.statusCode ?? 0;
    if (status === 200) return response;
    response.destroy();
    const target = redirects.has(status) ? URL.parse(response.headers.location ?? "", url.href) : null;
    if (target === null) throw refusal(status);
    if (hops === mostRedirects) throw finalError("fetching media: too many redirects");
    url = target;
  }
}

/** Returns the error for a response status. A login can be corrected, and media may reach the provider's
 *  network later than the message. Status 410 and 451 are final. */
function refusal(status: number): Error {
  const words = `fetching media: the answer was ${status}`;
  return status === 410 || status === 451 ? finalError(words) : new Error(words);
}

function get(url: URL, authorization: string | null, download: Download): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const safe = url.protocol === "https:";
    if (!safe && !(download.local && url.protocol === "http:"))
      throw finalError("fetching media: the address is not https");
    if (url.username !== "" || url.password !== "") throw finalError("fetching media: the address has a login in it");
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (isIP(host) !== 0 && !isAllowed(host, download.local)) throw finalError(notPublic);
    const out = (safe ? encrypted : plain)(url, {
      headers: { accept: "*/*", ...(authorization === null ? {} : { authorization }) },
      lookup: guarded(download.local),
      signal: download.signal,
      // A separate connection: never one that was opened for another host name.
      agent: false,
    });
    out.once("error", reject);
    out.once("response", resolve);
    out.end();
  });
}

const notPublic = "fetching media: the address is not a public one";

/** Resolves names and refuses private addresses in the same lookup that the connection uses. A second,
 *  different DNS response is therefore impossible. */
function guarded(local: boolean): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const good = error ? [] : addresses.filter(({ address }) => isAllowed(address, local));
      const [first] = good;
      if (error) callback(error, "", 0);
      else if (first === undefined || good.length < addresses.length) callback(finalError(notPublic), "", 0);
      else if (options.all) callback(null, good);
      else callback(null, first.address, first.family);
    });
}

/** Returns true for addresses of the public internet, or for loopback addresses when `local` is set.
 *  Mapped IPv4 addresses count as IPv4. */
function isAllowed(address: string, local: boolean): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (local) return parsed.range() === "loopback";
  // Only this IPv6 range is allocated for global unicast (RFC 4291). Others embed IPv4 or are internal.
  return parsed.range() === "unicast" && (parsed.kind() === "ipv4" || parsed.match(globalUnicast));
}

const globalUnicast = ipaddr.parseCIDR("2000::/3");

async function* checked(response: IncomingMessage, { maxSize, mediaType }: Download): AsyncIterable<Uint8Array> {
  const tooLarge = () => finalError(`fetching media: larger than ${maxSize} bytes`);
  if (Number(response.headers["content-length"] ?? 0) > maxSize) throw tooLarge();
  let size = 0;
  let head: Buffer | null = Buffer.alloc(0);
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxSize) throw tooLarge();
    if (head === null) {
      yield chunk;
      continue;
    }
    head = Buffer.concat([head, chunk]);
    if (head.length < headBytes) continue;
    yield inspected(head, mediaType);
    head = null;
  }
  if (head !== null && head.length > 0) yield inspected(head, mediaType);
}

const headBytes = 64;

/** File signatures. Content that starts with one is of that kind, regardless of its announced type. */
const beginnings: readonly (readonly [kind: string, pattern: RegExp])[] = [
  ["text", /^\s*<(?:!doctype|html|script|\?xml|svg)/i],
  ["application", /^(?:MZ|\x7fELF|PK\x03\x04|%PDF|Rar!)/],
  ["image", /^(?:\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP|BM)/s],
  ["audio", /^(?:ID3|OggS|fLaC|#!AMR|RIFF....WAVE)/s],
];

/** Returns the first bytes. Throws when they are certainly of another kind than the announced image, audio or video. */
function inspected(head: Buffer, mediaType: string): Buffer {
  const announced = mediaType.split("/")[0]?.toLowerCase() ?? "";
  const begin = head.subarray(0, headBytes).toString("latin1");
  const found = beginnings.find(([, pattern]) => pattern.test(begin))?.[0];
  const strict = announced === "image" || announced === "audio" || announced === "video";
  // Audio and video share container formats.
  const same = found === announced || (found === "audio" && announced === "video");
  if (strict && found !== undefined && !same)
    throw finalError("fetching media: the content does not match its announced type");
  return head;
}
