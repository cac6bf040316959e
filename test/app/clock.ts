// A clock that tests may set forward. Whoever sleeps wakes when the new time has passed his.

import type { Clock } from "bridgehead/contract";

export interface MovableClock extends Clock {
  /** Sets the wall clock forward; `monotonic` goes on as the machine's. */
  forward(ms: number): void;
}

export function movableClock(): MovableClock {
  let offset = 0;
  const sleepers = new Set<{ readonly due: number; readonly wake: () => void }>();
  const now = () => Date.now() + offset;
  return {
    now,
    monotonic: () => performance.now(),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const wake = () => {
          clearTimeout(timer);
          sleepers.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper = { due: now() + ms, wake };
        const timer = setTimeout(wake, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
      }),
    forward(ms) {
      offset += ms;
      for (const sleeper of sleepers) if (sleeper.due <= now()) sleeper.wake();
    },
  };
}
