// Sleeping on a clock that tests may move: whoever sleeps wakes when his time has passed, by itself or by a move.

import type { Clock } from "bridgehead/contract";

export interface Sleepers {
  readonly sleep: Clock["sleep"];
  /** Wakes those whose time has come; call after every move of the clock. */
  rouse(): void;
  count(): number;
}

/** `time` is what the sleeps are measured by, in milliseconds. */
export function sleepersOn(time: () => number): Sleepers {
  const sleepers = new Set<{ readonly due: number; readonly wake: () => void }>();
  return {
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const wake = () => {
          clearTimeout(timer);
          sleepers.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper = { due: time() + ms, wake };
        const timer = setTimeout(wake, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
      }),
    rouse() {
      for (const sleeper of sleepers) if (sleeper.due <= time()) sleeper.wake();
    },
    count: () => sleepers.size,
  };
}
