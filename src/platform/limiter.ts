// The rate limit: a sliding log, exact at any instant. Fixed windows would let twice the limit through at their seam.

export interface Rate {
  readonly requests: number;
  readonly perSeconds: number;
}

export interface Limiter {
  /** Admits a request at `now` (milliseconds that never go back), or says how many to wait for the next chance. */
  admit(
    key: string,
    now: number,
  ): { readonly admitted: true } | { readonly admitted: false; readonly waitMs: number };
}

/** Never admits more than `requests` of one key in any span of `perSeconds`, both ends included. */
export function createLimiter({ requests, perSeconds }: Rate): Limiter {
  const windowMs = perSeconds * 1000;
  // Per key the last `requests` admissions, as a ring: the slot to be written next holds the oldest.
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
