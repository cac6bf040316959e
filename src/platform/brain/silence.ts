// Idle timeout for a model server. The total duration says little, because a model may generate text for
// minutes.

import type { Clock } from "bridgehead/contract";

/** Grace period for data that arrived while the event loop was blocked and is not read yet. */
const graceMs = 50;

export interface Silence {
  /** Restarts the timeout after data was received. */
  heard(): void;
  /** Stops the timeout. */
  stop(): void;
}

/** Calls `fallen` once when no data was received for `ms` milliseconds. */
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
