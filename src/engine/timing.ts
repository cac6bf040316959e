// The durations of the daemon's core, in milliseconds. The composition root (app.ts) passes them down; tests override them
// instead of waiting. Schedules of retries are in domain/retry.ts; adapters keep the constants of their protocols.

export interface Timing {
  readonly ask: {
    /** Longest wait for the platform's rate limit that a claim includes. */
    readonly rateWait: number;
    /** Longest lookup after a call. A lookup that takes longer is retried later. */
    readonly read: number;
    /** Part of the lease beyond a wait for the rate, a lookup and a call. */
    readonly leaseMargin: number;
  };
  readonly reconcile: {
    /** Longest reconcile period of a notification before it is sent again. */
    readonly noticeWindow: number;
  };
  readonly escalation: {
    /** Longest wait for the response of a notification webhook. */
    readonly webhookAnswer: number;
  };
}

export const standardTiming: Timing = {
  ask: { rateWait: 2000, read: 20_000, leaseMargin: 15_000 },
  reconcile: { noticeWindow: 45_000 },
  escalation: { webhookAnswer: 20_000 },
};

/** Durations that differ from the standard ones, by area. */
export type TimingOverrides = { readonly [Area in keyof Timing]?: Partial<Timing[Area]> };

/** Returns `base` with the overrides. */
export function timingWith(overrides: TimingOverrides = {}, base: Timing = standardTiming): Timing {
  const areas = Object.entries(base).map(([area, durations]) => [
    area,
    { ...durations, ...overrides[area as keyof Timing] },
  ]);
  return Object.fromEntries(areas);
}
