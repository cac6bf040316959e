// Which UIDs are settled, and how far the cursor may move: only over settled ones.

import { type Position, writePosition } from "./cursor.ts";
import type { Listed } from "./fetch.ts";

export interface Progress {
  /** The position as far as it has been handed out. */
  readonly position: Position;
  /** True while settled mail lies behind an open one: a listing from the position on then names it again. */
  readonly gap: boolean;
  /** Of a fresh listing (from the position on, in order): what is still to be done. */
  open(listed: readonly Listed[]): Listed[];
  /** Records these UIDs as settled and answers the cursor to commit with them. */
  settle(uids: readonly number[]): ReturnType<typeof writePosition>;
}

/** Starts at a committed position. A mail that must be looked at again holds the cursor; those behind it are
 *  settled all the same, and not taken twice. */
export function progress(start: Position): Progress {
  let position = start;
  /** Settled UIDs above the position: there is a gap below them. */
  const settled = new Set<number>();
  /** The latest listing: UIDs and arrival times above the position, in order. */
  let listing: readonly Listed[] = [];
  return {
    get position() {
      return position;
    },
    get gap() {
      return settled.size > 0;
    },
    open(listed) {
      listing = listed;
      return listed.filter((one) => one.uid > position.uid && !settled.has(one.uid));
    },
    settle(uids) {
      for (const uid of uids) if (uid > position.uid) settled.add(uid);
      let { uid: reached, at } = position;
      let passed = 0;
      for (const one of listing) {
        if (one.uid > reached && !settled.delete(one.uid)) break;
        reached = Math.max(reached, one.uid);
        at = Math.max(at, one.arrived ?? 0);
        passed += 1;
      }
      listing = listing.slice(passed);
      position = { ...position, uid: reached, at };
      return writePosition(position);
    },
  };
}
