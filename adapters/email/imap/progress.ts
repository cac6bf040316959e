// Tracks which UIDs are settled. The cursor advances only over settled UIDs.

import { type Position, writePosition } from "./cursor.ts";
import type { Listed } from "./fetch.ts";

export interface Progress {
  /** The position as of the last returned cursor. */
  readonly position: Position;
  /** True while settled messages follow an open one. A listing from the position on then returns them
   *  again. */
  readonly gap: boolean;
  /** Returns the messages of a fresh listing (from the position on, in order) that are not settled yet. */
  open(listed: readonly Listed[]): Listed[];
  /** Records these UIDs as settled and returns the cursor to commit in the same transaction. */
  settle(uids: readonly number[]): ReturnType<typeof writePosition>;
}

/** Starts at a committed position. A message to retry blocks the cursor; later messages are still
 *  settled, and are not accepted twice. */
export function progress(start: Position): Progress {
  let position = start;
  /** Settled UIDs above the position, with a gap below them. */
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
