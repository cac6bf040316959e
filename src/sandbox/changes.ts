// Waits for sandbox events: evaluates a condition again after every event, with a timeout.

import { systemClock } from "../ops/clock.ts";

export interface Changes {
  /** Evaluates all pending conditions again. */
  happened(): void;
  /** Resolves with the result of `look` when it is not undefined, false or null. Rejects after
   *  `withinMs` (default one minute) with the text of `wish`, usually the source of `look`. */
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
