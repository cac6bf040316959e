// Waiting for what must come, and looking on for what must not.

import { setTimeout as pass } from "node:timers/promises";

type Test = () => boolean | Promise<boolean>;

/** Resolves as soon as `test` holds; rejects after `ms`, naming `what` the suite waited for. */
export async function eventually(what: string, test: Test, ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (!(await test())) {
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain for: ${what}`);
    await pass(10);
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
      pass(ms, null, { signal: waiting.signal }).catch(() => null),
    ]);
  } finally {
    waiting.abort();
  }
}
