// The socket interface for adapters: frames in order with back-pressure, sends that resolve when the data
// was written, and a core that sends pings, enforces limits and terminates connections. The queue of frames that the
// adapter has not read yet is bounded.

import type { Clock, Socket } from "bridgehead/contract";
import type { RawData, WebSocket } from "ws";

/** Limits for one peer. */
export interface SocketBounds {
  /** Limits of queued bytes and frames before reading pauses. */
  readonly unreadBytes: number;
  readonly unreadFrames: number;
  /** Rate limit in frames per second, sustained and per burst (a provider that reconnects replays
   *  hundreds). Excess closes the socket with 1008. */
  readonly framesPerSecond: number;
  readonly frameBurst: number;
  /** Limit of buffered bytes for a peer that does not read. Above it the peer is disconnected. */
  readonly unsentBytes: number;
}

const open = 1;
const tooMuch = 1008;

/** The adapter's socket, and what the core does with it. */
export class LiveSocket implements Socket {
  readonly #ws: WebSocket;
  readonly #bounds: SocketBounds;
  readonly #clock: Clock;
  readonly #inbox: Inbox;
  readonly #gone = new AbortController();
  readonly #draining = new AbortController();
  readonly #closed = Promise.withResolvers<number>();
  #reason: string | null = null;
  #isFlooded = false;
  /** True while a ping has no answer. */
  #isPinged = false;
  /** Token bucket of frames, and the time at which it was filled last. */
  #tokens: number;
  #filledAt: number;

  /** Takes ownership of an open `ws`. Sends a ping every `pingMs`; a peer that sent nothing since the last one is
   *  disconnected. */
  constructor(ws: WebSocket, bounds: SocketBounds, pingMs: number, clock: Clock) {
    this.#ws = ws;
    this.#bounds = bounds;
    this.#clock = clock;
    this.#inbox = new Inbox(ws, bounds);
    this.#tokens = bounds.frameBurst;
    this.#filledAt = clock.monotonic();
    ws.on("message", (data: RawData, binary: boolean) => {
      const bytes = data as Buffer; // ws creates Buffers by default
      if (this.#mayReceive()) this.#inbox.push(binary ? bytes : bytes.toString(), bytes.byteLength);
    });
    ws.on("ping", () => this.#mayReceive());
    ws.on("pong", () => this.#mayReceive());
    // ws responds to protocol errors of a peer itself (1002, 1007, 1009). A close event follows.
    ws.on("error", (error) => (this.#reason ??= error.message));
    ws.on("close", (code) => {
      this.#inbox.end();
      this.#gone.abort();
      this.#closed.resolve(code);
    });
    void this.#keepAlive(pingMs);
  }

  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  get draining(): AbortSignal {
    return this.#draining.signal;
  }

  /** The reason why the core closed the socket; null when it did not. */
  get reason(): string | null {
    return this.#reason;
  }

  /** Resolves with the close code when the connection is gone (1006: without a close frame). */
  get closed(): Promise<number> {
    return this.#closed.promise;
  }

  send(data: string | Uint8Array): Promise<void> {
    const ws = this.#ws;
    if (ws.readyState !== open) return Promise.reject(new Error("sending: the socket is closed"));
    if (ws.bufferedAmount > this.#bounds.unsentBytes) {
      this.terminate("the peer does not read");
      return Promise.reject(new Error("sending: the peer does not read"));
    }
    return new Promise((resolve, reject) => {
      ws.send(data, (cause) => {
        if (cause) reject(new Error("sending: the socket was closed", { cause }));
        else resolve();
      });
    });
  }

  /** The adapter's close: frames that it has not read are dropped. */
  close(code = 1000, why = ""): void {
    if (this.#ws.readyState === open) this.#ws.close(code, why);
    this.#inbox.drop();
    this.#inbox.end();
  }

  // No `return`: reading can continue after a break.
  [Symbol.asyncIterator](): AsyncIterator<SocketFrame> {
    return { next: () => this.#inbox.next() };
  }

  drain(): void {
    this.#draining.abort();
  }

  /** The core's close, if the socket is open: the adapter can read the frames that were received. */
  finish(code: number, reason: string): void {
    if (this.#ws.readyState === open) {
      this.#reason ??= reason;
      this.#ws.close(code, reason);
    }
    this.#inbox.end();
  }

  terminate(reason = "cut"): void {
    this.#reason ??= reason;
    this.#ws.terminate();
  }

  /** Counts a frame of any kind; false when the rate limit is exceeded. */
  #mayReceive(): boolean {
    // Any frame shows that the peer is alive, because its pong may be queued after it.
    this.#isPinged = false;
    if (this.#isFlooded) return false;
    const { framesPerSecond, frameBurst } = this.#bounds;
    const now = this.#clock.monotonic();
    this.#tokens = Math.min(frameBurst, this.#tokens + ((now - this.#filledAt) * framesPerSecond) / 1000);
    this.#filledAt = now;
    if (this.#tokens >= 1) {
      this.#tokens -= 1;
      return true;
    }
    this.#isFlooded = true;
    this.#inbox.drop();
    this.finish(tooMuch, "too many frames");
    this.#ws.pause(); // further frames are not read
    return false;
  }

  /** Sends pings while the connection is open. A round in which we paused reading, or in which the machine was suspended,
   *  does not count: the pong may be unread. */
  async #keepAlive(everyMs: number): Promise<void> {
    for (;;) {
      const [wasPaused, pauses] = [this.#ws.isPaused, this.#inbox.pauses];
      const due = this.#clock.monotonic() + everyMs;
      await this.#clock.sleep(everyMs, this.signal);
      if (this.signal.aborted) return;
      if (this.#clock.monotonic() > due + everyMs / 2) continue;
      const readAllTheTime = !wasPaused && !this.#ws.isPaused && pauses === this.#inbox.pauses;
      if (this.#isPinged && readAllTheTime) return this.terminate("no answer to a ping");
      this.#isPinged = true;
      if (this.#ws.readyState === open) this.#ws.ping();
    }
  }
}

type SocketFrame = string | Uint8Array;
type FrameResult = IteratorResult<SocketFrame, undefined>;

/** Frames that the adapter has not read. Applies back-pressure: above the limits the connection is not read, so the sender
 *  has to wait. */
class Inbox {
  readonly #ws: WebSocket;
  readonly #bounds: SocketBounds;
  readonly #readers: ((result: FrameResult) => void)[] = [];
  #frames: { readonly frame: SocketFrame; readonly size: number }[] = [];
  #size = 0;
  #isEnded = false;
  #pauses = 0;

  constructor(ws: WebSocket, bounds: SocketBounds) {
    this.#ws = ws;
    this.#bounds = bounds;
  }

  /** Number of pauses so far, including the current one. */
  get pauses(): number {
    return this.#pauses;
  }

  push(frame: SocketFrame, size: number): void {
    if (this.#isEnded) return;
    const reader = this.#readers.shift();
    if (reader) return reader({ done: false, value: frame });
    this.#frames.push({ frame, size });
    this.#size += size;
    if (!this.#ws.isPaused && this.#exceeds(1)) {
      this.#pauses += 1;
      this.#ws.pause();
    }
  }

  next(): Promise<FrameResult> {
    const first = this.#frames.shift();
    if (first) {
      this.#size -= first.size;
      if (!this.#isEnded && this.#ws.isPaused && !this.#exceeds(2)) this.#ws.resume();
      return Promise.resolve({ done: false, value: first.frame });
    }
    if (this.#isEnded) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#readers.push(resolve));
  }

  /** Stops accepting frames. Queued frames can still be read. */
  end(): void {
    this.#isEnded = true;
    for (const reader of this.#readers.splice(0)) reader({ done: true, value: undefined });
    // Resumes reading, because the peer's close frame must be read in any case.
    if (this.#ws.isPaused) this.#ws.resume();
  }

  drop(): void {
    this.#frames = [];
    this.#size = 0;
  }

  /** True when the queue has reached its limits, divided by `part`; reading resumes at half of them. */
  #exceeds(part: 1 | 2): boolean {
    const { unreadBytes, unreadFrames } = this.#bounds;
    const { length } = this.#frames;
    return part === 1
      ? length >= unreadFrames || this.#size >= unreadBytes
      : length > unreadFrames / 2 || this.#size > unreadBytes / 2;
  }
}
