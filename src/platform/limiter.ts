// Rate limiter with a sliding log, exact at any instant. A fixed window admits twice the limit across its
// boundary.

export interface Rate {
  readonly requests: number;
  readonly perSeconds: number;
}

export interface Limiter {
  /** Admits a request at `now` (monotonic milliseconds), or returns the milliseconds until the next free
   *  slot. */
  admit(
    key: string,
    now: number,
  ): { readonly admitted: true } | { readonly admitted: false; readonly waitMs: number };
}

/** Admits at most `requests` per key in any interval of `perSeconds`, both ends included. */
export function createLimiter({ requests, perSeconds }: Rate): Limiter {
  const windowMs = perSeconds * 1000;
  // Ring buffer of the last `requests` admissions per key. The next slot to write holds the oldest time.
  const logs = new Map<string, { times: Float64Array; next: number }>();
  return {
    admit(key, now) {
      let log = logs.get(key);
      if (!log) logs.set(key, (log = { times: new Float64Array(requests).fill(-Infinity), next: 0 }));
      const oldest = log.times[log.next] ?? -Infinity;
      const waitMs = oldest + windowMs - now;
      if (waitMs >= 0) return { admitted: false, waitMs };
      log.times[log.next] = now;
      log.next = (log.next + 1) % requests;
      return { admitted: true };
    },
  };
}
