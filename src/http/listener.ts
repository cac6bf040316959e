// The listener: channels' webhooks and sockets, the platform's webhooks and bare health checks; and beside it, on a port of
// its own, the admin listener with reasons and metrics. It owns the ports, limits, access log and drain; what is behind a
// route is looked up at each request, so a reload needs no new listener.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { getRequestListener } from "@hono/node-server";
import type { ChannelId, Clock, Log, Route } from "bridgehead/contract";
import { type Context, Hono } from "hono";
import { serveRoute } from "./channel-route.ts";
import { adminHealth, type HealthOptions, publicHealth } from "./health.ts";
import { createSockets, type SocketLimits, standardSockets } from "./sockets.ts";

export interface ListenerOptions extends HealthOptions {
  readonly listen: ListenAddress;
  /** Where reasons and metrics are served; absent: nowhere. */
  readonly adminListen?: ListenAddress | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Under which address providers reach us; default: where we listen. */
  readonly publicUrl?: string | undefined;
  /** The routes of a running channel; null when there is no such channel. */
  routes(channel: ChannelId): readonly Route[] | null;
  /** False as long as no channel runs yet: providers are told to try again, not that there is nothing. Default: true. */
  serving?(): boolean;
  /** Serves the platform's webhooks, everything under /platform/. Without it they are answered 404. */
  readonly platform?: (request: Request) => Promise<Response>;
  /** Serves the links that people are given, everything under /escalations/. The same without it. */
  readonly escalations?: (request: Request) => Promise<Response>;
  readonly limits?: Partial<Limits & SocketLimits>;
}

export interface ListenAddress {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
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
  /** Without those that became sockets. */
  readonly connections: number;
  /** For so long an answer of the public /readyz is reused. */
  readonly readyMs: number;
}

const standard: Limits = {
  headersMs: 10_000,
  requestMs: 30_000,
  idleMs: 5000,
  headerBytes: 16_384,
  headers: 100,
  connections: 1000,
  readyMs: 1000,
};

export interface Listener {
  /** Where it listens, e.g. `http://127.0.0.1:8025`. */
  readonly url: string;
  /** Where the admin listener listens; null without one. */
  readonly adminUrl: string | null;
  readonly publicUrl: string;
  /** Sockets open or being let in. */
  sockets(): number;
  /** From now on upgrades are answered 503, and sockets may finish what they say within `talkMs`. When none is left and
   *  their adapters have ended with them (webhooks are served till then, calls have a few), webhooks are answered 503
   *  and connections end too; health and metrics go on. */
  drain(talkMs?: number): Promise<void>;
  /** The same for the sockets of these routes alone: their channel goes or is exchanged. */
  retire(routes: readonly Route[], talkMs?: number): Promise<void>;
  /** Ends running requests within `graceMs`, then the listener. */
  close(graceMs?: number): Promise<void>;
}

/** Resolves when the ports are bound. Rejects, with the key of the configuration, when one is not free. */
export async function startListener(options: ListenerOptions): Promise<Listener> {
  const { clock, log } = options;
  const limits = { ...standard, ...standardSockets, ...options.limits };
  let draining = false;
  let publicUrl = options.publicUrl ?? "";

  const app = new Hono();
  app.use(async (context, next) => {
    const began = clock.monotonic();
    if (draining) context.header("connection", "close");
    await next();
    const { method } = context.req;
    const path = shownPath(context.req.path); // never the query: it may carry what is nobody's business
    const fields = { method, path, status: context.res.status, ms: Math.round(clock.monotonic() - began) };
    if (probes.has(path)) log.debug(fields, "request served");
    else log.info(fields, "request served");
  });
  publicHealth(app, options, limits.readyMs);
  const closed = () => draining || options.serving?.() === false;
  app.use("/channels/*", async (context, next) => (closed() ? tryLater(context) : next()));
  for (const path of ["/platform/*", "/escalations/*"])
    app.use(path, async (context, next) => (closed() ? tryLater(context) : next()));
  app.all("/channels/:id/*", (context) => serveRoute(context.req.raw, { ...options, publicUrl }));
  const { platform, escalations } = options;
  if (platform !== undefined) app.all("/platform/*", (context) => platform(context.req.raw));
  if (escalations !== undefined) app.all("/escalations/*", (context) => escalations(context.req.raw));
  const server = serverOf(app, limits, log);
  const sockets = createSockets({ ...options, publicUrl: () => publicUrl }, limits);
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
  /** A request that was running when we began to close leaves its connection open, for requests that we do not want. */
  async function closeWhatIdles(done: AbortSignal): Promise<void> {
    while (!done.aborted) {
      server.closeIdleConnections();
      await clock.sleep(50, done);
    }
  }

  const admin = options.adminListen && serverOf(adminHealth(options), limits, log);
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
    async drain(talkMs = standardTalkMs) {
      sockets.refuse();
      const talked = sockets.count() > 0;
      await sockets.end(talkMs);
      if (talked) await clock.sleep(lastQuestionsMs);
      draining = true;
      server.closeIdleConnections();
    },
    retire: (routes, talkMs = standardTalkMs) => sockets.end(talkMs, routes),
    async close(graceMs = 5000) {
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

/** Connections to the admin listener at once. */
const mostMonitors = 100;

/** A server with the limits that keep a slow or endless client from holding it; `upgrade` is left to the caller. */
function serverOf(app: Hono, limits: Limits, log: Log): Server {
  app.onError((error, context) => {
    log.error({ err: error, path: shownPath(context.req.path) }, "a request failed");
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
      // Some clients offer `Upgrade: h2c` with every request; that is no reason to refuse it.
      shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === "websocket",
    },
    (incoming, outgoing) => void serve(incoming, outgoing),
  );
  server.maxHeadersCount = limits.headers;
  return server;
}

/** A provider whose socket has ended asks at once how its call goes on: a 503 would end the call. */
const lastQuestionsMs = 1500;
/** Long enough for a sentence. */
const standardTalkMs = 8000;

const probes: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

/** The token of a link opens something. */
const shownPath = (path: string): string => path.replace(/^(\/escalations\/).*/s, "$1...");

const tryLater = (context: Context): Response =>
  context.text("not serving now, try again\n", 503, { "retry-after": "10", connection: "close" });

/** `key`: which key of the configuration says so. */
function bound(server: Server, { host, port }: ListenAddress, key: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) =>
      reject(new Error(`listening on ${host}:${port} (${key}): ${error.message}`, { cause: error })),
    );
    server.listen(port, host, resolve);
  });
}

function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
