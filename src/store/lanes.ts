// Lanes: one direction of one conversation, processed strictly in order by the lease holder. Claiming a
// lease issues a new fencing token, and every later write checks the token. A holder whose lease was
// taken over cannot write. On PostgreSQL leases are columns of `lanes`; on SQLite they are in memory
// (`Query.leases`), because one process owns the store.

import { type Query, touch } from "./driver.ts";
import { isPaused } from "./tables/pauses.ts";

export type Direction = "in" | "out";

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

const itemTable = { in: "turns", out: "drafts" } as const;

/** The key of leases in memory by direction and channel. */
export const leaseGroup = (direction: Direction, channel: string): string => `${direction} ${channel}`;
const groupOf = ({ lane, channel }: Lease): string =>
  leaseGroup(lane.endsWith("/in") ? "in" : "out", channel);

/** Returns the next sequence number of the lane. */
export async function nextSeq(q: Query, conversation: string, direction: Direction): Promise<number> {
  const row = await q.one<{ seq: number }>(
    "UPDATE lanes SET next_seq = next_seq + 1 WHERE id = $1 RETURNING next_seq - 1 AS seq",
    `${conversation}/${direction}`,
  );
  if (!row) throw new Error(`taking a number in lane ${conversation}/${direction}: there is no such lane`);
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
  const row = await q.one<{ seq: number; channel: string; wait: number | null }>(
    `UPDATE lanes SET next_seq = next_seq + 1, due_at = CASE
       WHEN due_at IS NULL AND NOT EXISTS (SELECT 1 FROM ${itemTable[direction]} WHERE conversation = $2 AND open = 1)
       THEN CASE WHEN $3 > now_ms() THEN $3 ELSE now_ms() END ELSE due_at END
     WHERE id = $1 RETURNING next_seq - 1 AS seq, channel, due_at - now_ms() AS wait`,
    `${conversation}/${direction}`,
    conversation,
    dueAt,
  );
  if (!row) throw new Error(`taking a number in lane ${conversation}/${direction}: there is no such lane`);
  await insert(row.seq);
  if (row.wait === null) await refreshLane(q, conversation, direction);
  else noteDue(q, direction, row.channel, row.wait);
}

/** Locks the lane's row and waits for a concurrent writer. Call before changing an item without a lease
 *  (delivery receipts, operator commands). Otherwise a stale head could overwrite the due time of a
 *  concurrent commit, and the lane would never become due again. SQLite has one writer and needs no
 *  lock. */
export async function lockLane(q: Query, conversation: string, direction: Direction): Promise<void> {
  if (q.leases) return;
  await q.write("UPDATE lanes SET lease_until = lease_until WHERE id = $1", `${conversation}/${direction}`);
}

/** Like `lockLane` without waiting. Returns false when another transaction is writing in the lane. */
export async function tryLane(q: Query, conversation: string, direction: Direction): Promise<boolean> {
  if (q.leases) return true;
  const row = await q.one(
    "SELECT id FROM lanes WHERE id = $1 FOR UPDATE SKIP LOCKED",
    `${conversation}/${direction}`,
  );
  return row !== undefined;
}

/** SQL for the due time of the lane's head; $1 is the conversation. */
const headDue = (direction: Direction): string => `(
       SELECT CASE WHEN state IN ('held', 'failed') THEN NULL ELSE due_at END FROM ${itemTable[direction]}
       WHERE conversation = $1 AND open = 1 ORDER BY seq LIMIT 1
     )`;

/** Sets the lane's due time to that of its head. Call after every change of an item, with the lane's row
 *  locked (`guardLease`, `nextSeq`, `lockLane`). */
export async function refreshLane(q: Query, conversation: string, direction: Direction): Promise<void> {
  const lane = await q.one<{ channel: string; wait: number | null }>(
    `UPDATE lanes SET due_at = ${headDue(direction)} WHERE id = $2 RETURNING channel, due_at - now_ms() AS wait`,
    conversation,
    `${conversation}/${direction}`,
  );
  if (lane) noteDue(q, direction, lane.channel, lane.wait);
}

/** Announces that the lane is due in `wait` milliseconds; null: it is not due. */
export function noteDue(q: Query, direction: Direction, channel: string, wait: number | null): void {
  if (wait === null) return;
  if (wait <= 0) touch(q, itemTable[direction], channel);
  else q.waits.add(wait);
}

interface DueLane {
  readonly lane: string;
  readonly lane_conversation: string;
  readonly lane_sender: string;
}

/** What a claim reads with each lane. */
export interface HeadColumns {
  /** Columns of the lane's head (`turns` or `drafts`) and of the joined tables. */
  readonly columns: string;
  /** Further joins; `lanes` and the head's table are there. */
  readonly joins?: string;
}

/** SQL that joins each lane with its head: the open item with the lowest number. */
const headJoin = (direction: Direction): string => {
  const table = itemTable[direction];
  return `JOIN ${table} ON ${table}.conversation = lanes.conversation AND ${table}.open = 1 AND ${table}.seq = (
       SELECT MIN(seq) FROM ${table} head WHERE head.conversation = lanes.conversation AND head.open = 1)`;
};

/** Returns up to `limit` due lanes of a channel that are free in memory, longest due first, with their
 *  heads. */
async function freeLanes<T>(
  q: Query,
  direction: Direction,
  { channel, holder, limit, closed = nothingClosed }: Omit<Claim, "leaseMs">,
  { columns, joins = "" }: HeadColumns,
): Promise<(DueLane & T)[]> {
  const { leases } = q;
  if (leases === null) throw new Error("the leases of this store are rows");
  const busy = leases.busy(leaseGroup(direction, channel), holder);
  const some = (which: Which) => `SELECT * FROM (
     SELECT lanes.id AS lane, lanes.conversation AS lane_conversation, lanes.sender AS lane_sender, ${columns}
     FROM lanes LEFT ${headJoin(direction)} ${joins}
     WHERE ${which(direction, "$2").condition} AND (lanes.node IS NULL OR lanes.node = $3)
       ${busy.length > 0 ? "AND lanes.id NOT IN (SELECT value FROM json_each($5))" : ""}${openOnly(closed, 6)}
       ORDER BY lanes.due_at LIMIT ${which(direction, "$2").limit("$4")})`;
  return q.all<DueLane & T>(
    `${some(allLanes)} UNION ALL ${some(exemptLanes)}`,
    direction,
    channel,
    holder,
    limit,
    JSON.stringify(busy),
    ...closed.senders,
  );
}

const nothingClosed: ClosedLanes = { all: false, senders: [] };
const noHead: HeadColumns = { columns: "lanes.conversation" };

/** Returns channels with a due lane that is not leased and not pinned to another node. Iterates over the
 *  channels through the index; a plain DISTINCT would read every due lane of a backlog at every commit. */
export async function channelsWithDueLanes(q: Query, direction: Direction, node: string): Promise<string[]> {
  const due = (which: Which) => `EXISTS (
       SELECT 1 FROM lanes WHERE ${which(direction, "found.channel").condition} AND (node IS NULL OR node = $2)
         AND lease_until <= now_ms() -- only: postgres
     )`;
  const rows = await q.all<{ channel: string }>(
    `WITH RECURSIVE found (channel) AS (
       SELECT MIN(channel) FROM lanes WHERE direction = $1 AND due_at IS NOT NULL
       UNION ALL
       SELECT (SELECT MIN(channel) FROM lanes WHERE direction = $1 AND due_at IS NOT NULL AND channel > found.channel)
       FROM found WHERE found.channel IS NOT NULL
     )
     SELECT channel FROM found WHERE channel IS NOT NULL
       AND CASE WHEN ${isPaused("found.channel")} THEN ${due(exemptLanes)} ELSE ${due(allLanes)} END`,
    direction,
    node,
  );
  const channels = rows.map((row) => row.channel);
  if (q.leases === null) return channels;
  const free: string[] = [];
  for (const channel of channels)
    if ((await freeLanes(q, direction, { channel, holder: node, limit: 1 }, noHead)).length > 0)
      free.push(channel);
  return free;
}

/** Which lanes are leased: at most `limit` due ones of the channel, for `holder`. */
export interface Claim {
  readonly channel: string;
  readonly holder: string;
  readonly leaseMs: number;
  readonly limit: number;
  /** Default: none. */
  readonly closed?: ClosedLanes;
}

/** A leased lane with its head; null when it has none. */
export interface Held<T> {
  readonly lease: Lease;
  readonly head: T | null;
}

/** Leases due lanes of a channel, longest due first, and reads their heads. Lanes pinned to another node are
 *  skipped. Lanes that `holder` itself still holds are skipped even when that lease has expired by the
 *  clock, because the work continues after a clock step. PostgreSQL reads the heads in a later statement:
 *  one that claims and reads at once sees stale heads under READ COMMITTED. */
export async function leaseHeads<T extends { readonly conversation: string }>(
  q: Query,
  direction: Direction,
  claim: Claim,
  head: HeadColumns,
): Promise<readonly Held<T>[]> {
  const { leases: memory } = q;
  if (memory !== null) {
    const { channel, holder, leaseMs } = claim;
    const rows = await freeLanes<T>(q, direction, claim, head);
    return rows.map((row) => {
      const { lane, lane_conversation: conversation, lane_sender: sender } = row;
      const token = memory.take(q, lane, leaseGroup(direction, channel), holder, leaseMs);
      const lease = { lane, conversation, channel, token, sender };
      return { lease, head: row.conversation === null ? null : row };
    });
  }
  const leases = await leaseRows(q, direction, claim);
  if (leases.length === 0) return [];
  const rows = await q.all<T>(
    `SELECT ${head.columns} FROM lanes ${headJoin(direction)} ${head.joins ?? ""}
     WHERE lanes.id = ANY (SELECT json_array_elements_text($1::json))`,
    JSON.stringify(leases.map(({ lane }) => lane)),
  );
  const heads = new Map(rows.map((row) => [row.conversation, row]));
  return leases.map((lease) => ({ lease, head: heads.get(lease.conversation) ?? null }));
}

async function leaseRows(
  q: Query,
  direction: Direction,
  { channel, holder, leaseMs, limit, closed = nothingClosed }: Claim,
): Promise<Lease[]> {
  const some = (which: Which) => `AS MATERIALIZED (
       SELECT id FROM lanes
       WHERE ${which(direction, "$2").condition} AND lease_until <= now_ms()
         AND (holder IS NULL OR holder <> $3) AND (node IS NULL OR node = $3)${openOnly(closed, 6)}
       ORDER BY due_at LIMIT ${which(direction, "$2").limit("$5")}
       FOR UPDATE SKIP LOCKED
     )`;
  return q.all<Lease>(
    `WITH free ${some(allLanes)}, exempted ${some(exemptLanes)}
     UPDATE lanes SET holder = $3, token = token + 1, lease_until = now_ms() + $4
     WHERE id IN (SELECT id FROM free UNION ALL SELECT id FROM exempted) RETURNING id AS lane, conversation, channel, token, sender`,
    direction,
    channel,
    holder,
    leaseMs,
    limit,
    ...closed.senders,
  );
}

/** A choice of the due lanes of a channel: the condition on `lanes`, and their number, which is 0 while the choice does not
 *  apply. $1 is the direction; `channel`: an SQL expression. */
type Which = (
  direction: Direction,
  channel: string,
) => { readonly condition: string; readonly limit: (most: string) => string };

/** All due lanes, unless the channel is paused. */
const allLanes: Which = (_direction, channel) => ({
  condition: `lanes.direction = $1 AND lanes.channel = ${channel} AND lanes.due_at <= now_ms()`,
  limit: (most) => `CASE WHEN ${isPaused(channel)} THEN 0 ELSE ${most} END`,
});

/** The lanes of a paused channel whose work may start. A new question and an unsent draft to a customer wait, unless they
 *  belong to a call (`session`). Lookups of an earlier attempt and notifications of responders do not. The attempts check
 *  the same (`recordAsking`, `recordSending`): a lane whose attempt is refused would be claimed over and over. The lanes
 *  are found by the items that do not wait, so the cost does not grow with what waits. */
const exemptLanes: Which = (direction, channel) => {
  const table = itemTable[direction];
  const lane = `SELECT conversation || '/${direction}' FROM ${table} WHERE ${table}.channel = ${channel} AND open = 1`;
  return {
    // The sum keeps the databases from searching the index of due lanes.
    condition: `lanes.due_at + 0 <= now_ms() AND lanes.id IN (${lane} AND ${begun[direction]} UNION ALL ${lane} AND ${exempt[direction]}) AND (
       SELECT CASE WHEN ${waits[direction]} THEN 0 ELSE 1 END FROM ${table} head
       WHERE head.conversation = lanes.conversation AND head.open = 1 ORDER BY head.seq LIMIT 1) = 1`,
    limit: (most) => `CASE WHEN ${isPaused(channel)} THEN ${most} ELSE 0 END`,
  };
};
const waits = {
  in: "head.state = 'waiting' AND head.kind = 'question' AND head.session IS NULL",
  out: "head.state = 'queued' AND head.internal = 0 AND head.session IS NULL",
} as const;
const begun = { in: "state IN ('asking', 'unknown')", out: "state IN ('sending', 'unknown')" } as const;
/** The conditions of the indexes `turns_exempt` and `drafts_exempt`. */
const exempt = {
  in: "(kind <> 'question' OR session IS NOT NULL)",
  out: "(internal = 1 OR session IS NOT NULL)",
} as const;

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
    if (!q.leases.holds(lease.lane, lease.token)) throw new LeaseLost(lease.lane);
    return;
  }
  await q.writeOne(
    () => new LeaseLost(lease.lane),
    "UPDATE lanes SET lease_until = lease_until WHERE id = $1 AND token = $2 AND holder IS NOT NULL",
    lease.lane,
    lease.token,
  );
}

/** Abandons the work on the lane without an outcome. When the lease expires, any process may claim the
 *  lane, including this one. */
export async function abandonLane(q: Query, lease: Lease): Promise<void> {
  if (q.leases !== null) return q.leases.abandon(q, lease.lane, groupOf(lease), lease.token);
  await q.write("UPDATE lanes SET holder = NULL WHERE id = $1 AND token = $2", lease.lane, lease.token);
}

/** Releases the lane; it is due when its head is. Throws LeaseLost. Call with the lane's row locked, by
 *  `guardLease` or by a claim in the same transaction. */
export async function releaseLane(q: Query, lease: Lease, direction: Direction): Promise<void> {
  if (q.leases !== null) {
    await guardLease(q, lease);
    q.leases.release(q, lease.lane, groupOf(lease));
    return refreshLane(q, lease.conversation, direction);
  }
  const lane = await q.one<{ wait: number | null }>(
    `UPDATE lanes SET holder = NULL, lease_until = 0, due_at = ${headDue(direction)}
     WHERE id = $2 AND token = $3 RETURNING due_at - now_ms() AS wait`,
    lease.conversation,
    lease.lane,
    lease.token,
  );
  if (!lane) throw new LeaseLost(lease.lane);
  noteDue(q, direction, lease.channel, lane.wait);
}
