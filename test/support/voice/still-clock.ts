// A clock that only moves when a test says so. What is due on the way happens in its order.

import { setTimeout as pass } from "node:timers/promises";
import type { Clock } from "bridgehead/contract";

export interface StillClock extends Clock {
  /** Time passes in small steps; after each one what became due gets a moment to happen. */
  passes(ms: number): Promise<void>;
}

interface Sleeper {
  readonly due: number;
  wake(): void;
}

const stepMs = 100;

export function stillClock(): StillClock {
  let time = 0;
  const sleepers = new Set<Sleeper>();
  return {
    now: () => time,
    monotonic: () => time,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const wake = () => {
          sleepers.delete(sleeper);
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        const sleeper = { due: time + Math.max(0, ms), wake };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake);
        if (ms <= 0) wake();
      }),
    async passes(ms) {
      const end = time + ms;
      for (;;) {
        const due = [...sleepers].filter((one) => one.due <= time);
        for (const one of due) one.wake();
        // Frames cross a real socket; a few turns of the loop let them.
        await pass(due.length > 0 ? 8 : 1);
        if (due.length > 0) continue;
        if (time >= end) return;
        const next = Math.min(...[...sleepers].map((one) => one.due), time + stepMs, end);
        time = Math.max(time, next);
      }
    },
  };
}
