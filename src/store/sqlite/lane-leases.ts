// Leases of lanes in memory, for a store that one process owns (SQLite). PostgreSQL keeps the same values
// in the rows of `lanes`. All of them end with the process: work that a crash interrupted is recognized by
// the state of its turn or draft.

import type { Query } from "../driver.ts";

interface Entry {
  /** Null after the holder gave up without an outcome. */
  readonly holder: string | null;
  readonly token: number;
  /** Epoch milliseconds. */
  readonly until: number;
}

/** The leases of one store, by lane. Every change reverts with its transaction (`Query.onRollback`). */
export class LaneLeases {
  readonly #entries = new Map<string, Entry>();
  /** The leased lanes of a channel in one direction, by group. */
  readonly #groups = new Map<string, Set<string>>();
  readonly #now: () => number;
  #token = 0;

  /** `now` returns epoch milliseconds: the clock behind now_ms(). */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Returns whether `holder` may lease the lane. Its own lease blocks it even after the lease has expired
   *  by the clock, because the work continues after a clock step. */
  isFree(lane: string, holder: string): boolean {
    const entry = this.#entries.get(lane);
    return entry === undefined || (entry.until <= this.#now() && entry.holder !== holder);
  }

  /** Returns the lanes of a channel in one direction that `holder` may not lease; `group` is `leaseGroup` of
   *  both. */
  busy(group: string, holder: string): string[] {
    return [...(this.#groups.get(group) ?? [])].filter((lane) => !this.isFree(lane, holder));
  }

  /** Leases the lane for `ms` milliseconds and returns the fencing token. */
  take(q: Query, lane: string, group: string, holder: string, ms: number): number {
    const token = ++this.#token;
    this.#set(q, lane, group, { holder, token, until: this.#now() + ms });
    return token;
  }

  /** Returns whether the token is still the valid one. */
  holds(lane: string, token: number): boolean {
    const entry = this.#entries.get(lane);
    return entry?.token === token && entry.holder !== null;
  }

  /** Releases the lane. */
  release(q: Query, lane: string, group: string): void {
    this.#set(q, lane, group, undefined);
  }

  /** Ends the holder's claim without an outcome; the lane stays leased until the lease expires. */
  abandon(q: Query, lane: string, group: string, token: number): void {
    const entry = this.#entries.get(lane);
    if (entry?.token === token) this.#set(q, lane, group, { ...entry, holder: null });
  }

  #set(q: Query, lane: string, group: string, entry: Entry | undefined): void {
    const before = this.#entries.get(lane);
    this.#put(lane, group, entry);
    q.onRollback(() => this.#put(lane, group, before));
  }

  #put(lane: string, group: string, entry: Entry | undefined): void {
    if (entry === undefined) {
      this.#entries.delete(lane);
      this.#groups.get(group)?.delete(lane);
    } else {
      this.#entries.set(lane, entry);
      const lanes = this.#groups.get(group) ?? new Set();
      this.#groups.set(group, lanes.add(lane));
    }
  }

  /** Ends all leases. */
  clear(): void {
    this.#entries.clear();
    this.#groups.clear();
  }
}
