// The one listener: channels' webhooks, the platform's webhooks, health and metrics. It owns the port, limits, access
// log and drain; what is behind a route is looked up at each request, so a reload needs no new listener.

import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { ChannelId, Clock, Log, Route } from "bridgehead/contract";
import { type Context, Hono } from "hono";
import { serveRoute } from "./channel-route.ts";
import { healthRoutes, type Readiness } from "./health.ts";

export interface ListenerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly clock: Clock;
  readonly log: Log;
  /** Under which address providers reach us; default: where we listen. */
  readonly publicUrl?: string | undefined;
  /** The routes of a running channel; null when there is no such channel. */
  routes(channel: ChannelId): readonly Route[] | null;
  /** Serves the platform's webhooks, everything under /platform/. Without it they are answered 404. */
  readonly platform?: (request: Request) => Promise<Response>;
  /** What /readyz says. */
  ready(): Promise<Readiness>;
  /** What /metrics says. */
  metrics(): Promise<{ readonly contentType: string; readonly body: string }>;
  readonly limits?: Partial<Limits>;
}

/** Milliseconds and counts that keep a slow or endless client from holding the listener. */
export interface Limits {
  /** Until the last header has arrived. */
  readonly headersMs: number;
  /** Until the whole request has arrived. */
  readonly requestMs: number;
  readonly idleMs: number;
  readonly headerBytes: number;
  readonly headers: number;
  readonly connections: number;
}

const standard: Limits = {
  headersMs: 10_000,
  requestMs: 30_000,
  idleMs: 5000,
  headerBytes: 16_384,
  headers: 100,
  connections: 1000,
};

export interface Listener {
  /** Where it listens, e.g. `http://127.0.0.1:8025`. */
  readonly url: string;
  readonly publicUrl: string;
  /** From now on webhooks are answered 503 and connections end; health and metrics go on. */
  drain(): void;
  /** Ends running requests within `graceMs`, then the listener. */
  close(graceMs?: number): Promise<void>;
}

/** Resolves when the port is bound. Rejects when it is not free. */
export async function startListener(options: ListenerOptions): Promise<Listener> {
  const { clock, log } = options;
  const limits = { ...standard, ...options.limits };
  let draining = false;
  let publicUrl = options.publicUrl ?? "";

  const app = new Hono();
  app.use(async (context, next) => {
    const began = clock.monotonic();
    if (draining) context.header("connection", "close");
    await next();
    const { method, path } = context.req; // never the query: it may carry what is nobody's business
    const fields = { method, path, status: context.res.status, ms: Math.round(clock.monotonic() - began) };
    if (probes.has(path)) log.debug(fields, "request served");
    else log.info(fields, "request served");
  });
  healthRoutes(app, options);
  app.use("/channels/*", async (context, next) => (draining ? tryLater(context) : next()));
  app.use("/platform/*", async (context, next) => (draining ? tryLater(context) : next()));
  app.all("/channels/:id/*", (context) => serveRoute(context.req.raw, { ...options, publicUrl }));
  const { platform } = options;
  if (platform !== undefined) app.all("/platform/*", (context) => platform(context.req.raw));
  app.onError((error, context) => {
    log.error({ err: error, path: context.req.path }, "a request failed");
    return context.text("unavailable\n", 503);
  });
  app.notFound((context) => context.text("not found\n", 404));

  const serve = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  const server = createServer(
    {
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.idleMs,
      maxHeaderSize: limits.headerBytes,
      connectionsCheckingInterval: Math.min(1000, limits.headersMs),
    },
    (incoming, outgoing) => void serve(incoming, outgoing),
  );
  server.maxHeadersCount = limits.headers;
  server.maxConnections = limits.connections;
  // A place for the channels' sockets: until one is served here, an upgrade is refused in words.
  server.on("upgrade", (_request, socket: Socket) => {
    socket.end("HTTP/1.1 501 Not Implemented\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  });
  await bound(server, options.listen);
  const url = urlOf(server);
  publicUrl ||= url;

  return {
    url,
    publicUrl,
    drain() {
      draining = true;
      server.closeIdleConnections();
    },
    async close(graceMs = 5000) {
      draining = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const patience = new AbortController();
      const cut = clock.sleep(graceMs, patience.signal).then(() => server.closeAllConnections());
      await closed;
      patience.abort();
      await cut;
    },
  };
}

const probes: ReadonlySet<string> = new Set(["/healthz", "/readyz", "/metrics"]);

const tryLater = (context: Context): Response =>
  context.text("going down, try again\n", 503, { "retry-after": "10", connection: "close" });

function bound(server: Server, { host, port }: ListenerOptions["listen"]): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) =>
      reject(new Error(`listening on ${host}:${port}: ${error.message}`, { cause: error })),
    );
    server.listen(port, host, resolve);
  });
}

function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
