// The public listener serves the channels' webhooks and sockets, the platform's webhooks and plain health
// checks. The admin listener, on its own port, serves reasons and metrics. This module owns the ports,
// limits, access log and drain. Routes are looked up at each request, so a reload needs no new listener.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { getRequestListener } from "@hono/node-server";
import type { ChannelId, Clock, Log, Route } from "bridgehead/contract";
import { Hono } from "hono";
import { standardTiming, type Timing } from "../ops/timing.ts";
import { channelTarget, plain as plainText, serveRoute, writeResponse } from "./channel-route.ts";
import { adminHealth, type HealthOptions, publicHealth } from "./health.ts";
import { createSockets, type SocketLimits, standardSockets } from "./sockets.ts";

export interface ListenerOptions extends HealthOptions {
  readonly listen: ListenAddress;
  /** Address of the admin listener with reasons and metrics; absent: disabled. */
  readonly adminListen?: ListenAddress | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Public URL for providers; default: the listener's own URL. */
  readonly publicUrl?: string | undefined;
  /** Returns the routes of a running channel; null when there is no such channel. */
  routes(channel: ChannelId): readonly Route[] | null;
  /** False until the channels run: providers get 503 with Retry-After instead of 404. Default: true. */
  serving?(): boolean;
  /** Serves the platform's webhooks, everything under /platform/. Without it the response is 404. */
  readonly platform?: (request: Request) => Promise<Response>;
  /** Serves the links in notifications, everything under /escalations/. Without it the response is 404. */
  readonly escalations?: (request: Request) => Promise<Response>;
  readonly limits?: Partial<Limits & SocketLimits>;
  readonly timing?: Partial<Timing["http"]>;
}

export interface ListenAddress {
  readonly host: string;
  /** Port 0 selects a free one. */
  readonly port: number;
}

/** Limits that keep an endless client from blocking the listener; `timing.http` has those for slow ones. */
export interface Limits {
  readonly headerBytes: number;
  readonly headers: number;
  /** Limit of open connections, without those that became sockets. */
  readonly connections: number;
}

const standard: Limits = {
  headerBytes: 16_384,
  headers: 100,
  connections: 1000,
};

export interface Listener {
  /** URL of the listener, e.g. `http://127.0.0.1:8025`. */
  readonly url: string;
  /** URL of the admin listener; null without one. */
  readonly adminUrl: string | null;
  readonly publicUrl: string;
  /** Number of sockets that are open or in their handshake. */
  sockets(): number;
  /** Rejects upgrades with 503 and lets sockets finish within `talkMs` (default: `timing.http.talk`). Webhooks are served until all
   *  sockets and their adapters have ended, because calls have a few. After that, webhooks get 503 and
   *  connections are closed. Health checks and metrics stay available. */
  drain(talkMs?: number): Promise<void>;
  /** Drains only the sockets of these routes. Called when their channel is removed or replaced. */
  retire(routes: readonly Route[], talkMs?: number): Promise<void>;
  /** Waits up to `graceMs` (default: `timing.http.closeGrace`) for running requests, then closes the listener. */
  close(graceMs?: number): Promise<void>;
}

/** Resolves when the ports are bound. Rejects, with the configuration key, when a port is not free. */
export async function startListener(options: ListenerOptions): Promise<Listener> {
  const { clock, log } = options;
  const limits = { ...standard, ...standardSockets, ...options.limits };
  const timing = { ...standardTiming.http, ...options.timing };
  let draining = false;
  let publicUrl = options.publicUrl ?? "";

  /** `path` is logged without the query, which may contain secrets. */
  const served = (method: string, path: string, status: number, began: number): void => {
    const fields = { method, path: shownPath(path), status, ms: Math.round(clock.monotonic() - began) };
    if (probes.has(path)) log.debug(fields, "request served");
    else log.info(fields, "request served");
  };
  const app = new Hono();
  app.use(async (context, next) => {
    const began = clock.monotonic();
    if (draining) context.header("connection", "close");
    await next();
    served(context.req.method, context.req.path, context.res.status, began);
  });
  publicHealth(app, options, timing.readyCache);
  const closed = () => draining || options.serving?.() === false;
  for (const path of ["/platform/*", "/escalations/*"])
    app.use(path, async (_context, next) => (closed() ? tryLater() : next()));
  const { platform, escalations } = options;
  if (platform !== undefined) app.all("/platform/*", (context) => platform(context.req.raw));
  if (escalations !== undefined) app.all("/escalations/*", (context) => escalations(context.req.raw));
  async function serveChannel(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    target: URL,
  ): Promise<void> {
    const began = clock.monotonic();
    if (draining) outgoing.setHeader("connection", "close");
    const response = closed() ? tryLater() : await serveRoute(incoming, target, { ...options, publicUrl });
    await writeResponse(outgoing, response);
    served(incoming.method ?? "", target.pathname, response.status, began);
  }
  plainErrors(app, log);
  const server = limitedServer(app, timing, limits, (incoming, outgoing) => {
    const target = channelTarget(incoming);
    if (target === null) return false;
    serveChannel(incoming, outgoing, target).catch((error: unknown) => {
      log.error({ err: error, path: target.pathname }, "a request failed");
      outgoing.destroy();
    });
    return true;
  });
  const sockets = createSockets({ ...options, publicUrl: () => publicUrl }, limits, timing);
  server.maxConnections = limits.connections + limits.sockets;
  const plain = new Set<Duplex>();
  server.on("connection", (connection: Duplex) => {
    if (plain.size >= limits.connections) return connection.destroy();
    plain.add(connection);
    connection.once("close", () => plain.delete(connection));
  });
  server.on("upgrade", (request, connection, head) => {
    plain.delete(connection);
    sockets.upgrade(request, connection, head);
  });
  /** Closes idle connections repeatedly. A request that was running when the close started leaves its
   *  connection open for further requests. */
  async function closeWhatIdles(done: AbortSignal): Promise<void> {
    while (!done.aborted) {
      server.closeIdleConnections();
      await clock.sleep(timing.closeCheck, done);
    }
  }

  const health = adminHealth(options);
  plainErrors(health, log);
  const admin = options.adminListen && limitedServer(health, timing, limits);
  await bound(server, options.listen, "http.listen");
  if (admin && options.adminListen) {
    admin.maxConnections = mostMonitors;
    try {
      await bound(admin, options.adminListen, "http.admin_listen");
    } catch (error) {
      await new Promise((resolve) => server.close(resolve));
      throw error;
    }
  }
  const url = urlOf(server);
  publicUrl ||= url;

  return {
    url,
    adminUrl: admin ? urlOf(admin) : null,
    publicUrl,
    sockets: () => sockets.count(),
    async drain(talkMs = timing.talk) {
      sockets.refuse();
      const talked = sockets.count() > 0;
      await sockets.end(talkMs);
      // A provider whose socket has ended requests the next step of the call at once, and a 503 would end it.
      if (talked) await clock.sleep(timing.lastRequest);
      draining = true;
      server.closeIdleConnections();
    },
    retire: (routes, talkMs = timing.talk) => sockets.end(talkMs, routes),
    async close(graceMs = timing.closeGrace) {
      draining = true;
      sockets.refuse();
      admin?.close();
      admin?.closeAllConnections();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const ended = sockets.end(0);
      const patience = new AbortController();
      const cut = clock.sleep(graceMs, patience.signal).then(() => server.closeAllConnections());
      const tidied = closeWhatIdles(patience.signal);
      await Promise.all([closed, ended]);
      patience.abort();
      await Promise.all([cut, tidied]);
    },
  };
}

/** Limit of connections to the admin listener. */
const mostMonitors = 100;

function plainErrors(app: Hono, log: Log): void {
  app.onError((error, context) => {
    log.error({ err: error, path: shownPath(context.req.path) }, "a request failed");
    return context.text("unavailable\n", 503);
  });
  app.notFound((context) => context.text("not found\n", 404));
}

/** Creates a server with the limits that keep a slow or endless client from blocking it. The caller
 *  handles `upgrade`, and with `first` the requests for which that returns true. */
export function limitedServer(
  app: { fetch(request: Request): Response | Promise<Response> },
  timing: Timing["http"],
  limits: Limits = standard,
  first: (incoming: IncomingMessage, outgoing: ServerResponse) => boolean = () => false,
): Server {
  const serve = getRequestListener((request) => app.fetch(request), { overrideGlobalObjects: false });
  const server = createServer(
    {
      headersTimeout: timing.headers,
      requestTimeout: timing.request,
      keepAliveTimeout: timing.idle,
      maxHeaderSize: limits.headerBytes,
      connectionsCheckingInterval: Math.min(timing.connectionCheck, timing.headers),
      // Some clients offer `Upgrade: h2c` with every request; these requests are served as HTTP/1.1.
      shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === "websocket",
    },
    (incoming, outgoing) => {
      if (!first(incoming, outgoing)) void serve(incoming, outgoing);
    },
  );
  server.maxHeadersCount = limits.headers;
  server.maxConnections = limits.connections;
  return server;
}

const probes: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

/** Removes the token of an escalation link from a path, because it grants access. */
const shownPath = (path: string): string => path.replace(/^(\/escalations\/).*/s, "$1...");

const tryLater = (): Response =>
  plainText(503, "not serving now, try again", { "retry-after": "10", connection: "close" });

/** Resolves when the server listens. `key`: the configuration key of the address. */
export function bound(server: Server, { host, port }: ListenAddress, key: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) =>
      reject(new Error(`listening on ${host}:${port} (${key}): ${error.message}`, { cause: error })),
    );
    server.listen(port, host, resolve);
  });
}

/** Returns the URL of a server that listens. */
export function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
