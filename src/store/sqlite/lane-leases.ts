// The leases of an SQLite store, in memory because one process owns the store, and the lanes that have become due.

import type { Query, Work } from "../driver.ts";
import type { Lease } from "../lanes.ts";

/** Bounds the memory for lanes of a channel that claims nothing. */
const mostAnnounced = 1000;

/** A lease in memory. */
interface HeldLease {
  readonly channel: string;
  /** Null after the holder gave up without an outcome. */
  readonly holder: string | null;
  readonly token: number;
  /** Epoch milliseconds. */
  readonly until: number;
}

/** The leases of a store that one process owns (SQLite), by lane. All of them end with the process: work that a crash
 *  interrupted is recognized by the state of its turn or draft. Every change reverts with its transaction (`Query.onRollback`). */
export class LaneLeases {
  readonly #entries = new Map<string, HeldLease>();
  /** The leased lanes of each channel. */
  readonly #channels = new Map<string, Set<string>>();
  /** The lanes that became due since the last claim, by kind of work and channel. Absent where others may be due too. A
   *  claim that searches all due lanes reads those that are leased as well, so its cost grows with the questions that
   *  wait for their answers. */
  readonly #announced = new Map<string, Set<string>>();
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

  /** Returns the lanes that `holder` may not lease: of one channel, or of all. */
  busy(holder: string, channel?: string): string[] {
    const lanes = channel === undefined ? this.#entries.keys() : (this.#channels.get(channel) ?? []);
    return [...lanes].filter((lane) => !this.isFree(lane, holder));
  }

  /** Notes that a lane is due. */
  announce(work: Work, channel: string, lane: string): void {
    const lanes = this.#announced.get(`${work} ${channel}`)?.add(lane);
    if (lanes && lanes.size > mostAnnounced) this.search(work, channel);
  }

  /** Notes that a search has found due lanes, which may not have been announced. */
  search(work: Work, channel: string): void {
    this.#announced.delete(`${work} ${channel}`);
  }

  /** Returns the announced lanes that `holder` may lease; null when other lanes may be due. */
  announced(work: Work, channel: string, holder: string): string[] | null {
    const lanes = this.#announced.get(`${work} ${channel}`);
    return lanes ? [...lanes].filter((lane) => this.isFree(lane, holder)) : null;
  }

  /** Call after a claim. `all`: it has read all lanes that were due. */
  claimed(q: Query, work: Work, channel: string, all: boolean): void {
    if (all) this.#announced.set(`${work} ${channel}`, new Set());
    else this.search(work, channel);
    q.onRollback(() => this.search(work, channel));
  }

  /** Leases the lane for `ms` milliseconds and returns the fencing token. */
  take(q: Query, lane: string, channel: string, holder: string, ms: number): number {
    const token = ++this.#token;
    this.#set(q, lane, { channel, holder, token, until: this.#now() + ms });
    return token;
  }

  /** Returns whether the lease is still the valid one. */
  holds({ lane, token }: Lease): boolean {
    const entry = this.#entries.get(lane);
    return entry?.token === token && entry.holder !== null;
  }

  /** Releases the lane. */
  release(q: Query, lane: string): void {
    this.#set(q, lane, undefined);
  }

  /** Ends the holder's claim without an outcome; the lane stays leased until the lease expires. */
  abandon(q: Query, { lane, token }: Lease): void {
    const entry = this.#entries.get(lane);
    if (entry?.token === token) this.#set(q, lane, { ...entry, holder: null });
  }

  #set(q: Query, lane: string, entry: HeldLease | undefined): void {
    const before = this.#entries.get(lane);
    this.#put(lane, entry);
    q.onRollback(() => this.#put(lane, before));
  }

  #put(lane: string, entry: HeldLease | undefined): void {
    const before = this.#entries.get(lane);
    if (before !== undefined) this.#channels.get(before.channel)?.delete(lane);
    if (entry === undefined) {
      this.#entries.delete(lane);
      return;
    }
    this.#entries.set(lane, entry);
    const lanes = this.#channels.get(entry.channel) ?? new Set();
    this.#channels.set(entry.channel, lanes.add(lane));
  }

  /** Ends all leases. */
  clear(): void {
    this.#entries.clear();
    this.#channels.clear();
    this.#announced.clear();
  }
}
