// The socket interface for adapters: frames in order with back-pressure, sends that resolve when the data
// was written, and a core that sends pings, enforces limits and terminates connections. The queue of frames that the
// adapter has not read yet is bounded.

import type { Clock, Socket } from "bridgehead/contract";
import type { RawData, WebSocket } from "ws";

/** Limits for one peer. */
export interface SocketBounds extends UnreadBounds {
  /** Rate limit in frames per second, sustained and per burst (a provider that reconnects replays
   *  hundreds). Excess closes the socket with 1008. */
  readonly framesPerSecond: number;
  readonly frameBurst: number;
  /** Limit of buffered bytes for a peer that does not read. Above it the peer is disconnected. */
  readonly unsentBytes: number;
}

export interface LiveSocket {
  readonly socket: Socket;
  /** The reason why the core closed the socket; null when it did not. */
  readonly reason: () => string | null;
  /** Aborts `socket.draining`. */
  drain(): void;
  /** Closes with `code` if the socket is open. */
  close(code: number, reason: string): void;
  terminate(): void;
  /** Resolves with the close code when the connection is gone (1006: without a close frame). */
  readonly closed: Promise<number>;
}

const open = 1;
const tooMuch = 1008;

/** Takes ownership of an open `ws`. Sends a ping every `pingMs`; a peer that sent nothing since the last one is
 *  disconnected. */
export function liveSocket(ws: WebSocket, bounds: SocketBounds, pingMs: number, clock: Clock): LiveSocket {
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
  const pings = keepAlive(ws, { clock, everyMs: pingMs, cut, paused: inbox.paused }, gone.signal);
  /** Counts a frame of any kind; false when the rate limit is exceeded. */
  const may = (): boolean => {
    pings.alive();
    if (flooded) return false;
    if (allowance()) return true;
    flooded = true;
    inbox.drop();
    close(tooMuch, "too many frames");
    ws.pause(); // further frames are not read
    return false;
  };
  ws.on("message", (data: RawData, binary: boolean) => {
    const bytes = data as Buffer; // ws creates Buffers by default
    if (may()) inbox.push(binary ? bytes : bytes.toString(), bytes.byteLength);
  });
  ws.on("ping", may);
  ws.on("pong", may);
  // ws responds to protocol errors of a peer itself (1002, 1007, 1009). A close event follows.
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
      inbox.drop(); // unread frames are dropped at a close
      inbox.end();
    },
    [Symbol.asyncIterator]: () => ({ next: () => inbox.next() }), // no `return`: reading can continue after a break
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

/** Sends pings while the connection is open. Any frame shows that the peer is alive, because its pong
 *  may be queued after it. A round in which we paused reading, or in which the machine was suspended,
 *  does not count: the pong may be unread. */
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

/** Token bucket: the returned function is true when a frame is allowed. */
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

type SocketFrame = string | Uint8Array;

/** Limits of queued bytes and frames before reading pauses. */
export interface UnreadBounds {
  readonly unreadBytes: number;
  readonly unreadFrames: number;
}

/** Applies back-pressure: above the limits the connection is not read, so the sender has to wait. */
function unread(ws: WebSocket, { unreadBytes, unreadFrames }: UnreadBounds) {
  let frames: { readonly frame: SocketFrame; readonly size: number }[] = [];
  let size = 0;
  let ended = false;
  let pauses = 0;
  const readers: ((result: IteratorResult<SocketFrame, undefined>) => void)[] = [];
  const relax = (): void => {
    if (ws.isPaused && frames.length <= unreadFrames / 2 && size <= unreadBytes / 2) ws.resume();
  };
  return {
    /** Number of pauses so far, including the current one. */
    paused: () => ({ now: ws.isPaused, times: pauses }),
    push(frame: SocketFrame, bytes: number): void {
      if (ended) return;
      const reader = readers.shift();
      if (reader) return reader({ done: false, value: frame });
      frames.push({ frame, size: bytes });
      size += bytes;
      if (!ws.isPaused && (frames.length >= unreadFrames || size >= unreadBytes)) {
        pauses += 1;
        ws.pause();
      }
    },
    next(): Promise<IteratorResult<SocketFrame, undefined>> {
      const first = frames.shift();
      if (first) {
        size -= first.size;
        if (!ended) relax();
        return Promise.resolve({ done: false, value: first.frame });
      }
      if (ended) return Promise.resolve({ done: true, value: undefined });
      return new Promise((resolve) => readers.push(resolve));
    },
    /** Stops accepting frames. Queued frames can still be read. */
    end(): void {
      ended = true;
      for (const reader of readers.splice(0)) reader({ done: true, value: undefined });
      // Resumes reading, because the peer's close frame must be read in any case.
      if (ws.isPaused) ws.resume();
    },
    drop(): void {
      frames = [];
      size = 0;
    },
  };
}
