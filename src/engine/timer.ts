// The timer of the scheduler's loop between two sweeps. The wait ends on a wake, when work becomes due, or
// on a timeout.

import type { Clock } from "bridgehead/contract";

export interface Timer {
  /** Call before a sweep: a `wake` after this call ends the next wait. */
  begin(): void;
  wake(): void;
  /** Schedules a wake in `ms` milliseconds. Times close to each other share one timer. */
  wakeIn(ms: number): void;
  /** Waits for at most `mostMs` milliseconds. `deaf`: waits for the full time and ignores wakes. */
  over(mostMs: number, signal: AbortSignal, deaf: boolean): Promise<void>;
}

/** Timer resolution in milliseconds: due work may be delayed by this much, to be processed together. */
const grain = 20;

export function createTimer(clock: Clock): Timer {
  const due = new Set<number>();
  let woken = false;
  /** Ends the sleep, so that the loop computes the remaining time again. */
  let rouse: () => void = () => undefined;

  /** Resolves on `rouse`, or after `ms` milliseconds at the latest. */
  async function sleep(ms: number, signal: AbortSignal): Promise<void> {
    const roused = new AbortController();
    rouse = () => roused.abort();
    await clock.sleep(ms, AbortSignal.any([signal, roused.signal]));
  }

  return {
    begin: () => void (woken = false),
    wake() {
      woken = true;
      rouse();
    },
    wakeIn(ms) {
      const at = (Math.floor((clock.monotonic() + ms) / grain) + 1) * grain;
      if (due.has(at)) return;
      due.add(at);
      rouse();
    },
    async over(mostMs, signal, deaf) {
      const end = clock.monotonic() + mostMs;
      for (;;) {
        const now = clock.monotonic();
        const next = deaf ? end : Math.min(end, ...due);
        if (signal.aborted || (woken && !deaf) || now >= next) break;
        await sleep(next - now, signal);
      }
      rouse = () => undefined;
      for (const at of due) if (at <= clock.monotonic()) due.delete(at);
    },
  };
}
