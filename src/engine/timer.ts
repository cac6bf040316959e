// The timer of the scheduler's loop between two sweeps. The wait ends on a wake, when work becomes due, or
// on a timeout.

import type { Clock } from "bridgehead/contract";
import type { Timing } from "../ops/timing.ts";

/** Preallocated, because an abort without a reason creates an error with a stack trace. */
const woken = "woken";

export class SweepTimer {
  readonly #clock: Clock;
  readonly #timing: Timing["scheduler"];
  /** Monotonic milliseconds at which work becomes due. */
  readonly #due = new Set<number>();
  #isWoken = false;
  /** Ends the sleep, so that the loop computes the remaining time again. */
  #sleeping: AbortController | null = null;

  constructor(clock: Clock, timing: Timing["scheduler"]) {
    this.#clock = clock;
    this.#timing = timing;
  }

  /** Call before a sweep: a `wake` after this call ends the next wait. */
  begin(): void {
    this.#isWoken = false;
  }

  wake(): void {
    this.#isWoken = true;
    this.#rouse();
  }

  /** Schedules a wake in `ms` milliseconds; the sweep serves later work than `timerHorizon`. Times close to
   *  each other share one timer. */
  wakeIn(ms: number): void {
    const { timerGrain: grain, timerHorizon } = this.#timing;
    if (ms >= timerHorizon) return;
    const at = (Math.floor((this.#clock.monotonic() + ms) / grain) + 1) * grain;
    if (this.#due.has(at)) return;
    this.#due.add(at);
    this.#rouse();
  }

  /** Waits for at most `mostMs` milliseconds. `deaf`: waits for the full time and ignores wakes. */
  async wait(mostMs: number, signal: AbortSignal, deaf: boolean): Promise<void> {
    const onAbort = () => this.#rouse();
    signal.addEventListener("abort", onAbort, { once: true });
    const end = this.#clock.monotonic() + mostMs;
    for (;;) {
      const now = this.#clock.monotonic();
      const next = deaf ? end : Math.min(end, ...this.#due);
      if (signal.aborted || (this.#isWoken && !deaf) || now >= next) break;
      this.#sleeping = new AbortController();
      await this.#clock.sleep(next - now, this.#sleeping.signal);
      this.#sleeping = null;
    }
    signal.removeEventListener("abort", onAbort);
    for (const at of this.#due) if (at <= this.#clock.monotonic()) this.#due.delete(at);
  }

  #rouse(): void {
    this.#sleeping?.abort(woken);
  }
}
