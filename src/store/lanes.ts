// Lanes: one direction of one conversation, worked strictly in order by whoever holds the lease. Taking a lease
// raises its token; every later write is guarded by it, so a holder that was presumed dead writes nothing.

import type { Query } from "./driver.ts";

export type Direction = "in" | "out";

export interface Lease {
  readonly lane: string;
  readonly conversation: string;
  readonly channel: string;
  readonly token: number;
  /** Outbound: the address of ours that the conversation's drafts go out from; "" for the channel's default. */
  readonly sender: string;
}

/** What may not be leased: the lanes of some senders, or all but those of live calls. */
export interface Closed {
  readonly all: boolean;
  readonly senders: readonly string[];
}

/** The lane was taken over meanwhile: whatever was about to be written belongs to the new holder. */
export class LeaseLost extends Error {
  constructor(lane: string) {
    super(`writing for lane ${lane}: its lease was taken over`);
  }
}

/** What is due later than this is left to the sweep: a second more or less is nothing to it. */
const soonMs = 4000;

const itemTable = { in: "turns", out: "drafts" } as const;

/** The lane's next sequence number. */
export async function nextSeq(q: Query, conversation: string, direction: Direction): Promise<number> {
  const row = await q.one<{ seq: number }>(
    "UPDATE lanes SET next_seq = next_seq + 1 WHERE id = $1 RETURNING next_seq - 1 AS seq",
    `${conversation}/${direction}`,
  );
  if (!row) throw new Error(`taking a number in lane ${conversation}/${direction}: there is no such lane`);
  return row.seq;
}

/** Waits for whoever is writing in the lane. Before any change of an item by somebody who holds no lease (a receipt, the
 *  operator): else a head read before a concurrent commit would be written after it, and the lane would sleep for ever. */
export async function lockLane(q: Query, conversation: string, direction: Direction): Promise<void> {
  await q.run("UPDATE lanes SET lease_until = lease_until WHERE id = $1", `${conversation}/${direction}`);
}

/** The same without waiting: false when somebody is writing in the lane. */
export async function tryLane(q: Query, conversation: string, direction: Direction): Promise<boolean> {
  const row = await q.one(
    `SELECT id FROM lanes WHERE id = $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    `${conversation}/${direction}`,
  );
  return row !== undefined;
}

/** When the lane's head is due; $1 is the conversation. */
const headDue = (direction: Direction): string => `(
       SELECT CASE WHEN state IN ('held', 'failed') THEN NULL ELSE due_at END FROM ${itemTable[direction]}
       WHERE conversation = $1 AND open = 1 ORDER BY seq LIMIT 1
     )`;

/** The lane is due when its head is. Call after every change of an item, holding the lane's row (a lease's guard,
 *  nextSeq, lockLane). */
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

/** Channels with a due lane nobody holds, and which is not pinned to another node. Steps from channel to channel through the index: a plain DISTINCT would read
 *  every due lane of a backlog, at every commit. */
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

/** Leases up to `limit` due lanes of a channel, longest due first; of those pinned to a node, only its own. Never one that `holder` itself still holds, even when
 *  the clock says that lease is over: after a jump of the clock it is still working. Read the head in a later statement:
 *  one that claims and reads at once sees stale heads under READ COMMITTED. */
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

/** A condition on lanes; its parameters begin at $6. What is said in a call (its lanes are pinned to a node) is not
 *  concerned by what keeps the channel from placing calls or sending texts. */
function openOnly({ all, senders }: Closed): string {
  if (all) return " AND node IS NOT NULL";
  if (senders.length === 0) return "";
  return ` AND (node IS NOT NULL OR sender NOT IN (${senders.map((_, at) => `$${at + 6}`).join(", ")}))`;
}

/** Throws LeaseLost unless the lease is still ours. First statement of every transition; it also makes a transition
 *  safe to repeat, for the first one that was committed has given the lane back. */
export async function guardLease(q: Query, lease: Lease): Promise<void> {
  const changed = await q.run(
    "UPDATE lanes SET lease_until = lease_until WHERE id = $1 AND token = $2 AND holder IS NOT NULL",
    lease.lane,
    lease.token,
  );
  if (changed !== 1) throw new LeaseLost(lease.lane);
}

/** The work on the lane ended without an outcome: when the lease is over, anybody may take the lane, the same process
 *  included. */
export async function abandonLane(q: Query, lease: Lease): Promise<void> {
  await q.run("UPDATE lanes SET holder = NULL WHERE id = $1 AND token = $2", lease.lane, lease.token);
}

/** Gives the lane back, due when its head is. Throws LeaseLost. Call holding the lane's row, by the lease's guard or by
 *  having taken it in this transaction. */
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

/** Ends every lease and every claim: at start on a store that only one process may use. */
export async function endLeases(q: Query): Promise<void> {
  await q.run("UPDATE lanes SET holder = NULL, token = token + 1, lease_until = 0 WHERE lease_until > 0");
  await q.run("UPDATE leases SET holder = NULL, token = token + 1, until = 0 WHERE until > 0");
  await q.run(
    "UPDATE attachments SET holder = NULL, due_at = now_ms() WHERE due_at IS NOT NULL AND holder IS NOT NULL",
  );
  await q.run("UPDATE pauses SET until = now_ms(), probe = NULL WHERE probe IS NOT NULL");
}
