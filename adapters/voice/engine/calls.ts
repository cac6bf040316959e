// The calls whose line ends in this process.

import type { LiveCall } from "./call.ts";

export interface Entry {
  readonly call: LiveCall;
  /** Another connection of the same call has come. */
  replace(): void;
}

export interface LiveCalls {
  find(call: string): LiveCall | undefined;
  /** Another connection of the call is being stored: until that is done, the one before it has no end to report that could be
   *  taken for the new one's. */
  arriving<T>(call: string, stored: () => Promise<T>): Promise<T>;
  /** A connection takes over: the one before it is told, and has nothing to report any more. */
  enter(call: string, entry: Entry): void;
  /** False when the entry had been replaced. */
  leave(call: string, entry: Entry): boolean;
}

export function liveCalls(): LiveCalls {
  const entries = new Map<string, Entry>();
  const expected = new Set<string>();
  return {
    find: (call) => entries.get(call)?.call,
    async arriving(call, stored) {
      expected.add(call);
      try {
        return await stored();
      } finally {
        expected.delete(call);
      }
    },
    enter(call, entry) {
      const former = entries.get(call);
      entries.set(call, entry);
      former?.replace();
    },
    leave(call, entry) {
      return entries.get(call) === entry && entries.delete(call) && !expected.has(call);
    },
  };
}
