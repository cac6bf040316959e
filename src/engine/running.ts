// The running pieces of work, each with one abort signal, for a shutdown, a cancellation by key, and the deadline of its
// lease; and the timer between two sweeps.

import type { Clock } from "bridgehead/contract";
import { every, type SignalScope, scopeUnder, systemClock } from "../ops/clock.ts";
import type { Timing } from "../ops/timing.ts";
import type { Claimed } from "./stage.ts";

/** Reason of the abort at a shutdown. The work is retried by the next process. */
const shutdown = "shutting down";
const cancelled = "cancelled";
/** Reason of the abort at the deadline of the lease. */
export const overdue = Object.assign(new Error("the lease of this work is over"), { name: "TimeoutError" });

interface RunningWork {
  readonly claimed: Claimed;
  readonly scope: SignalScope;
  readonly done: Promise<void>;
  /** Monotonic milliseconds of this machine. A step of the wall clock aborts no work; a crossing still checks
   *  both clocks. */
  readonly deadline: number;
  /** Its place in the list of running work. */
  at: number;
}

export class Running {
  /** Unordered. A Map or a Set copies its table after some removals, and the former table refers to its copy and keeps the
   *  members that it had. When V8 has promoted one of these tables, its scavenges keep all later ones, with everything
   *  that their members refer to, until the next mark-compact. */
  readonly #works: RunningWork[] = [];
  #stopChecks: (() => void) | null = null;
  readonly #checkMs: number;

  /** `checkMs` is the interval at which deadlines are checked. Leases have a margin of several seconds. */
  constructor(checkMs: number) {
    this.#checkMs = checkMs;
  }

  get size(): number {
    return this.#works.length;
  }

  /** Runs `work` with a signal that aborts on `shutDown`, on `cancel` with the key of `claimed`, and when its
   *  lease is over. `work` must not reject. */
  start(claimed: Claimed, work: (signal: AbortSignal) => Promise<void>): void {
    const scope = scopeUnder();
    const { promise, resolve } = Promise.withResolvers<void>();
    const entry: RunningWork = {
      claimed,
      scope,
      done: promise,
      deadline: systemClock.monotonic() + claimed.left(),
      at: this.#works.length,
    };
    this.#works.push(entry);
    this.#stopChecks ??= every(this.#checkMs, () => this.#checkDeadlines());
    const end = () => {
      this.#remove(entry);
      scope.end();
      resolve();
    };
    work(scope.signal).then(end, end);
  }

  /** Aborts the work with that key. Its transition still runs. */
  cancel(key: string): void {
    for (const { claimed, scope } of this.#works) if (claimed.key === key) scope.abort(cancelled);
  }

  shutDown(): void {
    for (const { scope } of this.#works) scope.abort(shutdown);
  }

  /** Resolves when the work that runs now has ended; `channel` limits it to one channel. */
  async ended(channel?: string): Promise<void> {
    const works = this.#works.filter(({ claimed }) => channel === undefined || claimed.channel === channel);
    await Promise.all(works.map(({ done }) => done));
  }

  /** Ends the checks when no work runs: a timer for each piece of work would cost more. */
  #checkDeadlines(): void {
    const now = systemClock.monotonic();
    if (this.#works.length === 0) {
      this.#stopChecks?.();
      this.#stopChecks = null;
    }
    for (const { scope, deadline } of this.#works) if (deadline <= now) scope.abort(overdue);
  }

  /** The last one takes the place of the removed one. */
  #remove({ at }: RunningWork): void {
    const last = this.#works.pop();
    if (last === undefined || last.at === at) return;
    last.at = at;
    this.#works[at] = last;
  }
}

/** Preallocated, because an abort without a reason creates an error with a stack trace. */
const woken = "woken";

/** The timer between two sweeps. The wait ends on a wake, when work becomes due, or on a timeout. */
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
    this.#endWait();
  }

  /** Schedules a wake in `ms` milliseconds; the sweep serves later work than `timerHorizon`. Times close to
   *  each other share one timer. */
  schedule(ms: number): void {
    const { timerGrain: grain, timerHorizon } = this.#timing;
    if (ms >= timerHorizon) return;
    const at = (Math.floor((this.#clock.monotonic() + ms) / grain) + 1) * grain;
    if (this.#due.has(at)) return;
    this.#due.add(at);
    this.#endWait();
  }

  /** Waits for at most `mostMs` milliseconds. `deaf`: waits for the full time and ignores wakes. */
  async wait(mostMs: number, signal: AbortSignal, deaf: boolean): Promise<void> {
    const onAbort = () => this.#endWait();
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

  #endWait(): void {
    this.#sleeping?.abort(woken);
  }
}
