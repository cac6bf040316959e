// Lanes: one direction of one conversation, processed strictly in order by the lease holder. Claiming a lease issues a
// new fencing token, and every later write checks the token. No token is issued twice, not even after a rollback. A
// holder whose lease was taken over cannot write. On PostgreSQL leases are columns of `lanes`; on SQLite they are in
// memory (`LaneLeases`), because one process owns the store.

import type { Clock } from "bridgehead/contract";
import { isListed, listOf, noteDue, type Query, touch, type Work } from "./driver.ts";

export type Direction = "in" | "out";

export const itemTable = { in: "turns", out: "drafts" } as const;

export interface Lease {
  readonly lane: string;
  readonly conversation: string;
  readonly channel: string;
  readonly token: number;
  /** Outbound: the channel address that sends the conversation's drafts; "" for the default address. */
  readonly sender: string;
}

/** The deadline of a lease in this process. Both clocks are used: the monotonic clock stops while a machine is suspended,
 *  and the wall clock can jump. */
export type LeaseDeadline = ReturnType<typeof leaseDeadline>;

/** Starts the deadline now: call before the lease is taken. */
export function leaseDeadline(clock: Pick<Clock, "now" | "monotonic">, leaseMs: number) {
  const monotonic = clock.monotonic();
  const wall = clock.now();
  const left = () => leaseMs - Math.max(clock.monotonic() - monotonic, clock.now() - wall);
  return {
    /** Milliseconds that are certainly left; zero or less when another node may hold the lease. The scheduler
     *  aborts the work then. */
    left,
    /** Called by a crossing. Throws, and nothing may be sent, when less than `leastMs` milliseconds are left: the effect does
     *  not fit into the rest. */
    check: (leastMs: number): void => {
      const ms = left();
      if (ms < leastMs) throw new Error(`too little of the lease is left to begin (${Math.round(ms)} ms)`);
    },
  };
}

/** The lease was taken over by another holder; the pending write is rejected. */
export class LeaseLost extends Error {
  constructor(lane: string) {
    super(`writing for lane ${lane}: its lease was taken over`);
  }
}

const laneId = (conversation: string, direction: Direction): string => `${conversation}/${direction}`;

const statementsOf = (direction: Direction) => {
  const items = itemTable[direction];
  /** The due time of the lane's head; $1 is the conversation. */
  const headDue = `(
       SELECT CASE WHEN state IN ('held', 'failed') THEN NULL ELSE due_at END FROM ${items}
       WHERE conversation = $1 AND open = 1 ORDER BY seq LIMIT 1
     )`;
  return {
    append: `UPDATE lanes SET next_seq = next_seq + 1, due_at = CASE
       WHEN due_at IS NULL AND NOT EXISTS (SELECT 1 FROM ${items} WHERE conversation = $2 AND open = 1)
       THEN CASE WHEN $3 > now_ms() THEN $3 ELSE now_ms() END ELSE due_at END
     WHERE id = $1 RETURNING next_seq - 1 AS seq, channel, due_at - now_ms() AS wait`,
    refresh: `UPDATE lanes SET due_at = ${headDue} WHERE id = $2 RETURNING channel, due_at - now_ms() AS wait`,
    refreshIdle: `UPDATE lanes SET due_at = ${headDue} WHERE id = $2 AND due_at IS NULL RETURNING due_at - now_ms() AS wait`,
    release: `UPDATE lanes SET holder = NULL, lease_until = 0, due_at = ${headDue}
     WHERE id = $2 AND token = $3 RETURNING due_at - now_ms() AS wait`,
  };
};
const statements = { in: statementsOf("in"), out: statementsOf("out") } as const;

/** Returns the next sequence number of the lane. */
export async function nextSeq(q: Query, conversation: string, direction: Direction): Promise<number> {
  const lane = laneId(conversation, direction);
  const row = await q.one<{ seq: number }>(
    "UPDATE lanes SET next_seq = next_seq + 1 WHERE id = $1 RETURNING next_seq - 1 AS seq",
    lane,
  );
  if (!row) throw noLane(lane);
  return row.seq;
}

const noLane = (lane: string) => new Error(`taking a number in lane ${lane}: there is no such lane`);

/** Returns SQL for the number of an item that `appendDue` appends, where `seq` is NULL. Both are SQL expressions. */
export const appendedSeq = (seq: string, conversation: string, direction: Direction): string =>
  `COALESCE(${seq}, (SELECT next_seq - 1 FROM lanes WHERE id = ${conversation} || '/${direction}'))`;

/** Takes the next sequence number for an item at the end of the lane, and runs `insert` with it. An idle lane
 *  becomes due with the item; a lane with a due head keeps its due time. `dueAt` is the item's due time by the
 *  database's clock, in epoch milliseconds. Call it only where this transaction has changed no other item of
 *  the lane. The due time is read again when the lane has none: its head is blocked, or (PostgreSQL) another
 *  transaction has closed the head since this statement's snapshot was taken. */
export async function appendToLane(
  q: Query,
  conversation: string,
  direction: Direction,
  dueAt: number,
  insert: (seq: number) => Promise<void>,
): Promise<void> {
  const lane = laneId(conversation, direction);
  const row = await q.one<{ seq: number; channel: string; wait: number | null }>(
    statements[direction].append,
    lane,
    conversation,
    dueAt,
  );
  if (!row) throw noLane(lane);
  const { wait } = row;
  if (wait !== null) noteDueLane(q, direction, { ...row, lane, wait });
  await insert(row.seq);
  if (wait === null) await refreshLane(q, conversation, direction);
}

/** Like `appendToLane` on PostgreSQL, for an item that is due, without a round trip of its own. `insert` writes it with the
 *  number `appendedSeq`. */
export async function appendDue(
  q: Query,
  { conversation, channel, dueAt }: { readonly conversation: string; readonly channel: string; readonly dueAt: number },
  direction: Direction,
  insert: () => Promise<void>,
): Promise<void> {
  const lane = laneId(conversation, direction);
  touch(q, itemTable[direction], channel);
  /** The head may be due later. */
  const use = ([row]: readonly { readonly wait: number | null }[]) => {
    if (row && row.wait !== null && row.wait > 0) q.waits.add(row.wait);
  };
  await q.defer({ use, otherwise: () => noLane(lane) }, statements[direction].append, lane, conversation, dueAt);
  await insert();
  await q.defer({ use }, statements[direction].refreshIdle, conversation, lane);
}

interface DueLane {
  readonly lane: string;
  readonly channel: string;
  readonly wait: number;
}

/** Notes that the lane becomes due in `wait` milliseconds, or is due. */
export function noteDueLane(q: Query, direction: Direction, row: DueLane): void {
  const { lane, channel, wait } = row;
  const work = itemTable[direction];
  if (wait <= 0) q.leases?.announce(work, channel, lane);
  noteDue(q, work, channel, wait);
}

/** Locks the lane's row and waits for a concurrent writer. Call before changing an item without a lease (delivery
 *  receipts, operator commands). Otherwise a stale head could overwrite the due time of a concurrent commit, and the
 *  lane would never become due again. SQLite has one writer and needs no lock. */
export async function lockLane(q: Query, conversation: string, direction: Direction): Promise<void> {
  if (q.leases) return;
  const lane = laneId(conversation, direction);
  await q.write("SELECT 1 FROM lanes WHERE id = $1 FOR NO KEY UPDATE", lane);
}

/** Like `lockLane` for several lanes, in the order of their ids, so that two transactions do not wait for each other. */
export async function lockLanes(q: Query, conversations: readonly string[], direction: Direction): Promise<void> {
  if (q.leases || conversations.length === 0) return;
  const lanes = listOf(conversations.map((conversation) => laneId(conversation, direction)));
  await q.write(`SELECT 1 FROM lanes WHERE ${isListed("id")} ORDER BY id FOR NO KEY UPDATE`, lanes);
}

/** Like `lockLane` without waiting. Returns false when another transaction is writing in the lane. */
export async function tryLane(q: Query, conversation: string, direction: Direction): Promise<boolean> {
  if (q.leases) return true;
  const lane = laneId(conversation, direction);
  return (await q.one("SELECT id FROM lanes WHERE id = $1 FOR UPDATE SKIP LOCKED", lane)) !== undefined;
}

/** Sets the lane's due time to that of its head. Call after every change of an item, with the lane's row
 *  locked (`guardLease`, `nextSeq`, `lockLane`). */
export async function refreshLane(q: Query, conversation: string, direction: Direction): Promise<void> {
  const lane = laneId(conversation, direction);
  const row = await q.one<{ channel: string; wait: number | null }>(statements[direction].refresh, conversation, lane);
  if (row && row.wait !== null) noteDueLane(q, direction, { ...row, lane, wait: row.wait });
}

/** Throws LeaseLost unless the lease is still valid. First statement of every transition. It also makes
 *  a transition safe to retry, because the committed first run has released the lane. */
export async function guardLease(q: Query, lease: Lease): Promise<void> {
  if (q.leases !== null) {
    if (!q.leases.holds(lease)) throw new LeaseLost(lease.lane);
    return;
  }
  await q.writeOne(
    () => new LeaseLost(lease.lane),
    "SELECT 1 FROM lanes WHERE id = $1 AND token = $2 AND holder IS NOT NULL FOR NO KEY UPDATE",
    lease.lane,
    lease.token,
  );
}

/** Abandons the work on the lane without an outcome. When the lease expires, any process may claim the
 *  lane, including this one. */
export async function abandonLane(q: Query, lease: Lease): Promise<void> {
  if (q.leases !== null) return q.leases.abandon(q, lease);
  await q.write("UPDATE lanes SET holder = NULL WHERE id = $1 AND token = $2", lease.lane, lease.token);
}

/** Releases the lane; it is due when its head is. Throws LeaseLost. Call with the lane's row locked, by
 *  `guardLease` or by a claim in the same transaction. PostgreSQL may find out after the commit that it is due. */
export const releaseLane = (q: Query, lease: Lease, direction: Direction): Promise<void> =>
  release(q, lease, direction, (wait) => noteDue(q, itemTable[direction], lease.channel, wait));

/** Releases a lane that this transaction has claimed, because its head cannot start now. Its other claims do not try again. */
export const returnLane = (q: Query, lease: Lease, direction: Direction): Promise<void> =>
  release(q, lease, direction, (wait) => void (wait > 0 && q.waits.add(wait)));

/** `note` gets the milliseconds until the lane is due, on PostgreSQL. */
async function release(q: Query, lease: Lease, direction: Direction, note: (wait: number) => void): Promise<void> {
  if (q.leases !== null) {
    if (!q.leases.holds(lease)) throw new LeaseLost(lease.lane);
    q.leases.release(q, lease.lane);
    return refreshLane(q, lease.conversation, direction);
  }
  await q.defer<{ wait: number | null }>(
    {
      otherwise: () => new LeaseLost(lease.lane),
      use: ([row]) => {
        if (row && row.wait !== null) note(row.wait);
      },
    },
    statements[direction].release,
    lease.conversation,
    lease.lane,
    lease.token,
  );
}

/** Bounds the memory for lanes of a channel that claims nothing. */
const mostAnnounced = 1000;

interface HeldLease {
  readonly channel: string;
  /** Null after the holder gave up without an outcome. */
  readonly holder: string | null;
  readonly token: number;
  /** Epoch milliseconds. */
  readonly until: number;
}

/** The leases of a store that one process owns (SQLite), by lane, and the lanes that have become due. All of them end with the process: work that a crash
 *  interrupted is recognized by the state of its turn or draft. Every change reverts with its transaction (`Query.onRollback`). */
export class LaneLeases {
  readonly #entries = new Map<string, HeldLease>();
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

  /** Moves the ends of the leases that are in the future by `ms` milliseconds towards now: the clock went back. */
  hasten(q: Query, ms: number): void {
    for (const [lane, entry] of this.#entries)
      if (entry.until > this.#now()) this.#set(q, lane, { ...entry, until: entry.until - ms });
  }

  /** Ends all leases. */
  clear(): void {
    this.#entries.clear();
    this.#channels.clear();
    this.#announced.clear();
  }
}
