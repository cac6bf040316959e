// Group commit: writes requested while the event loop is busy share one transaction and one fsync.

import type { Db } from "./database.ts";

export interface Commits {
  /** Runs `write` in a savepoint and resolves when it is durable. Rejects with its exception, or with
   *  the commit error; nothing is written then. */
  write<T>(write: () => T): Promise<T>;
  /** Registers a callback that runs after each commit. */
  onCommit(told: () => void): void;
  /** Commits all pending writes now. */
  flush(): void;
}

interface Waiting {
  /** Runs the write. `settle` reports the result after the commit. */
  run(): void;
  settle(failure: { readonly error: unknown } | null): void;
}

export function groupCommits(db: Db): Commits {
  let waiting: Waiting[] = [];
  let committed: () => void = () => undefined;
  const transaction = db.transaction((batch: readonly Waiting[]) => {
    for (const each of batch) each.run();
  });

  function flush(): void {
    const batch = waiting;
    waiting = [];
    if (batch.length === 0) return;
    try {
      transaction(batch);
    } catch (error) {
      for (const each of batch) each.settle({ error });
      return;
    }
    for (const each of batch) each.settle(null);
    committed();
  }

  return {
    flush,
    onCommit: (told) => {
      committed = told;
    },
    write: (write) =>
      new Promise((resolve, reject) => {
        if (waiting.length === 0) setImmediate(flush);
        waiting.push(waitingFor(db.transaction(write), resolve, reject));
      }),
  };
}

function waitingFor<T>(
  write: () => T,
  resolve: (value: T) => void,
  reject: (error: unknown) => void,
): Waiting {
  let outcome: { readonly value: T } | { readonly error: unknown } | undefined;
  return {
    run() {
      try {
        outcome = { value: write() };
      } catch (error) {
        outcome = { error };
      }
    },
    settle(failure) {
      const result = failure ?? outcome;
      if (result && "value" in result) resolve(result.value);
      else reject(result?.error);
    },
  };
}
