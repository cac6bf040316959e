// Waiting for what a sandbox has seen: looks again whenever something happened, for a bounded time.

import { systemClock } from "../ops/clock.ts";

export interface Changes {
  /** Whoever waits looks again. */
  happened(): void;
  /** Resolves with what `look` finds when that is no longer undefined, false or null; rejects after `withinMs` (a minute) with
   *  the words of `wish`, as a rule the function that looks. */
  until<T>(look: () => T, wish: string, withinMs?: number): Promise<NonNullable<T>>;
}

export function createChanges(): Changes {
  const waiting = new Set<() => void>();
  return {
    happened() {
      for (const look of waiting) look();
    },
    until: <T>(look: () => T, wish: string, withinMs = 60_000) =>
      new Promise<NonNullable<T>>((resolve, reject) => {
        const over = new AbortController();
        const again = () => {
          try {
            const found = look();
            if (found === undefined || found === null || found === false) return;
            end();
            resolve(found);
          } catch (error) {
            end();
            reject(error);
          }
        };
        const end = () => {
          waiting.delete(again);
          over.abort();
        };
        waiting.add(again);
        again();
        void systemClock.sleep(withinMs, over.signal).then(() => {
          if (!waiting.delete(again)) return;
          reject(new Error(`nothing of the kind within ${withinMs} ms: ${wish}`));
        });
      }),
  };
}
