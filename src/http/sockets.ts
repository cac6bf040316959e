// The channels' websockets: authorizes and tracks them, and closes them at shutdown or when their channel is removed.
// Before the handshake an upgrade finds its route, calls the adapter's authorization, and writes the error response.

import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type ChannelId, type Clock, channelId, type Log, type Route, type SocketRoute } from "bridgehead/contract";
import type { ServerOptions, WebSocket } from "ws";
import { endsWithin } from "../ops/clock.ts";
import type { Timing } from "../ops/timing.ts";
import { plain, shownPath } from "./channel-route.ts";
import { LiveSocket, type SocketBounds } from "./socket.ts";

export interface SocketLimits extends SocketBounds {
  /** Limit of sockets. Counted separately from other connections, so that calls cannot block webhooks. */
  readonly sockets: number;
}

export const standardSockets: SocketLimits = {
  sockets: 2000,
  framesPerSecond: 100,
  frameBurst: 600,
  unreadBytes: 256 * 1024,
  unreadFrames: 64,
  unsentBytes: 1024 * 1024,
};

interface ServedSocket {
  readonly route: SocketRoute;
  readonly path: string;
  readonly live: LiveSocket;
  readonly done: Promise<void>;
}

const standardFrameBytes = 64 * 1024;
const goingAway = 1012;
const failed = 1011;
const finished = 1000;

export class Sockets {
  readonly #options: UpgradeOptions;
  readonly #limits: SocketLimits;
  readonly #timing: Timing["http"];
  readonly #all = new Set<ServedSocket>();
  readonly #ending = new WeakSet<LiveSocket>();
  #count = 0;
  #isRefusing = false;

  constructor(options: UpgradeOptions, limits: SocketLimits, timing: Timing["http"]) {
    this.#options = options;
    this.#limits = limits;
    this.#timing = timing;
  }

  /** Number of sockets that are open or in their handshake. */
  get count(): number {
    return this.#count;
  }

  /** Handles an upgrade request and takes ownership of its connection. */
  upgrade(incoming: IncomingMessage, connection: Duplex, head: Buffer): void {
    this.#letIn(incoming, connection, head).catch((error: unknown) => {
      this.#options.log.error({ err: error }, "websocket upgrade failed");
      connection.destroy();
    });
  }

  /** Rejects all further upgrades. */
  refuse(): void {
    this.#isRefusing = true;
  }

  /** Drains the sockets of `routes`, or all. Closes those that are still open after `talkMs` with 1012.
   *  Resolves when their adapters have ended too, or after the close timeout. */
  async end(talkMs: number, routes?: readonly Route[]): Promise<void> {
    const these = [...this.#all].filter(({ route }) => routes?.includes(route) ?? true);
    if (these.length === 0) return;
    for (const { live } of these) {
      this.#ending.add(live);
      live.drain();
    }
    const done = Promise.all(these.map((one) => one.done));
    await endsWithin(done, talkMs, this.#options.clock);
    for (const { live } of these) live.finish(goingAway, "going down");
    // Twice the close timeout: for the peer's close frame, and for the adapter's last writes to the store.
    await endsWithin(done, this.#timing.closeFrame * 2, this.#options.clock);
    for (const { live, path } of these.filter((one) => this.#all.has(one))) {
      live.terminate();
      this.#options.log.warn({ path }, "socket handler does not end");
    }
  }

  async #letIn(incoming: IncomingMessage, connection: Duplex, head: Buffer): Promise<void> {
    const { clock, log } = this.#options;
    const began = clock.monotonic();
    const gone = new AbortController();
    connection.on("error", () => undefined); // a close follows
    connection.once("close", () => gone.abort());
    const isFull = this.#isRefusing || this.#count >= this.#limits.sockets;
    const knock = findRoute(incoming, this.#options, gone.signal);
    const no = async (path: string, refusal: Response) => {
      const status = await refuse(connection, refusal);
      log.info({ method: "GET", path, status, ms: this.#since(began) }, "upgrade refused");
    };
    if ("refusal" in knock) return no(knock.path, knock.refusal);
    if (isFull) return no(knock.path, unavailable());
    this.#count += 1;
    connection.once("close", () => void (this.#count -= 1));
    const refusal = await askAdapter(knock, this.#options, this.#timing.authorize);
    if (refusal) return no(knock.path, refusal);
    const isCurrent = this.#options.routes(channelId(knock.channel))?.includes(knock.route) ?? false;
    if (this.#isRefusing || !isCurrent) return no(knock.path, unavailable());
    const live = await this.#shakeHands(knock.route, incoming, connection, head);
    if (live) this.#keep(knock, live, began);
  }

  #keep(knock: Knock, live: LiveSocket, began: number): void {
    const { route, path } = knock;
    const served: ServedSocket = { route, path, live, done: this.#serve(knock, live) };
    this.#all.add(served);
    void served.done.then(async () => {
      this.#all.delete(served);
      const code = await live.closed;
      const { reason } = live;
      const fields = { method: "GET", path, status: 101, code, ms: this.#since(began) };
      this.#options.log.info(reason === null ? fields : { ...fields, reason }, "socket served");
    });
  }

  /** Never rejects. */
  async #serve({ channel, path, route, request }: Knock, live: LiveSocket): Promise<void> {
    const { log } = this.#options;
    try {
      await route.serve(live, request);
      // A peer that receives 1000 considers the conversation finished and does not reconnect.
      if (this.#ending.has(live)) live.finish(goingAway, "going down");
      else live.finish(finished, "");
    } catch (error) {
      const fields = { channel, path, err: error };
      if (live.signal.aborted) log.warn(fields, "a socket's work failed after its end");
      else log.error(fields, "a socket failed");
      live.finish(failed, "failed");
    }
    await live.closed;
  }

  #since(began: number): number {
    return Math.round(this.#options.clock.monotonic() - began);
  }

  /** Returns null when the client has disconnected, or its handshake is invalid. */
  async #shakeHands(
    { maxFrameBytes, protocol }: SocketRoute,
    incoming: IncomingMessage,
    connection: Duplex,
    head: Buffer,
  ): Promise<LiveSocket | null> {
    const { WebSocketServer } = await import("ws"); // loaded on demand to save memory
    const settings: ServerOptions & { closeTimeout: number } = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: maxFrameBytes ?? standardFrameBytes,
      maxFragments: 1024,
      closeTimeout: this.#timing.closeFrame,
      handleProtocols: () => protocol ?? false,
    };
    return new Promise((resolve) => {
      connection.once("close", () => resolve(null));
      // Takes ownership at once, because the first frames may have arrived already.
      const taken = (ws: WebSocket) =>
        resolve(new LiveSocket(ws, this.#limits, this.#timing.ping, this.#options.clock));
      new WebSocketServer(settings).handleUpgrade(incoming, connection, head, taken);
    });
  }
}

export interface UpgradeOptions {
  readonly clock: Clock;
  readonly log: Log;
  publicUrl(): string;
  /** False while the daemon starts: no channel has routes yet, so every upgrade gets 503. Default: true. */
  serving?(): boolean;
  routes(channel: ChannelId): readonly Route[] | null;
}

/** An upgrade request before its route's `authorize`. */
interface Knock {
  readonly channel: string;
  readonly route: SocketRoute;
  /** Has the public URL, independent of the Host header; aborts when the client disconnects. */
  readonly request: Request;
  /** Path for the log: the route's own pattern, because a wildcard segment may be a secret. */
  readonly path: string;
}

/** Returns the route of a well-formed upgrade, or the error response. `gone` becomes the request's signal. */
function findRoute(
  incoming: IncomingMessage,
  options: UpgradeOptions,
  gone: AbortSignal,
): Knock | { readonly refusal: Response; readonly path: string } {
  const target = URL.parse(incoming.url ?? "", "http://x");
  const [, place = "", id = "", ...rest] = target?.pathname.split("/") ?? [];
  if (place === "channels" && options.serving?.() === false) return { refusal: unavailable(), path: `/${place}/${id}` };
  const route = place === "channels" ? match(options.routes(channelId(id)) ?? [], rest) : undefined;
  const path = route ? `/channels/${id}${route.path}` : shownPath(target?.pathname ?? "");
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

/** Returns the route with that path. A `*` in a route matches one non-empty segment; an exact path takes precedence. */
function match(routes: readonly Route[], rest: readonly string[]): SocketRoute | undefined {
  const sockets = routes.filter((route): route is SocketRoute => route.kind === "socket");
  const fits = ({ path }: SocketRoute) => {
    const wanted = path.split("/").slice(1);
    return (
      wanted.length === rest.length && wanted.every((part, at) => (part === "*" ? rest[at] !== "" : part === rest[at]))
    );
  };
  const found = sockets.filter(fits);
  return found.find(({ path }) => !path.includes("*")) ?? found[0];
}

const offered = (incoming: IncomingMessage): readonly string[] =>
  (incoming.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());

/** Returns the adapter's response; null accepts the socket. An exception or a timeout after `ms` yields 503. */
async function askAdapter(knock: Knock, options: UpgradeOptions, ms: number): Promise<Response | null> {
  const { clock, log } = options;
  const answered = new AbortController();
  const late = clock.sleep(ms, answered.signal).then(() => {
    if (answered.signal.aborted) return null;
    log.error({ channel: knock.channel, path: knock.path, ms }, "websocket authorization timeout");
    return unavailable();
  });
  try {
    const refusal: unknown = await Promise.race([knock.route.authorize(knock.request), late]);
    if (refusal === null) return null;
    if (typeof (Object(refusal) as Partial<Response>).status === "number") return refusal as Response;
    // A forgotten return admits no connection.
    throw new Error(`authorize of the adapter returned ${typeof refusal}, expected null or a Response`);
  } catch (error) {
    log.error({ channel: knock.channel, path: knock.path, err: error }, "websocket authorization failed");
    return unavailable();
  } finally {
    answered.abort();
  }
}

/** Writes the HTTP response and closes the connection. Resolves with the status when all data was sent. */
async function refuse(connection: Duplex, response: Response): Promise<number> {
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

const unavailable = (): Response => plain(503, "unavailable, try again", { "retry-after": "10" });
