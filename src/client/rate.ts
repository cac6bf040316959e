// The organization's rate, kept on this side of the line: requests wait for their turn instead of being refused. The
// generic cell rate algorithm, in memory: for all clients of one process that share an organization.

import type { Clock } from "bridgehead/contract";
import { systemClock } from "../ops/clock.ts";

export interface Rate {
  /** Resolves when a request may leave, in the order of asking: true; false when the signal aborted before. */
  turn(signal: AbortSignal): Promise<boolean>;
  /** The platform said 429: nobody's turn comes for so long, in milliseconds. */
  pause(ms: number): void;
}

export interface RateOptions {
  /** Requests in any span of `perSeconds`, both ends included. Default: the interface's 1000 in 60 s (External API 8). */
  readonly requests?: number;
  readonly perSeconds?: number;
  /** How many may leave at once after a rest; the others are spread over the span. Default: a tenth of `requests`. */
  readonly burst?: number;
  readonly clock?: Clock;
}

/** Give the same one to every client of an organization. Throws when the burst leaves nothing to spread. */
export function createRate(options: RateOptions = {}): Rate {
  const { requests = 1000, perSeconds = 60, clock = systemClock } = options;
  const burst = options.burst ?? Math.max(1, Math.floor(requests / 10));
  if (burst < 1 || burst >= requests)
    throw new RangeError("the burst must be at least 1 and below the requests");
  // In a span of s there are at most s/interval + burst.
  const interval = (perSeconds * 1000) / (requests - burst);
  const tolerance = (burst - 1) * interval;
  let theoretical = -Infinity;
  let closedUntil = -Infinity;
  const waiting = new Set<() => void>();
  let watch: AbortController | undefined;

  /** Milliseconds until the next one may leave; at most 0 when it may now. */
  const wait = () => Math.max(theoretical - tolerance, closedUntil) - clock.monotonic();
  const take = () => {
    theoretical = Math.max(theoretical, clock.monotonic()) + interval;
  };

  /** Lets them go one by one, counted when they leave: a process that stood still must not make up for it. */
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
        // No timer for nobody.
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
