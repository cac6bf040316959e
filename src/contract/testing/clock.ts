// Time for tests of adapters: the machine's own, optionally shown ahead. The daemon's clock is not public.

import { setTimeout as pass } from "node:timers/promises";
import type { Clock } from "../channel.ts";

/** The machine's clock, `ahead` milliseconds fast (the wall clock only). */
export function wallClock(ahead = 0): Clock {
  return {
    now: () => new Date().getTime() + ahead,
    monotonic: () => performance.now(),
    sleep: async (ms, signal) => {
      // An abort ends the sleep; it is not an error (see Clock).
      await pass(ms, undefined, signal ? { signal } : {}).catch(() => undefined);
    },
  };
}
