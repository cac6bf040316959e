// A clock that tests may advance. A sleeping task wakes when the new time is past its deadline.

import { setTimeout as pass } from "node:timers/promises";
import type { Clock } from "bridgehead/contract";

export interface MovableClock extends Clock {
  /** Sets the wall clock forward; `monotonic` continues as the machine's. */
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

// Sleeping on a clock that tests may advance: a task wakes when its deadline has passed, in real time or by a step.

export interface Sleepers {
  readonly sleep: Clock["sleep"];
  /** Wakes those whose time has come, and returns their number; call after every move of the clock. */
  rouse(): number;
  /** The time at which the next one wakes; infinite without sleepers. */
  next(): number;
  count(): number;
}

/** `time` is what the sleeps are measured by, in milliseconds. `still`: it moves only when the test moves it. */
export function sleepersOn(time: () => number, still = false): Sleepers {
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
        const timer = still && ms > 0 ? undefined : setTimeout(wake, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
        sleepers.add(sleeper);
        signal?.addEventListener("abort", wake, { once: true });
      }),
    rouse() {
      const due = [...sleepers].filter((one) => one.due <= time());
      for (const { wake } of due) wake();
      return due.length;
    },
    next: () => Math.min(...[...sleepers].map((one) => one.due)),
    count: () => sleepers.size,
  };
}

// A clock that only moves when a test says so. What is due on the way happens in its order.

export interface StillClock extends Clock {
  /** Time passes in small steps; after each one what became due gets a moment to happen. */
  passes(ms: number): Promise<void>;
}

const stepMs = 100;

export function stillClock(): StillClock {
  let time = 0;
  const sleepers = sleepersOn(() => time, true);
  return {
    now: () => time,
    monotonic: () => time,
    sleep: sleepers.sleep,
    async passes(ms) {
      const end = time + ms;
      for (;;) {
        const woken = sleepers.rouse();
        // Frames cross a real socket; a few turns of the loop let them.
        await pass(woken > 0 ? 8 : 1);
        if (woken > 0) continue;
        if (time >= end) return;
        time = Math.max(time, Math.min(sleepers.next(), time + stepMs, end));
      }
    },
  };
}

// Waiting for what others do: looks again and again, for a bounded time.

/** Resolves when `look` no longer throws; rejects with its last error after `withinMs`. */

export async function eventually(look: () => unknown, withinMs = 150_000): Promise<void> {
  for (const end = performance.now() + withinMs; ; ) {
    try {
      await look();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

// How much work something is, on a machine that does other things too, slowly, or nothing at all for a while.

/** Milliseconds that the processors have worked for this process so far, all its threads together. */

export function workedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
