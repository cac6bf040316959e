// The public listener serves the channels' webhooks and sockets, the platform's webhooks and plain health
// checks. The admin listener, on its own port, serves reasons and metrics. This module owns the ports,
// limits, access log and drain. Routes are looked up at each request, so a reload needs no new listener.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { getRequestListener } from "@hono/node-server";
import type { ChannelId, Clock, Log, Route } from "bridgehead/contract";
import { Hono } from "hono";
import { bound, type ListenAddress } from "../ops/address.ts";
import { standardTiming, type Timing } from "../ops/timing.ts";
import {
  channelTarget,
  isClientGone,
  type LargeBodies,
  plain as plainText,
  serveRoute,
  shownPath,
  writeResponse,
} from "./channel-route.ts";
import { adminHealth, type HealthOptions, publicHealth } from "./health.ts";
import { type SocketLimits, Sockets, standardSockets } from "./sockets.ts";

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

/** Limits that keep an endless client from blocking the listener; `timing.http` has those for slow ones. */
export interface Limits {
  readonly headerBytes: number;
  readonly headers: number;
  /** Limit of open connections, without those that became sockets. */
  readonly connections: number;
  /** Memory for the large bodies of webhooks, in bytes (`LargeBodies`). */
  readonly largeBodies: number;
}

const standard: Limits = { headerBytes: 16_384, headers: 100, connections: 1000, largeBodies: 64 * 1024 * 1024 };

/** Resolves when the ports are bound. Rejects, with the configuration key, when a port is not free. */
export async function startListener(options: ListenerOptions): Promise<Listener> {
  const listener = new Listener(options);
  await listener.listen();
  return listener;
}

export class Listener {
  readonly #options: ListenerOptions;
  readonly #timing: Timing["http"];
  readonly #server: Server;
  readonly #admin: Server | null;
  readonly #sockets: Sockets;
  readonly #largeBodies: LargeBodies;
  #isDraining = false;
  #publicUrl: string;
  #url = "";
  #adminUrl: string | null = null;

  constructor(options: ListenerOptions) {
    const limits = { ...standard, ...standardSockets, ...options.limits };
    this.#options = options;
    this.#timing = { ...standardTiming.http, ...options.timing };
    this.#largeBodies = { most: limits.largeBodies, taken: 0 };
    this.#publicUrl = options.publicUrl ?? "";
    this.#sockets = new Sockets({ ...options, publicUrl: () => this.#publicUrl }, limits, this.#timing);
    const first = (incoming: IncomingMessage, outgoing: ServerResponse) => this.#serveIfChannel(incoming, outgoing);
    this.#server = limitedServer(this.#routes(), this.#timing, limits, first);
    this.#server.maxConnections = limits.connections + limits.sockets;
    const plain = limitConnections(this.#server, limits.connections);
    // Connections that become sockets are counted apart.
    this.#server.on("upgrade", (request, connection, head) => {
      plain.delete(connection);
      this.#sockets.upgrade(request, connection, head);
    });
    const health = adminHealth(options);
    plainErrors(health, options.log);
    this.#admin = options.adminListen ? limitedServer(health, this.#timing, limits) : null;
    if (this.#admin) limitConnections(this.#admin, mostAdminConnections);
  }

  async listen(): Promise<void> {
    const { listen, adminListen } = this.#options;
    await bound(this.#server, listen, "http.listen");
    if (this.#admin && adminListen)
      try {
        await bound(this.#admin, adminListen, "http.admin_listen");
      } catch (error) {
        await new Promise((resolve) => this.#server.close(resolve));
        throw error;
      }
    this.#url = urlOf(this.#server);
    this.#adminUrl = this.#admin && urlOf(this.#admin);
    this.#publicUrl ||= this.#url;
  }

  /** URL of the listener, e.g. `http://127.0.0.1:8025`. */
  get url(): string {
    return this.#url;
  }

  /** URL of the admin listener; null without one. */
  get adminUrl(): string | null {
    return this.#adminUrl;
  }

  get publicUrl(): string {
    return this.#publicUrl;
  }

  /** Number of sockets that are open or in their handshake. */
  sockets(): number {
    return this.#sockets.count;
  }

  /** Rejects upgrades with 503 and lets sockets finish within `talkMs`. Webhooks are served until all
   *  sockets and their adapters have ended, because calls have a few. After that, webhooks get 503 and
   *  connections are closed. Health checks and metrics stay available. */
  async drain(talkMs = this.#timing.talk): Promise<void> {
    this.#sockets.refuse();
    const hadSockets = this.#sockets.count > 0;
    await this.#sockets.end(talkMs);
    // A provider whose socket has ended requests the next step of the call at once, and a 503 would end it.
    if (hadSockets) await this.#options.clock.sleep(this.#timing.lastRequest);
    this.#isDraining = true;
    this.#server.closeIdleConnections();
  }

  /** Drains only the sockets of these routes. Called when their channel is removed or replaced. */
  retire(routes: readonly Route[], talkMs = this.#timing.talk): Promise<void> {
    return this.#sockets.end(talkMs, routes);
  }

  /** Waits up to `graceMs` for running requests, then closes the listener. */
  async close(graceMs = this.#timing.closeGrace): Promise<void> {
    this.#isDraining = true;
    this.#sockets.refuse();
    this.#admin?.close();
    this.#admin?.closeAllConnections();
    const server = this.#server;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    const ended = this.#sockets.end(0);
    const patience = new AbortController();
    const cut = this.#options.clock.sleep(graceMs, patience.signal).then(() => server.closeAllConnections());
    const tidied = this.#closeIdle(patience.signal);
    await Promise.all([closed, ended]);
    patience.abort();
    await Promise.all([cut, tidied]);
  }

  get #isClosed(): boolean {
    return this.#isDraining || this.#options.serving?.() === false;
  }

  #routes(): Hono {
    const { clock, log, platform, escalations } = this.#options;
    const app = new Hono();
    app.use(async (context, next) => {
      const began = clock.monotonic();
      if (this.#isDraining) context.header("connection", "close");
      await next();
      this.#served(context.req.method, context.req.path, context.res.status, began);
    });
    publicHealth(app, this.#options, this.#timing.readyCache);
    for (const path of ["/platform/*", "/escalations/*"])
      app.use(path, async (_context, next) => (this.#isClosed ? tryLater() : next()));
    if (platform !== undefined) app.all("/platform/*", (context) => platform(context.req.raw));
    if (escalations !== undefined) app.all("/escalations/*", (context) => escalations(context.req.raw));
    plainErrors(app, log);
    return app;
  }

  /** Serves requests for channels without the routes above. Returns false for others. */
  #serveIfChannel(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    const target = channelTarget(incoming);
    if (target === null) return false;
    this.#serveChannel(incoming, outgoing, target).catch((error: unknown) => {
      this.#options.log.error({ err: error, path: shownPath(target.pathname) }, "a request failed");
      outgoing.destroy();
    });
    return true;
  }

  async #serveChannel(incoming: IncomingMessage, outgoing: ServerResponse, target: URL): Promise<void> {
    const began = this.#options.clock.monotonic();
    if (this.#isDraining) outgoing.setHeader("connection", "close");
    const options = { ...this.#options, publicUrl: this.#publicUrl, largeBodies: this.#largeBodies };
    const response = this.#isClosed ? tryLater() : await serveRoute(incoming, target, options);
    await writeResponse(outgoing, response);
    this.#served(incoming.method ?? "", target.pathname, response.status, began);
  }

  /** `path` is logged without the query, which may contain secrets. */
  #served(method: string, path: string, status: number, began: number): void {
    const { clock, log } = this.#options;
    const fields = { method, path: shownPath(path), status, ms: Math.round(clock.monotonic() - began) };
    if (probes.has(path)) log.debug(fields, "request served");
    else log.info(fields, "request served");
  }

  /** Closes idle connections repeatedly. A request that was running when the close started leaves its
   *  connection open for further requests. */
  async #closeIdle(done: AbortSignal): Promise<void> {
    while (!done.aborted) {
      this.#server.closeIdleConnections();
      await this.#options.clock.sleep(this.#timing.closeCheck, done);
    }
  }
}

const mostAdminConnections = 100;

function plainErrors(app: Hono, log: Log): void {
  app.onError((error, context) => {
    if (!isClientGone(error)) log.error({ err: error, path: shownPath(context.req.path) }, "a request failed");
    return context.text("unavailable\n", 503);
  });
  app.notFound((context) => context.text("not found\n", 404));
}

/** Creates a server with the limits that keep a slow or endless client from blocking it. The caller limits its connections,
 *  handles `upgrade`, and with `first` the requests for which that returns true. */
export function limitedServer(
  app: { fetch(request: Request): Response | Promise<Response> },
  timing: Timing["http"],
  limits: Limits = standard,
  first: (incoming: IncomingMessage, outgoing: ServerResponse) => boolean = () => false,
): Server {
  // A request in HTTP/1.0, such as the check of a load balancer, needs no Host header.
  const options = { overrideGlobalObjects: false, hostname: "localhost" };
  const serve = getRequestListener((request) => app.fetch(request), options);
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
  return server;
}

/** Cuts new connections above `most`. Idle ones are closed before, because proxies keep theirs for minutes. Returns the connections
 *  that count. */
export function limitConnections(server: Server, most: number): Set<Duplex> {
  const counted = new Set<Duplex>();
  server.on("connection", (connection: Duplex) => {
    if (counted.size >= most) {
      server.closeIdleConnections();
      for (const one of counted) if (one.destroyed) counted.delete(one);
    }
    if (counted.size >= most) return connection.destroy();
    counted.add(connection);
    connection.once("close", () => counted.delete(connection));
  });
  return counted;
}

const probes: ReadonlySet<string> = new Set(["/healthz", "/readyz"]);

const tryLater = (): Response =>
  plainText(503, "not serving now, try again", { "retry-after": "10", connection: "close" });

export function urlOf(server: Server): string {
  const { address, port, family } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
