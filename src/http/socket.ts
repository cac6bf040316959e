// One socket as an adapter sees it: frames in order and no faster than they are read, sends that say when they have left,
// and a core that pings, bounds and cuts.

import type { Clock, Socket } from "bridgehead/contract";
import type { RawData, WebSocket } from "ws";
import { type UnreadBounds, unread } from "./unread.ts";

/** What one peer may cost. */
export interface SocketBounds extends UnreadBounds {
  /** Milliseconds between pings; a peer of which nothing came since the last one is cut. */
  readonly pingMs: number;
  /** Frames a second, in the long run and in one burst (a provider that reconnects replays hundreds); above it 1008. */
  readonly framesPerSecond: number;
  readonly frameBurst: number;
  /** Bytes that wait for a peer that does not read, before it is cut. */
  readonly unsentBytes: number;
}

export interface LiveSocket {
  readonly socket: Socket;
  /** Why the core cut or closed it; null when it did not. */
  readonly reason: () => string | null;
  /** Aborts `socket.draining`. */
  drain(): void;
  /** Closes with `code`, if it is still open. */
  close(code: number, reason: string): void;
  terminate(): void;
  /** Resolves with the close code when the connection is gone (1006: without a word). */
  readonly closed: Promise<number>;
}

const open = 1;
const tooMuch = 1008;

/** Takes over an open `ws`. */
export function liveSocket(ws: WebSocket, bounds: SocketBounds, clock: Clock): LiveSocket {
  const gone = new AbortController();
  const draining = new AbortController();
  const inbox = unread(ws, bounds);
  const allowance = bucket(bounds, clock);
  const whenClosed = Promise.withResolvers<number>();
  let reason: string | null = null;
  let flooded = false;

  const close = (code: number, why: string): void => {
    if (ws.readyState === open) {
      reason ??= why;
      ws.close(code, why);
    }
    inbox.end();
  };
  const cut = (why: string): void => {
    reason ??= why;
    ws.terminate();
  };
  const pings = keepAlive(ws, { clock, everyMs: bounds.pingMs, cut, paused: inbox.paused }, gone.signal);
  /** Counts a frame of any kind; false when it is one too many. */
  const may = (): boolean => {
    pings.alive();
    if (flooded) return false;
    if (allowance()) return true;
    flooded = true;
    inbox.drop();
    close(tooMuch, "too many frames");
    ws.pause(); // what else is on its way is not worth reading
    return false;
  };
  ws.on("message", (data: RawData, binary: boolean) => {
    const bytes = data as Buffer; // ws makes nothing else unless told to
    if (may()) inbox.push(binary ? bytes : bytes.toString(), bytes.byteLength);
  });
  ws.on("ping", may);
  ws.on("pong", may);
  // What a peer does wrong ws answers itself (1002, 1007, 1009); a close follows.
  ws.on("error", (error) => (reason ??= error.message));
  ws.on("close", (code) => {
    inbox.end();
    gone.abort();
    whenClosed.resolve(code);
  });

  const socket: Socket = {
    signal: gone.signal,
    draining: draining.signal,
    send(data) {
      if (ws.readyState !== open) return Promise.reject(new Error("sending: the socket is closed"));
      if (ws.bufferedAmount > bounds.unsentBytes) {
        cut("the peer does not read");
        return Promise.reject(new Error("sending: the peer does not read"));
      }
      return new Promise((resolve, reject) => {
        ws.send(data, (cause) => {
          if (cause) reject(new Error("sending: the socket was closed", { cause }));
          else resolve();
        });
      });
    },
    close(code = 1000, why = "") {
      if (ws.readyState === open) ws.close(code, why);
      inbox.drop(); // who closes wants no more
      inbox.end();
    },
    [Symbol.asyncIterator]: () => ({ next: () => inbox.next() }), // no `return`: who breaks off may read on later
  };
  return {
    socket,
    reason: () => reason,
    drain: () => draining.abort(),
    close,
    terminate: () => cut("cut"),
    closed: whenClosed.promise,
  };
}

/** Pings while the connection lives. Whatever comes shows that the peer is there (its pong may wait behind it). A pause of
 *  ours is no fault of the peer's, nor is a machine that stood still: its answer may lie there unread. */
function keepAlive(
  ws: WebSocket,
  options: {
    readonly clock: Clock;
    readonly everyMs: number;
    readonly cut: (why: string) => void;
    readonly paused: () => { readonly now: boolean; readonly times: number };
  },
  gone: AbortSignal,
) {
  const { clock, everyMs, cut, paused } = options;
  let waiting = false;
  const beat = async (): Promise<void> => {
    for (;;) {
      const before = paused();
      const due = clock.monotonic() + everyMs;
      await clock.sleep(everyMs, gone);
      if (gone.aborted) return;
      if (clock.monotonic() > due + everyMs / 2) continue;
      const after = paused();
      const readAllTheTime = !before.now && !after.now && before.times === after.times;
      if (waiting && readAllTheTime) return cut("no answer to a ping");
      waiting = true;
      if (ws.readyState === open) ws.ping();
    }
  };
  void beat();
  return { alive: () => void (waiting = false) };
}

/** True as often as a frame is allowed. */
function bucket({ framesPerSecond, frameBurst }: SocketBounds, clock: Clock): () => boolean {
  let tokens = frameBurst;
  let at = clock.monotonic();
  return () => {
    const now = clock.monotonic();
    tokens = Math.min(frameBurst, tokens + ((now - at) * framesPerSecond) / 1000);
    at = now;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  };
}
