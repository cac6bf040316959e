// Cancellation of running work by key.

export interface Cancellation {
  /** Runs `work` with a signal that aborts with `also`, or when the key is cancelled. */
  run<T>(key: string | undefined, also: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  cancel(key: string): void;
}

export function createCancellation(): Cancellation {
  const running = new Map<string, Set<AbortController>>();
  return {
    async run(key, also, work) {
      if (key === undefined) return work(also);
      const own = new AbortController();
      const all = running.get(key) ?? new Set();
      running.set(key, all.add(own));
      try {
        return await work(AbortSignal.any([also, own.signal]));
      } finally {
        all.delete(own);
        if (all.size === 0) running.delete(key);
      }
    },
    cancel(key) {
      for (const work of running.get(key) ?? []) work.abort();
    },
  };
}
