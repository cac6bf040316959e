// A clock that tests may set forward. Whoever sleeps wakes when the new time has passed his.

import type { Clock } from "bridgehead/contract";
import { sleepersOn } from "./sleepers.ts";

export interface MovableClock extends Clock {
  /** Sets the wall clock forward; `monotonic` goes on as the machine's. */
  forward(ms: number): void;
}

export function movableClock(): MovableClock {
  let offset = 0;
  const now = () => Date.now() + offset;
  const sleepers = sleepersOn(now);
  return {
    now,
    monotonic: () => performance.now(),
    sleep: sleepers.sleep,
    forward(ms) {
      offset += ms;
      sleepers.rouse();
    },
  };
}
