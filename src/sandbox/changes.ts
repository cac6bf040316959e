// Waits for sandbox events: evaluates a condition again after every event, with a timeout.

import { systemClock } from "../ops/clock.ts";

export class Changes {
  readonly #waiting = new Set<() => void>();

  /** Evaluates all pending conditions again. */
  happened(): void {
    for (const look of this.#waiting) look();
  }

  /** Resolves with the result of `look` when it is not undefined, false or null. Rejects after
   *  `withinMs` (default one minute) with the text of `wanted`, usually the source of `look`. */
  until<T>(look: () => T, wanted: string, withinMs = 60_000): Promise<NonNullable<T>> {
    return new Promise((resolve, reject) => {
      const over = new AbortController();
      const end = () => {
        this.#waiting.delete(again);
        over.abort();
      };
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
      this.#waiting.add(again);
      again();
      void systemClock.sleep(withinMs, over.signal).then(() => {
        if (this.#waiting.delete(again)) reject(new Error(`nothing of the kind within ${withinMs} ms: ${wanted}`));
      });
    });
  }
}
