// Enforces the organization's rate limit in the client: requests wait for their turn, so that the platform
// does not refuse them. It implements the generic cell rate algorithm in memory, for all clients of one
// process that share an organization. Decides as well whether a request is retried: only when that cannot repeat an
// effect, for a read, or for a request that certainly had no effect.

import type { Clock } from "bridgehead/contract";
import { jitter, systemClock } from "../ops/clock.ts";
import type { CallResult } from "./exchange.ts";

export interface RateLimiter {
  /** Resolves to true when a request may be sent, in the order of the calls. Resolves to false when the
   *  signal aborts first. */
  turn(signal: AbortSignal): Promise<boolean>;
  /** Blocks all requests for `ms` milliseconds, after a 429 response of the platform. */
  pause(ms: number): void;
}

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
export function createRate(options: RateOptions = {}): RateLimiter {
  const { requests = 1000, perSeconds = 60, clock = systemClock } = options;
  const burst = options.burst ?? Math.max(1, Math.floor(requests / 10));
  if (burst < 1 || burst >= requests)
    throw new RangeError("the burst must be at least 1 and below the requests");
  // A span of s contains at most s/interval + burst requests.
  const interval = (perSeconds * 1000) / (requests - burst);
  const tolerance = (burst - 1) * interval;
  let theoretical = -Infinity;
  let closedUntil = -Infinity;
  const waiting = new Set<() => void>();
  let watch: AbortController | undefined;

  /** Milliseconds until the next request may be sent; 0 or less when it may be sent now. */
  const wait = () => Math.max(theoretical - tolerance, closedUntil) - clock.monotonic();
  const take = () => {
    theoretical = Math.max(theoretical, clock.monotonic()) + interval;
  };

  /** Releases requests one at a time, and counts each when it is released. A stalled process must not
   *  catch up on missed turns. */
  async function release(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const [first] = waiting;
      if (!first) break;
      const ms = wait();
      if (ms > 0) await clock.sleep(Math.ceil(ms), signal);
      else {
        waiting.delete(first);
        take();
        first();
      }
    }
    if (watch?.signal === signal) watch = undefined;
  }

  return {
    async turn(signal) {
      if (signal.aborted) return false;
      if (waiting.size === 0 && wait() <= 0) {
        take();
        return true;
      }
      let resolve!: (entered: boolean) => void;
      const promise = new Promise<boolean>((done) => (resolve = done));
      const go = () => resolve(true);
      const leave = () => {
        waiting.delete(go);
        // Stops the timer when the queue is empty.
        if (waiting.size === 0) watch?.abort();
        resolve(false);
      };
      waiting.add(go);
      signal.addEventListener("abort", leave, { once: true });
      if (!watch || watch.signal.aborted) {
        watch = new AbortController();
        void release(watch.signal);
      }
      try {
        return await promise;
      } finally {
        signal.removeEventListener("abort", leave);
      }
    },
    pause(ms) {
      closedUntil = Math.max(closedUntil, clock.monotonic() + ms);
    },
  };
}

const firstPauseMs = 250;
const longestPauseMs = 10_000;
/** Maximum delay in milliseconds before a retry. For a longer Retry-After the result is returned, and
 *  the caller decides. */
const longestWaitMs = 60_000;

interface Try {
  /** A GET request: it can be repeated after any outcome. */
  readonly reads: boolean;
  /** Whether the first byte was sent. */
  readonly crossed: () => boolean;
}

/** Returns the milliseconds until the next attempt, or null after the last one. `tried` is the number of
 *  attempts so far. */
function pauseBefore(result: CallResult<unknown>, { reads, crossed }: Try, tried: number): number | null {
  const again =
    result.kind === "deferred"
      ? reads || result.limited === true || !crossed()
      : result.kind === "unknown" && reads;
  if (!again) return null;
  const told = result.kind === "deferred" ? result.retryAfterMs : undefined;
  if (told !== undefined) return told <= longestWaitMs ? told : null;
  return jitter(Math.min(longestPauseMs, firstPauseMs * 2 ** (tried - 1)));
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
