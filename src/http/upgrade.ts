// Handles an upgrade before the handshake: finds the route, calls the adapter's authorization, and writes
// the error response.

import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import {
  type ChannelId,
  type Clock,
  channelId,
  type Log,
  type Route,
  type SocketRoute,
} from "bridgehead/contract";

export interface UpgradeOptions {
  readonly clock: Clock;
  readonly log: Log;
  publicUrl(): string;
  /** False while the daemon starts: no channel has routes yet, so every upgrade gets 503. Default: true. */
  serving?(): boolean;
  routes(channel: ChannelId): readonly Route[] | null;
}

/** An upgrade request before its route's `authorize`. */
export interface Knock {
  readonly channel: string;
  readonly route: SocketRoute;
  /** Has the public URL, independent of the Host header; aborts when the client disconnects. */
  readonly request: Request;
  /** Path for the log: the route's own pattern, because a wildcard segment may be a secret. */
  readonly path: string;
}

/** Returns the route of a well-formed upgrade, or the error response. `gone` becomes the request's
 *  signal. */
export function findRoute(
  incoming: IncomingMessage,
  options: UpgradeOptions,
  gone: AbortSignal,
): Knock | { readonly refusal: Response; readonly path: string } {
  const target = URL.parse(incoming.url ?? "", "http://x");
  const [, place = "", id = "", ...rest] = target?.pathname.split("/") ?? [];
  if (place === "channels" && options.serving?.() === false)
    return { refusal: unavailable(), path: `/${place}/${id}` };
  const route = place === "channels" ? match(options.routes(channelId(id)) ?? [], rest) : undefined;
  const path = route ? `/channels/${id}${route.path}` : `/${place}/${id}`;
  const refuse = (status: number, text: string, headers: Record<string, string> = {}) => ({
    refusal: plain(status, text, headers),
    path,
  });
  if (!route || !target) return refuse(404, "not found");
  if (incoming.method !== "GET") return refuse(405, "method not allowed", { allow: "GET" });
  const { "sec-websocket-key": key = "", "sec-websocket-version": version } = incoming.headers;
  if (!handshakeKey.test(key)) return refuse(400, "no websocket key");
  if (version !== "13") return refuse(426, "another version", { "sec-websocket-version": "13" });
  if (route.protocol !== undefined && !offered(incoming).includes(route.protocol)) {
    return refuse(400, `the subprotocol here is ${route.protocol}`);
  }
  const base = options.publicUrl().replace(/\/$/, "").replace(/^http/, "ws");
  try {
    const headers = new Headers();
    for (const [name, values = []] of Object.entries(incoming.headersDistinct)) {
      for (const value of values) headers.append(name, value);
    }
    const request = new Request(`${base}${target.pathname}${target.search}`, { headers, signal: gone });
    return { channel: id, route, request, path };
  } catch {
    return refuse(400, "bad request");
  }
}

/** 16 bytes in base64 (RFC 6455, 4.1). */
const handshakeKey = /^[+/0-9A-Za-z]{22}==$/;

/** Returns the route with that path. A `*` in a route matches one non-empty segment; an exact path takes
 *  precedence. */
function match(routes: readonly Route[], rest: readonly string[]): SocketRoute | undefined {
  const sockets = routes.filter((route): route is SocketRoute => route.kind === "socket");
  const fits = ({ path }: SocketRoute) => {
    const wanted = path.split("/").slice(1);
    return (
      wanted.length === rest.length &&
      wanted.every((part, at) => (part === "*" ? rest[at] !== "" : part === rest[at]))
    );
  };
  const found = sockets.filter(fits);
  return found.find(({ path }) => !path.includes("*")) ?? found[0];
}

const offered = (incoming: IncomingMessage): readonly string[] =>
  (incoming.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());

/** Returns the adapter's response; null accepts the socket. An exception or a timeout after `ms` yields
 *  503. */
export async function askAdapter(
  knock: Knock,
  options: UpgradeOptions,
  ms: number,
): Promise<Response | null> {
  const { clock, log } = options;
  const answered = new AbortController();
  const late = clock.sleep(ms, answered.signal).then(() => {
    if (answered.signal.aborted) return null;
    log.error({ channel: knock.channel, path: knock.path, ms }, "authorizing a socket takes too long");
    return unavailable();
  });
  try {
    return await Promise.race([knock.route.authorize(knock.request), late]);
  } catch (error) {
    log.error({ channel: knock.channel, path: knock.path, err: error }, "authorizing a socket failed");
    return unavailable();
  } finally {
    answered.abort();
  }
}

/** Writes the HTTP response and closes the connection. Resolves with the status when all data was sent. */
export async function refuse(connection: Duplex, response: Response): Promise<number> {
  const { status } = response;
  const body = Buffer.from(await response.arrayBuffer().catch(() => new ArrayBuffer(0)));
  const headers = new Headers(response.headers);
  headers.set("connection", "close");
  headers.set("content-length", String(body.byteLength));
  const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const head = `HTTP/1.1 ${status} ${response.statusText || (STATUS_CODES[status] ?? "Refused")}\r\n${lines}\r\n`;
  await new Promise<void>((resolve) => {
    connection.once("close", resolve);
    connection.end(Buffer.concat([Buffer.from(head, "latin1"), body]), () => connection.destroy());
    if (connection.destroyed) resolve();
  });
  return status;
}

export const unavailable = (): Response => plain(503, "unavailable, try again", { "retry-after": "10" });

const plain = (status: number, text: string, headers: Record<string, string> = {}): Response =>
  new Response(`${text}\n`, { status, headers: { "content-type": "text/plain; charset=utf-8", ...headers } });
