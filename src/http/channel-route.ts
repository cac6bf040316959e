// Serves one webhook: finds the channel's route, limits the body, and passes a request with the public URL
// to the handler, independent of the Host header.

import { type ChannelId, channelId, type HttpRoute, type Log, type Route } from "bridgehead/contract";
import { plain, readBody } from "./body.ts";

const standardBodyBytes = 64 * 1024;

export interface RouteOptions {
  readonly publicUrl: string;
  readonly log: Log;
  routes(channel: ChannelId): readonly Route[] | null;
}

/** `request` is under /channels/<id>/. Responds 404, 405 and 413 itself; a handler that throws yields
 *  503. */
export async function serveRoute(request: Request, options: RouteOptions): Promise<Response> {
  const { publicUrl, log } = options;
  const { pathname, search } = new URL(request.url);
  const [, , id = "", ...rest] = pathname.split("/");
  const path = `/${rest.join("/")}`;
  const candidates = (options.routes(channelId(id)) ?? []).filter(
    (route) => route.path === path && route.kind === "http",
  ) as HttpRoute[];
  if (candidates.length === 0) return plain(404, "not found");
  const route = candidates.find(({ method }) => method === request.method);
  if (route === undefined) {
    return plain(405, "method not allowed", { allow: candidates.map(({ method }) => method).join(", ") });
  }
  const body = await readBody(request, route.maxBodyBytes ?? standardBodyBytes);
  if (body === null) return plain(413, "too large", { connection: "close" });
  const copy = new Request(`${publicUrl.replace(/\/$/, "")}${pathname}${search}`, {
    method: request.method,
    headers: request.headers,
    signal: request.signal,
    ...(request.method === "GET" ? {} : { body }),
  });
  try {
    return await route.handle(copy);
  } catch (error) {
    log.error({ channel: id, path, err: error }, "a webhook failed");
    return plain(503, "unavailable", { "retry-after": "10" });
  }
}
