// A time limit on one piece of work of an adapter.

import type { Clock } from "./channel.ts";

/** One object for all timeouts: creating a DOMException captures a stack. */
const timeIsUp = new DOMException("the time is up", "TimeoutError");

/** Runs `work` with a signal that aborts with `parent`, or after `ms` milliseconds. Unlike
 *  `AbortSignal.timeout`, the timer ends with the work: thousands of pending timeouts cost more memory than
 *  the work itself. */
export async function withTimeout<T>(
  clock: Pick<Clock, "sleep">,
  parent: AbortSignal,
  ms: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController();
  const over = new AbortController();
  const follow = () => own.abort(parent.reason);
  if (parent.aborted) follow();
  parent.addEventListener("abort", follow, { once: true });
  void clock.sleep(ms, over.signal).then(() => {
    if (!over.signal.aborted) own.abort(timeIsUp);
  });
  try {
    return await work(own.signal);
  } finally {
    parent.removeEventListener("abort", follow);
    over.abort(null);
  }
}
