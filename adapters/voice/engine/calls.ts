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
  arriving<T>(call: string, stored: () => Promise<T | null>): Promise<T | null>;
  /** A connection that arrived (not null) takes over: the one before it is told, and has nothing to report any more. */
  enter(call: string, entry: Entry): void;
  /** False when the entry had been replaced. */
  leave(call: string, entry: Entry): boolean;
}

export function liveCalls(): LiveCalls {
  const entries = new Map<string, Entry>();
  /** How many connections of a call are between their arrival and their entrance. */
  const expected = new Map<string, number>();
  const expect = (call: string, more: 1 | -1) => {
    const count = (expected.get(call) ?? 0) + more;
    if (count > 0) expected.set(call, count);
    else expected.delete(call);
  };
  return {
    find: (call) => entries.get(call)?.call,
    async arriving(call, stored) {
      expect(call, 1);
      let arrived = false;
      try {
        const found = await stored();
        arrived = found !== null;
        return found;
      } finally {
        if (!arrived) expect(call, -1);
      }
    },
    enter(call, entry) {
      expect(call, -1);
      const former = entries.get(call);
      entries.set(call, entry);
      former?.replace();
    },
    leave(call, entry) {
      return entries.get(call) === entry && entries.delete(call) && !expected.has(call);
    },
  };
}
