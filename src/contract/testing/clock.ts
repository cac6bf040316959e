// A clock for tests of adapters: the system clock, with an optional offset. The daemon's clock is not public.

import { setTimeout as pass } from "node:timers/promises";
import type { Clock } from "../channel.ts";

/** Returns the system clock; its wall clock is `ahead` milliseconds fast. */
export function wallClock(ahead = 0): Clock {
  return {
    now: () => new Date().getTime() + ahead,
    monotonic: () => performance.now(),
    sleep: async (ms, signal) => {
      // An abort ends the sleep without an error (see `Clock`).
      await pass(ms, undefined, signal ? { signal } : {}).catch(() => undefined);
    },
  };
}
