// Registry of the calls that are connected to this process.

import type { LiveCall } from "./call.ts";

export interface Entry {
  readonly call: LiveCall;
  /** Called when another connection of the same call has replaced this one. */
  replace(): void;
}

export interface LiveCalls {
  find(call: string): LiveCall | undefined;
  /** Runs `stored`, which stores a new connection of the call. Until it returns, the previous connection reports no
   *  end, because that could be mistaken for the end of the new one. */
  arriving<T>(call: string, stored: () => Promise<T | null>): Promise<T | null>;
  /** Registers a connection whose `arriving` returned a value. The previous connection is notified and reports no
   *  end any more. */
  enter(call: string, entry: Entry): void;
  /** Removes an entry. Returns false when another connection has replaced it or is being stored. */
  leave(call: string, entry: Entry): boolean;
}

export function liveCalls(): LiveCalls {
  const entries = new Map<string, Entry>();
  /** Number of connections of a call between `arriving` and `enter`. */
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
