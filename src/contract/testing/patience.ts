// Waiting for what must come, and looking on for what must not. Time counts in short naps: a machine that stands still
// for seconds makes nobody late, and between two naps everything that has come is seen.

import { setTimeout as pass } from "node:timers/promises";

type Test = () => boolean | Promise<boolean>;

const napMs = 20;

interface Elapsing {
  readonly signal?: AbortSignal;
  /** False: does not keep the process alive. */
  readonly ref?: boolean;
}

/** Resolves when `ms` have passed in which this process ran; at once when the signal aborts. */
export async function elapse(ms: number, options: Elapsing): Promise<void> {
  for (let left = ms; left > 0 && !options.signal?.aborted; left -= napMs)
    await pass(Math.min(left, napMs), undefined, options).catch(() => undefined);
}

/** A signal that aborts when `ms` have passed in which this process ran. */
export function deadline(ms: number): AbortSignal {
  const end = new AbortController();
  void elapse(ms, { ref: false }).then(() =>
    end.abort(new DOMException(`${ms} ms are over`, "TimeoutError")),
  );
  return end.signal;
}

/** Resolves as soon as `test` holds; rejects after `ms`, naming `what` the suite waited for. */
export async function eventually(what: string, test: Test, ms: number): Promise<void> {
  for (let left = ms; !(await test()); left -= napMs / 2) {
    if (left <= 0) throw new Error(`waited ${ms} ms in vain for: ${what}`);
    await pass(napMs / 2);
  }
}

/** Rejects with `broken` if `test` fails to hold at any look within `ms`. Nothing can prove a never; this catches
 *  what happens without waiting. */
export async function throughout(broken: string, test: Test, ms: number): Promise<void> {
  const end = performance.now() + ms;
  // A machine that stands still for a while shows nothing: so many looks at least.
  let looks = ms / 20;
  do {
    if (!(await test())) throw new Error(broken);
    looks -= 1;
    await pass(10);
  } while (looks > 0 || performance.now() < end);
}

/** Calls `body`; what it throws at once comes as a rejection too. */
export async function attempt<T>(body: () => Promise<T>): Promise<T> {
  return body();
}

/** What `work` comes to, or null when it has not ended within `ms`. Its rejection is passed on. */
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
