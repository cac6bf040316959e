// Waits for expected events, and watches for events that must not occur. Time is counted in short sleeps. A machine
// that stalls for seconds therefore causes no timeout, and every pending event is processed between two sleeps.

import { setTimeout as pass } from "node:timers/promises";

type Test = () => boolean | Promise<boolean>;

const napMs = 20;

interface Elapsing {
  readonly signal?: AbortSignal;
  /** False: the timer does not keep the process alive. */
  readonly ref?: boolean;
}

/** Resolves after `ms` of running time of this process, or at once when the signal aborts. */
export async function elapse(ms: number, options: Elapsing): Promise<void> {
  for (let left = ms; left > 0 && !options.signal?.aborted; left -= napMs)
    await pass(Math.min(left, napMs), undefined, options).catch(() => undefined);
}

/** Returns a signal that aborts after `ms` of running time of this process. */
export function deadline(ms: number): AbortSignal {
  const end = new AbortController();
  void elapse(ms, { ref: false }).then(() => end.abort(new DOMException(`${ms} ms are over`, "TimeoutError")));
  return end.signal;
}

/** Resolves as soon as `test` holds. Rejects after `ms` with an error that names `what`. */
export async function eventually(what: string, test: Test, ms: number): Promise<void> {
  for (let left = ms; !(await test()); left -= napMs / 2) {
    if (left <= 0) throw new Error(`waited ${ms} ms in vain for: ${what}`);
    await pass(napMs / 2);
  }
}

/** Rejects with `broken` if `test` fails at any check within `ms`. It cannot prove that an event never
 *  occurs; it detects events that occur without delay. */
export async function throughout(broken: string, test: Test, ms: number): Promise<void> {
  const end = performance.now() + ms;
  // The minimum number of checks, because a machine that stalls would otherwise check too rarely.
  let looks = ms / 20;
  do {
    if (!(await test())) throw new Error(broken);
    looks -= 1;
    await pass(10);
  } while (looks > 0 || performance.now() < end);
}

/** Calls `body`, and converts a synchronous throw to a rejection. */
export async function attempt<T>(body: () => Promise<T>): Promise<T> {
  return body();
}

/** Returns the result of `work`, or null when it has not settled within `ms`. A rejection of `work` propagates. */
export async function within<T>(work: Promise<T>, ms: number): Promise<{ readonly value: T } | null> {
  const waiting = new AbortController();
  try {
    return await Promise.race([
      work.then((value) => ({ value })),
      elapse(ms, { signal: waiting.signal }).then(() => null),
    ]);
  } finally {
    waiting.abort();
  }
}
