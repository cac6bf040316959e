// The channels' websockets: lets them in, keeps them, and ends them when the daemon goes down or their channel does.

import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { channelId, type Route, type SocketRoute } from "bridgehead/contract";
import type { ServerOptions, WebSocket } from "ws";
import { type LiveSocket, liveSocket, type SocketBounds } from "./socket.ts";
import { askAdapter, findRoute, type Knock, refuse, type UpgradeOptions, unavailable } from "./upgrade.ts";

export interface SocketLimits extends SocketBounds {
  /** Counted apart from other connections, so that calls cannot starve webhooks. */
  readonly sockets: number;
  /** How long an adapter may take to let a socket in. */
  readonly authorizeMs: number;
  /** How long a peer may take to answer our close. */
  readonly closeMs: number;
}

export const standardSockets: SocketLimits = {
  sockets: 2000,
  authorizeMs: 5000,
  closeMs: 2000,
  pingMs: 15_000,
  framesPerSecond: 100,
  frameBurst: 600,
  unreadBytes: 256 * 1024,
  unreadFrames: 64,
  unsentBytes: 1024 * 1024,
};

export interface Sockets {
  /** Those open and those being let in. */
  count(): number;
  /** Takes over the connection of an upgrade request. */
  upgrade(incoming: IncomingMessage, connection: Duplex, head: Buffer): void;
  /** No more are let in. */
  refuse(): void;
  /** Tells those of `routes` (of all) to finish, closes with 1012 what is still open after `talkMs`, and resolves when
   *  their adapters have ended too, or could not in the time that a close may take. */
  end(talkMs: number, routes?: readonly Route[]): Promise<void>;
}

interface Served {
  readonly route: SocketRoute;
  readonly path: string;
  readonly live: LiveSocket;
  readonly done: Promise<void>;
}

const standardFrameBytes = 64 * 1024;
const goingAway = 1012;
const failed = 1011;
const finished = 1000;

export function createSockets(options: UpgradeOptions, limits: SocketLimits): Sockets {
  const { clock, log } = options;
  const all = new Set<Served>();
  const ending = new WeakSet<Served>();
  let count = 0;
  let refusing = false;

  async function letIn(incoming: IncomingMessage, connection: Duplex, head: Buffer): Promise<void> {
    const began = clock.monotonic();
    const gone = new AbortController();
    connection.on("error", () => undefined); // a close follows
    connection.once("close", () => gone.abort());
    const full = refusing || count >= limits.sockets;
    const knock = findRoute(incoming, options, gone.signal);
    const no = async (path: string, refusal: Response) => {
      const status = await refuse(connection, refusal);
      log.info({ method: "GET", path, status, ms: since(began) }, "upgrade refused");
    };
    if ("refusal" in knock) return no(knock.path, knock.refusal);
    if (full) return no(knock.path, unavailable());
    count += 1;
    connection.once("close", () => void (count -= 1));
    const refusal = await askAdapter(knock, options, limits.authorizeMs);
    if (refusal) return no(knock.path, refusal);
    const current = options.routes(channelId(knock.channel))?.includes(knock.route) ?? false;
    if (refusing || !current) return no(knock.path, unavailable());
    const live = await shakeHands(knock.route, { incoming, connection, head });
    if (live) keep(knock, live, began);
  }

  function keep(knock: Knock, live: LiveSocket, began: number): void {
    const { route, path } = knock;
    const served: Served = { route, path, live, done: serve(knock, live, () => ending.has(served)) };
    all.add(served);
    void served.done.then(async () => {
      all.delete(served);
      const code = await live.closed;
      const reason = live.reason();
      const fields = { method: "GET", path, status: 101, code, ms: since(began) };
      log.info(reason === null ? fields : { ...fields, reason }, "socket served");
    });
  }

  /** Never rejects. */
  async function serve({ channel, path, route, request }: Knock, live: LiveSocket, isEnding: () => boolean) {
    try {
      await route.serve(live.socket, request);
      // A peer that was told 1000 takes the conversation for finished and does not come back.
      if (isEnding()) live.close(goingAway, "going down");
      else live.close(finished, "");
    } catch (error) {
      const fields = { channel, path, err: error };
      if (live.socket.signal.aborted) log.warn(fields, "a socket's work failed after its end");
      else log.error(fields, "a socket failed");
      live.close(failed, "failed");
    }
    await live.closed;
  }

  const since = (began: number): number => Math.round(clock.monotonic() - began);

  /** Null when the client is gone meanwhile, or its handshake is none. */
  async function shakeHands(
    { maxFrameBytes, protocol }: SocketRoute,
    { incoming, connection, head }: { incoming: IncomingMessage; connection: Duplex; head: Buffer },
  ): Promise<LiveSocket | null> {
    const { WebSocketServer } = await import("ws"); // a daemon without calls does without its memory
    const settings: ServerOptions & { closeTimeout: number } = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: maxFrameBytes ?? standardFrameBytes,
      maxFragments: 1024,
      closeTimeout: limits.closeMs,
      handleProtocols: () => protocol ?? false,
    };
    return new Promise((resolve) => {
      connection.once("close", () => resolve(null));
      // Taken over at once: the first frames may be here already.
      const taken = (ws: WebSocket) => resolve(liveSocket(ws, limits, clock));
      new WebSocketServer(settings).handleUpgrade(incoming, connection, head, taken);
    });
  }

  return {
    count: () => count,
    upgrade(incoming, connection, head) {
      letIn(incoming, connection, head).catch((error: unknown) => {
        log.error({ err: error }, "an upgrade failed");
        connection.destroy();
      });
    },
    refuse() {
      refusing = true;
    },
    async end(talkMs, routes) {
      const these = [...all].filter(({ route }) => routes?.includes(route) ?? true);
      if (these.length === 0) return;
      for (const one of these) {
        ending.add(one);
        one.live.drain();
      }
      const done = Promise.all(these.map((one) => one.done));
      await within(done, talkMs);
      for (const { live } of these) live.close(goingAway, "going down");
      // Twice the time of a close: for the peer's answer, then for the adapter's last words to the store.
      await within(done, limits.closeMs * 2);
      for (const one of these.filter((one) => all.has(one))) {
        one.live.terminate();
        log.warn({ path: one.path }, "a socket's work does not end");
      }
    },
  };

  /** Resolves when `work` has ended, or after `ms`. */
  async function within(work: Promise<unknown>, ms: number): Promise<void> {
    const over = new AbortController();
    await Promise.race([work, clock.sleep(ms, over.signal)]);
    over.abort();
  }
}
