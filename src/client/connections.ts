// The connections to one origin, with the queue of the requests that wait for one.

import PQueue from "p-queue";
import symbols from "undici/lib/core/symbols.js";
import Pool from "undici/lib/dispatcher/pool.js";

// Imports only the pool, with its symbols: all of undici would take a third of an idle daemon's own memory.

/** The queue bounds the requests under way: each occupies it until it is settled. The pool is as large
 *  as the queue. Its own queue only covers the moment in which a connection becomes reusable, because a
 *  request cannot be removed from it. */
export class OriginConnections {
  /** Replaced when the limit changes, so each request reads it at its start. */
  pool: Pool;
  readonly queue: PQueue;
  readonly #origin: string;
  readonly #waitMs: number;
  readonly #retired = new Set<Pool>();
  /** Number of idle connections that are reserved. */
  reserved = 0;
  /** The maximum number of concurrent requests, after the last change. */
  #wanted: number;
  /** Resolve the promises of `whileReserved`. */
  #waiting: (() => void)[] = [];

  constructor(origin: string, size: number, waitMs: number) {
    this.#origin = origin;
    this.#waitMs = waitMs;
    this.#wanted = size;
    this.pool = this.#poolOf(size);
    this.queue = new PQueue({ concurrency: size });
  }

  /** Changes the maximum number of concurrent requests. Requests in progress complete first. A reserved connection is in the
   *  present pool, so the change waits for the end of the reservations. */
  resize(size: number): void {
    this.#wanted = size;
    if (this.reserved > 0 || size === this.queue.concurrency) return;
    const former = this.pool;
    this.pool = this.#poolOf(size);
    this.queue.concurrency = size;
    this.#retired.add(former);
    void former.close().finally(() => this.#retired.delete(former));
  }

  /** Returns the function that ends the reservation; null when no idle connection is left. */
  reserve(): (() => void) | null {
    if (this.#isTaken()) return null;
    this.reserved += 1;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.reserved -= 1;
      this.resize(this.#wanted);
      for (const resolve of this.#waiting.splice(0)) resolve();
    };
  }

  /** Called while connections are reserved. Null when a request without a reservation may begin; else resolves when a
   *  reservation ends, and is asked again. The attempt of a reserved request is recorded already, so it must not have to
   *  wait for a connection. */
  whileReserved(): Promise<void> | null {
    if (!this.#isTaken()) return null;
    return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  /** True when no idle connection, or no place in the queue, is left besides the reserved ones. */
  #isTaken(): boolean {
    const { size, pending, concurrency } = this.queue;
    return size > 0 || pending + this.reserved >= concurrency || this.pool[symbols.kFree] <= this.reserved;
  }

  async close(): Promise<void> {
    await Promise.all([this.pool, ...this.#retired].map((pool) => pool.destroy()));
  }

  #poolOf(connections: number): Pool {
    const pool = new Pool(this.#origin, {
      connections,
      // One request per connection: a connection error would fail all requests that share the connection.
      allowH2: false,
      connect: { timeout: this.#waitMs },
      // Disabled: `caller.ts` has its own deadline for the whole response.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    // A pool keeps a client whose connection has ended, and prefers it to a connected one that is younger: a reserved request
    // would wait for a new connection. It drops the clients of this event.
    pool.on("disconnect", (origin, targets, error) => void pool.emit("connectionError", origin, targets, error));
    return pool;
  }
}
