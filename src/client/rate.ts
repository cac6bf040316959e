// Enforces the organization's rate limit in the client: requests wait for their turn, so that the platform
// does not refuse them. It implements the generic cell rate algorithm in memory, for all clients of one
// process that share an organization. Decides as well whether a request is retried: only when that cannot repeat an
// effect, for a read, or for a request that certainly had no effect.

import type { Clock } from "bridgehead/contract";
import { jitter, systemClock } from "../ops/clock.ts";
import type { RetryPauses } from "./options.ts";
import type { CallResult } from "./result.ts";

export interface RateOptions {
  /** Maximum number of requests in any span of `perSeconds`, both ends included. Default: the
   *  interface's 1000 in 60 s (External API 8). */
  readonly requests?: number;
  readonly perSeconds?: number;
  /** Maximum number of requests sent at once after an idle time; the others are spread over the span.
   *  Default: a tenth of `requests`. */
  readonly burst?: number;
  readonly clock?: Clock;
}

/** Creates a rate limiter. Share one between all clients of an organization. Throws when the burst
 *  leaves no requests to spread. */
export const createRate = (options: RateOptions = {}): RateLimiter => new RateLimiter(options);

export class RateLimiter {
  readonly #clock: Clock;
  /** A span of s milliseconds contains at most s / interval + burst requests. */
  readonly #interval: number;
  readonly #tolerance: number;
  #theoretical = -Infinity;
  #closedUntil = -Infinity;
  readonly #waiting = new Set<() => void>();
  #watch: AbortController | undefined;

  constructor({ requests = 1000, perSeconds = 60, clock = systemClock, ...options }: RateOptions) {
    const burst = options.burst ?? Math.max(1, Math.floor(requests / 10));
    if (burst < 1 || burst >= requests) throw new RangeError("the burst must be at least 1 and below the requests");
    this.#clock = clock;
    this.#interval = (perSeconds * 1000) / (requests - burst);
    this.#tolerance = (burst - 1) * this.#interval;
  }

  /** Resolves to true when a request may be sent, in the order of the calls. Resolves to false when the
   *  signal aborts first. */
  async turn(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    if (this.#waiting.size === 0 && this.#wait() <= 0) {
      this.#take();
      return true;
    }
    let resolve!: (entered: boolean) => void;
    const promise = new Promise<boolean>((done) => (resolve = done));
    const go = () => resolve(true);
    const leave = () => {
      this.#waiting.delete(go);
      // Stops the timer when the queue is empty.
      if (this.#waiting.size === 0) this.#watch?.abort();
      resolve(false);
    };
    this.#waiting.add(go);
    signal.addEventListener("abort", leave, { once: true });
    if (!this.#watch || this.#watch.signal.aborted) {
      this.#watch = new AbortController();
      void this.#release(this.#watch.signal);
    }
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /** Blocks all requests for `ms` milliseconds, after a 429 response of the platform. */
  pause(ms: number): void {
    this.#closedUntil = Math.max(this.#closedUntil, this.#clock.monotonic() + ms);
  }

  /** Milliseconds until the next request may be sent; 0 or less when it may be sent now. */
  #wait(): number {
    return Math.max(this.#theoretical - this.#tolerance, this.#closedUntil) - this.#clock.monotonic();
  }

  #take(): void {
    this.#theoretical = Math.max(this.#theoretical, this.#clock.monotonic()) + this.#interval;
  }

  /** Releases requests one at a time, and counts each when it is released. A stalled process must not
   *  catch up on missed turns. */
  async #release(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const [first] = this.#waiting;
      if (!first) break;
      const ms = this.#wait();
      if (ms > 0) await this.#clock.sleep(Math.ceil(ms), signal);
      else {
        this.#waiting.delete(first);
        this.#take();
        first();
      }
    }
    if (this.#watch?.signal === signal) this.#watch = undefined;
  }
}

interface Try {
  /** A GET request: it can be repeated after any outcome. */
  readonly reads: boolean;
  /** Whether the first byte was sent. */
  readonly crossed: () => boolean;
  readonly pauses?: RetryPauses | undefined;
}

/** Returns the milliseconds until the next attempt, or null after the last one. `tried` is the number of
 *  attempts so far. */
function pauseBefore(result: CallResult<unknown>, { reads, crossed, pauses = {} }: Try, tried: number): number | null {
  const { first = 250, longest = 10_000, longestRetryAfter = 60_000 } = pauses;
  const again =
    result.kind === "deferred" ? reads || result.limited === true || !crossed() : result.kind === "unknown" && reads;
  if (!again) return null;
  const retryAfterMs = result.kind === "deferred" ? result.retryAfterMs : undefined;
  if (retryAfterMs !== undefined) return retryAfterMs <= longestRetryAfter ? retryAfterMs : null;
  return jitter(Math.min(longest, first * 2 ** (tried - 1)));
}

/** Calls `once` up to `most` times, with pauses. When the signal aborts, it returns the last result. */
export async function tryUpTo<T>(
  most: number,
  once: () => Promise<CallResult<T>>,
  about: Try,
  clock: Clock,
  signal: AbortSignal,
): Promise<CallResult<T>> {
  for (let tried = 1; ; tried++) {
    const result = await once();
    const pause = tried < most && !signal.aborted ? pauseBefore(result, about, tried) : null;
    if (pause === null) return result;
    await clock.sleep(pause, signal);
    if (signal.aborted) return result;
  }
}
