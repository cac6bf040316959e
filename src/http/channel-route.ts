// Serves one webhook: finds the channel's route, limits the body, and passes a request with the public URL
// to the handler, independent of the Host header. It works on node's own request and response, because
// webhooks are the hot path of the listener.

import type { IncomingMessage, ServerResponse } from "node:http";
import { type ChannelId, channelId, type HttpRoute, type Log, type Route } from "bridgehead/contract";
import { plain } from "./body.ts";
import { inboundRequest } from "./inbound-request.ts";

const standardBodyBytes = 64 * 1024;

export interface RouteOptions {
  readonly publicUrl: string;
  readonly log: Log;
  routes(channel: ChannelId): readonly Route[] | null;
}

/** The target of a request under /channels/; null for every other one. */
export function channelTarget({ url = "" }: IncomingMessage): URL | null {
  if (!url.startsWith("/channels/") && !/^https?:/i.test(url)) return null;
  const target = URL.parse(url, "http://x");
  return target?.pathname.startsWith("/channels/") ? target : null;
}

/** Returns the response to a request under /channels/<id>/: 404, 405 and 413 of its own, or that of the
 *  handler; a handler that throws yields 503. Never rejects. */
export async function serveRoute(
  incoming: IncomingMessage,
  { pathname, search }: Pick<URL, "pathname" | "search">,
  options: RouteOptions,
): Promise<Response> {
  const { publicUrl, log } = options;
  const [, , id = "", ...rest] = pathname.split("/");
  const path = `/${rest.join("/")}`;
  const candidates = (options.routes(channelId(id)) ?? []).filter(
    (route) => route.path === path && route.kind === "http",
  ) as HttpRoute[];
  if (candidates.length === 0) return plain(404, "not found");
  const { method = "", rawHeaders } = incoming;
  const route = candidates.find((one) => one.method === method);
  if (route === undefined) {
    return plain(405, "method not allowed", { allow: candidates.map((one) => one.method).join(", ") });
  }
  try {
    const body = await bodyOf(incoming, route.maxBodyBytes ?? standardBodyBytes);
    if (body === null) return plain(413, "too large", { connection: "close" });
    const url = `${publicUrl.replace(/\/$/, "")}${pathname}${search}`;
    const signal = () => goneSignal(incoming);
    return await route.handle(inboundRequest({ url, method, rawHeaders, body, signal }));
  } catch (error) {
    // A client that disconnected within its body gets no response, and its request had no effect.
    if (incoming.destroyed && !incoming.complete) return plain(400, "incomplete");
    log.error({ channel: id, path, err: error }, "a webhook failed");
    return plain(503, "unavailable", { "retry-after": "10" });
  }
}

/** Reads the whole body; null as soon as it exceeds the limit. Rejects when the client disconnects. */
function bodyOf(incoming: IncomingMessage, limit: number): Promise<Uint8Array<ArrayBuffer> | null> {
  if (Number(incoming.headers["content-length"] ?? 0) > limit) return Promise.resolve(null);
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    incoming.on("data", (chunk: Buffer) => {
      size += chunk.byteLength;
      if (size <= limit) chunks.push(chunk);
      else {
        chunks.length = 0;
        incoming.pause();
        resolve(null);
      }
    });
    incoming.once("end", () => resolve(new Uint8Array(Buffer.concat(chunks))));
    incoming.once("error", reject);
    incoming.once("close", () => reject(new Error("reading a webhook: the client disconnected")));
  });
}

/** Aborts when the client disconnects before the response is complete. */
function goneSignal(incoming: IncomingMessage): AbortSignal {
  const gone = new AbortController();
  if (incoming.socket.destroyed) gone.abort();
  else incoming.socket.once("close", () => gone.abort());
  return gone.signal;
}

/** Writes the response, whole and with its length. */
export async function writeResponse(outgoing: ServerResponse, response: Response): Promise<void> {
  for (const [name, value] of response.headers)
    outgoing.setHeader(name, name === "set-cookie" ? response.headers.getSetCookie() : value);
  const body = response.body === null ? null : Buffer.from(await response.arrayBuffer());
  if (body !== null) outgoing.setHeader("content-length", body.byteLength);
  outgoing.writeHead(response.status, response.statusText || undefined).end(body ?? undefined);
}
