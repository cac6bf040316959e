// Lanes: one direction of one conversation, processed strictly in order by the lease holder. Claiming a
// lease increments its fencing token, and every later write checks the token. A holder whose lease was
// taken over cannot write.

import type { Query } from "./driver.ts";

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
export interface Closed {
  readonly all: boolean;
  readonly senders: readonly string[];
}

/** The lease was taken over by another holder; the pending write is rejected. */
export class LeaseLost extends Error {
  constructor(lane: string) {
    super(`writing for lane ${lane}: its lease was taken over`);
  }
}

/** Work due later than this is left to the sweep, because a delay of a second is insignificant for it.
 *  Milliseconds. */
const soonMs = 4000;

const itemTable = { in: "turns", out: "drafts" } as const;

/** Returns the next sequence number of the lane. */
export async function nextSeq(q: Query, conversation: string, direction: Direction): Promise<number> {
  const row = await q.one<{ seq: number }>(
    "UPDATE lanes SET next_seq = next_seq + 1 WHERE id = $1 RETURNING next_seq - 1 AS seq",
    `${conversation}/${direction}`,
  );
  if (!row) throw new Error(`taking a number in lane ${conversation}/${direction}: there is no such lane`);
  return row.seq;
}

/** Locks the lane's row and waits for a concurrent writer. Call before changing an item without a lease
 *  (delivery receipts, operator commands). Otherwise a stale head could overwrite the due time of a
 *  concurrent commit, and the lane would never become due again. */
export async function lockLane(q: Query, conversation: string, direction: Direction): Promise<void> {
  await q.run("UPDATE lanes SET lease_until = lease_until WHERE id = $1", `${conversation}/${direction}`);
}

/** Like `lockLane` without waiting. Returns false when another transaction is writing in the lane. */
export async function tryLane(q: Query, conversation: string, direction: Direction): Promise<boolean> {
  const row = await q.one(
    `SELECT id FROM lanes WHERE id = $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
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
  const lane = await q.one<{ wait: number | null }>(
    `UPDATE lanes SET due_at = ${headDue(direction)} WHERE id = $2 RETURNING due_at - now_ms() AS wait`,
    conversation,
    `${conversation}/${direction}`,
  );
  if (lane) noteDue(q, direction, lane.wait);
}

function noteDue(q: Query, direction: Direction, wait: number | null): void {
  if (wait === null) return;
  q.touched.add(itemTable[direction]);
  if (wait > 0 && wait < soonMs) q.waits.add(wait);
}

/** Returns channels with a due lane that is not leased and not pinned to another node. Iterates over the
 *  channels through the index; a plain DISTINCT would read every due lane of a backlog at every commit. */
export async function channelsWithDueLanes(q: Query, direction: Direction, node: string): Promise<string[]> {
  const rows = await q.all<{ channel: string }>(
    `WITH RECURSIVE found (channel) AS (
       SELECT MIN(channel) FROM lanes WHERE direction = $1 AND due_at IS NOT NULL
       UNION ALL
       SELECT (SELECT MIN(channel) FROM lanes WHERE direction = $1 AND due_at IS NOT NULL AND channel > found.channel)
       FROM found WHERE found.channel IS NOT NULL
     )
     SELECT channel FROM found WHERE channel IS NOT NULL AND EXISTS (
       SELECT 1 FROM lanes WHERE direction = $1 AND lanes.channel = found.channel
         AND due_at <= now_ms() AND lease_until <= now_ms() AND (node IS NULL OR node = $2)
     )`,
    direction,
    node,
  );
  return rows.map((row) => row.channel);
}

/** Leases up to `limit` due lanes of a channel, longest due first. Lanes pinned to another node are
 *  skipped. Lanes that `holder` itself still holds are skipped even when that lease has expired by the
 *  clock, because the work continues after a clock step. Read the head in a later statement: a statement
 *  that claims and reads at once sees stale heads under READ COMMITTED. */
export async function leaseLanes(
  q: Query,
  direction: Direction,
  channel: string,
  holder: string,
  leaseMs: number,
  limit: number,
  closed: Closed = { all: false, senders: [] },
): Promise<Lease[]> {
  const rows = await q.all<{ id: string; conversation: string; token: number; sender: string }>(
    `WITH picked AS MATERIALIZED (
       SELECT id FROM lanes
       WHERE direction = $1 AND channel = $2 AND due_at <= now_ms() AND lease_until <= now_ms()
         AND (holder IS NULL OR holder <> $3) AND (node IS NULL OR node = $3)${openOnly(closed)}
       ORDER BY due_at LIMIT $5
       FOR UPDATE SKIP LOCKED -- only: postgres
     )
     UPDATE lanes SET holder = $3, token = token + 1, lease_until = now_ms() + $4
     WHERE id IN (SELECT id FROM picked) RETURNING id, conversation, token, sender`,
    direction,
    channel,
    holder,
    leaseMs,
    limit,
    ...closed.senders,
  );
  return rows.map((row) => ({
    lane: row.id,
    conversation: row.conversation,
    channel,
    token: row.token,
    sender: row.sender,
  }));
}

/** Returns a condition on lanes; its parameters start at $6. Lanes of live calls are pinned to a node
 *  and stay available, because pauses concern the placing of calls and the sending of texts only. */
function openOnly({ all, senders }: Closed): string {
  if (all) return " AND node IS NOT NULL";
  if (senders.length === 0) return "";
  return ` AND (node IS NOT NULL OR sender NOT IN (${senders.map((_, at) => `$${at + 6}`).join(", ")}))`;
}

/** Throws LeaseLost unless the lease is still valid. First statement of every transition. It also makes
 *  a transition safe to retry, because the committed first run has released the lane. */
export async function guardLease(q: Query, lease: Lease): Promise<void> {
  const changed = await q.run(
    "UPDATE lanes SET lease_until = lease_until WHERE id = $1 AND token = $2 AND holder IS NOT NULL",
    lease.lane,
    lease.token,
  );
  if (changed !== 1) throw new LeaseLost(lease.lane);
}

/** Abandons the work on the lane without an outcome. When the lease expires, any process may claim the
 *  lane, including this one. */
export async function abandonLane(q: Query, lease: Lease): Promise<void> {
  await q.run("UPDATE lanes SET holder = NULL WHERE id = $1 AND token = $2", lease.lane, lease.token);
}

/** Releases the lane; it is due when its head is. Throws LeaseLost. Call with the lane's row locked, by
 *  `guardLease` or by a claim in the same transaction. */
export async function releaseLane(q: Query, lease: Lease, direction: Direction): Promise<void> {
  const lane = await q.one<{ wait: number | null }>(
    `UPDATE lanes SET holder = NULL, lease_until = 0, due_at = ${headDue(direction)}
     WHERE id = $2 AND token = $3 RETURNING due_at - now_ms() AS wait`,
    lease.conversation,
    lease.lane,
    lease.token,
  );
  if (!lane) throw new LeaseLost(lease.lane);
  noteDue(q, direction, lane.wait);
}

/** Ends all leases and claims. Called at start on a store that only one process may use. */
export async function endLeases(q: Query): Promise<void> {
  await q.run("UPDATE lanes SET holder = NULL, token = token + 1, lease_until = 0 WHERE lease_until > 0");
  await q.run("UPDATE leases SET holder = NULL, token = token + 1, until = 0 WHERE until > 0");
  await q.run(
    "UPDATE attachments SET holder = NULL, due_at = now_ms() WHERE due_at IS NOT NULL AND holder IS NOT NULL",
  );
  await q.run("UPDATE pauses SET until = now_ms(), probe = NULL WHERE probe IS NOT NULL");
}
