// Notices a server that says nothing any more. How long an answer takes in all says little: a model may think, and talk,
// for minutes.

import type { Clock } from "bridgehead/contract";

/** What came while this process itself was held up is still on its way to us when the time is over. */
const graceMs = 50;

export interface Silence {
  /** Something was heard: the time begins anew. */
  heard(): void;
  /** Nobody listens any more. */
  stop(): void;
}

/** Calls `fallen` once, when nothing was heard for `ms`. */
export function watchSilence(clock: Clock, ms: number, fallen: () => void): Silence {
  const stopped = new AbortController();
  const { signal } = stopped;
  let last = clock.monotonic();
  let count = 0;
  const watch = async () => {
    while (!signal.aborted) {
      const left = last + ms - clock.monotonic();
      const before = count;
      await clock.sleep(left > 0 ? left : graceMs, signal);
      if (left <= 0 && count === before && !signal.aborted) return fallen();
    }
  };
  void watch();
  return {
    heard() {
      last = clock.monotonic();
      count++;
    },
    stop: () => stopped.abort(),
  };
}
