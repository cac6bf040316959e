// Lanes: one direction of one conversation, processed strictly in order by the lease holder. Claiming a
// lease issues a new fencing token, and every later write checks the token. A holder whose lease was
// taken over cannot write. On PostgreSQL leases are columns of `lanes`; on SQLite they are in memory
// (`Query.leases`, sqlite/lane-leases.ts), because one process owns the store.

import { noteDue, type Query } from "./driver.ts";
import { allLanes, type Direction, exemptLanes, itemTable, listedLanes } from "./due.ts";

export interface Lease {
  readonly lane: string;
  readonly conversation: string;
  readonly channel: string;
  readonly token: number;
  /** Outbound: the channel address that sends the conversation's drafts; "" for the default address. */
  readonly sender: string;
}

/** Lanes that may not be leased: those of some senders, or all except those of live calls. */
export interface ClosedLanes {
  readonly all: boolean;
  readonly senders: readonly string[];
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
    release: `UPDATE lanes SET holder = NULL, lease_until = 0, due_at = ${headDue}
     WHERE id = $2 AND token = $3 RETURNING due_at - now_ms() AS wait`,
  };
};
const statements = { in: statementsOf("in"), out: statementsOf("out") } as const;

/** Returns the next sequence number of the lane. */
export async function nextSeq(q: Query, conversation: string, direction: Direction): Promise<number> {
  const lane = laneId(conversation, direction);
  const taken = "UPDATE lanes SET next_seq = next_seq + 1 WHERE id = $1 RETURNING next_seq - 1 AS seq";
  const row = await q.one<{ seq: number }>(taken, lane);
  if (!row) throw new Error(`taking a number in lane ${lane}: there is no such lane`);
  return row.seq;
}

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
  if (!row) throw new Error(`taking a number in lane ${lane}: there is no such lane`);
  const { wait } = row;
  await insert(row.seq);
  if (wait === null) await refreshLane(q, conversation, direction);
  else noteDueLane(q, direction, { ...row, lane, wait });
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

/** Locks the lane's row and waits for a concurrent writer. Call before changing an item without a lease
 *  (delivery receipts, operator commands). Otherwise a stale head could overwrite the due time of a
 *  concurrent commit, and the lane would never become due again. SQLite has one writer and needs no
 *  lock. */
export async function lockLane(q: Query, conversation: string, direction: Direction): Promise<void> {
  if (q.leases) return;
  const lane = laneId(conversation, direction);
  await q.write("SELECT 1 FROM lanes WHERE id = $1 FOR NO KEY UPDATE", lane);
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
  const row = await q.one<{ channel: string; wait: number | null }>(
    statements[direction].refresh,
    conversation,
    lane,
  );
  if (row && row.wait !== null) noteDueLane(q, direction, { ...row, lane, wait: row.wait });
}

/** Which lanes are leased: at most `limit` due ones of the channel, for `holder`. */
export interface Claim {
  readonly channel: string;
  readonly holder: string;
  readonly leaseMs: number;
  readonly limit: number;
  /** Default: none. */
  readonly closed?: ClosedLanes;
  /** SQLite reads only the lanes that became due since the last such claim, where these are known (`LaneLeases`). For
   *  claims that follow `findDue`. */
  readonly announced?: boolean;
}

/** A leased lane with its head; null when it has none. */
export interface Held<T> {
  readonly lease: Lease;
  readonly head: T | null;
}

const nothingClosed: ClosedLanes = { all: false, senders: [] };

/** Claims of the lanes of one direction, with what they read of the head of each (`turns` or `drafts`). */
export class LaneHeads<T extends { readonly conversation: string }> {
  readonly #direction: Direction;
  readonly #columns: string;
  /** Joins each lane with its head: the open item with the lowest number. */
  readonly #joins: string;
  /** The statement of a claim without closed lanes. */
  readonly #usual: { readonly sqlite: string; readonly postgres: string };
  /** SQL for SQLite: $4 is the list of lanes to claim. */
  readonly #listed: string;

  /** `columns` are those of the head and of further tables that `joins` adds. */
  constructor(direction: Direction, columns: string, joins = "") {
    const items = itemTable[direction];
    this.#direction = direction;
    this.#columns = columns;
    this.#joins = `JOIN ${items} ON ${items}.conversation = lanes.conversation AND ${items}.open = 1 AND ${items}.seq = (
       SELECT MIN(seq) FROM ${items} head WHERE head.conversation = lanes.conversation AND head.open = 1) ${joins}`;
    this.#usual = { sqlite: this.#reading(nothingClosed), postgres: this.#leasing(nothingClosed) };
    this.#listed = this.#heads(
      `${listedLanes(direction, "$1", "$4")} AND (lanes.node IS NULL OR lanes.node = $2)`,
      "$3",
    );
  }

  /** Leases due lanes of a channel, longest due first, and reads their heads. Lanes pinned to another node are
   *  skipped. Lanes that `holder` itself still holds are skipped even when that lease has expired by the
   *  clock, because the work continues after a clock step. PostgreSQL reads the heads in a later statement:
   *  one that claims and reads at once sees stale heads under READ COMMITTED. */
  async lease(q: Query, claim: Claim): Promise<readonly Held<T>[]> {
    const { leases: memory } = q;
    const { channel, holder, leaseMs, limit, closed = nothingClosed } = claim;
    const isUsual = !closed.all && closed.senders.length === 0;
    if (memory === null) {
      const sql = isUsual ? this.#usual.postgres : this.#leasing(closed);
      return this.#withHeads(q, await q.all<Lease>(sql, channel, holder, limit, leaseMs, ...closed.senders));
    }
    const work = itemTable[this.#direction];
    const follows = isUsual && claim.announced === true;
    const lanes = follows ? memory.announced(work, channel, holder) : null;
    const sql = lanes ? this.#listed : isUsual ? this.#usual.sqlite : this.#reading(closed);
    const list = JSON.stringify(lanes ?? memory.busy(holder, channel));
    const rows = await q.all<LaneColumns & T>(sql, channel, holder, limit, list, ...closed.senders);
    if (follows) memory.claimed(q, work, channel, rows.length < limit);
    return rows.map((row) => {
      const { lane, lane_conversation: conversation, lane_sender: sender } = row;
      const token = memory.take(q, lane, channel, holder, leaseMs);
      const lease = { lane, conversation, channel, token, sender };
      return { lease, head: row.conversation === null ? null : row };
    });
  }

  /** SQL for SQLite: $4 is the list of lanes that are leased in memory. */
  #reading(closed: ClosedLanes): string {
    const some = (which: typeof allLanes) => {
      const { condition, limit } = which(this.#direction, "$1");
      const free = "lanes.id NOT IN (SELECT value FROM json_each($4))";
      const where = `${condition} AND (lanes.node IS NULL OR lanes.node = $2) AND ${free}${openOnly(closed, 5)}`;
      return `SELECT * FROM (${this.#heads(where, limit("$3"))})`;
    };
    return `${some(allLanes)} UNION ALL ${some(exemptLanes)}`;
  }

  #heads(where: string, limit: string): string {
    return `SELECT lanes.id AS lane, lanes.conversation AS lane_conversation, lanes.sender AS lane_sender, ${this.#columns}
     FROM lanes LEFT ${this.#joins}
     WHERE ${where} ORDER BY lanes.due_at LIMIT ${limit}`;
  }

  /** SQL for PostgreSQL: $4 is the length of the leases in milliseconds. */
  #leasing(closed: ClosedLanes): string {
    const some = (which: typeof allLanes) => `AS MATERIALIZED (
       SELECT id FROM lanes
       WHERE ${which(this.#direction, "$1").condition} AND lease_until <= now_ms()
         AND (holder IS NULL OR holder <> $2) AND (node IS NULL OR node = $2)${openOnly(closed, 5)}
       ORDER BY due_at LIMIT ${which(this.#direction, "$1").limit("$3")}
       FOR UPDATE SKIP LOCKED
     )`;
    return `WITH free ${some(allLanes)}, exempted ${some(exemptLanes)}
     UPDATE lanes SET holder = $2, token = token + 1, lease_until = now_ms() + $4
     WHERE id IN (SELECT id FROM free UNION ALL SELECT id FROM exempted) RETURNING id AS lane, conversation, channel, token, sender`;
  }

  async #withHeads(q: Query, leases: readonly Lease[]): Promise<readonly Held<T>[]> {
    if (leases.length === 0) return [];
    const rows = await q.all<T>(
      `SELECT ${this.#columns} FROM lanes ${this.#joins}
     WHERE lanes.id = ANY (SELECT json_array_elements_text($1::json))`,
      JSON.stringify(leases.map(({ lane }) => lane)),
    );
    const heads = new Map(rows.map((row) => [row.conversation, row]));
    return leases.map((lease) => ({ lease, head: heads.get(lease.conversation) ?? null }));
  }
}

interface LaneColumns {
  readonly lane: string;
  readonly lane_conversation: string;
  readonly lane_sender: string;
}

/** Returns a condition on lanes; its parameters start at $`first`. Lanes of live calls are pinned to a
 *  node and stay available, because pauses concern the placing of calls and the sending of texts only. */
function openOnly({ all, senders }: ClosedLanes, first: number): string {
  if (all) return " AND lanes.node IS NOT NULL";
  if (senders.length === 0) return "";
  return ` AND (lanes.node IS NOT NULL OR lanes.sender NOT IN (${senders.map((_, at) => `$${at + first}`).join(", ")}))`;
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
 *  `guardLease` or by a claim in the same transaction. */
export async function releaseLane(q: Query, lease: Lease, direction: Direction): Promise<void> {
  if (q.leases !== null) {
    if (!q.leases.holds(lease)) throw new LeaseLost(lease.lane);
    q.leases.release(q, lease.lane);
    return refreshLane(q, lease.conversation, direction);
  }
  const lane = await q.one<{ wait: number | null }>(
    statements[direction].release,
    lease.conversation,
    lease.lane,
    lease.token,
  );
  if (!lane) throw new LeaseLost(lease.lane);
  if (lane.wait !== null) noteDue(q, itemTable[direction], lease.channel, lane.wait);
}
