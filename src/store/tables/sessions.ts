// Live sessions (calls): the node that holds the socket, and the state that outlives it.

import type { Query } from "../driver.ts";

export interface SessionRow {
  readonly id: string;
  readonly channel: string;
  readonly conversation: string;
  readonly state: "open" | "lost" | "closed";
  /** The node that holds its socket; no other node sends into it. */
  readonly node: string;
  /** Number of connections so far: above 1 after a resume. */
  readonly openings: number;
  /** Reason of a transfer to a human in progress, or null. */
  readonly handing_over: string | null;
  readonly reason: string | null;
  readonly opened_at: number;
}

export async function readSession(q: Query, channel: string, id: string): Promise<SessionRow | null> {
  const row = await q.one<SessionRow>(
    `SELECT id, channel, conversation, state, node, openings, handing_over, reason, opened_at
     FROM sessions WHERE channel = $1 AND id = $2`,
    channel,
    id,
  );
  return row ?? null;
}

/** Returns the caller, and the external id of the session's newest message that waits for its answer, or
 *  null. */
export async function sessionParty(
  q: Query,
  session: SessionRow,
): Promise<{ readonly person: string; readonly pending: string | null }> {
  const row = await q.one<{ person: string; pending: string | null }>(
    `SELECT person, (
       SELECT events.external_id FROM turns JOIN events ON events.turn = turns.id
       WHERE turns.conversation = conversations.id AND turns.session = $2
         AND (turns.open = 1 OR EXISTS (SELECT 1 FROM drafts JOIN replies ON replies.id = drafts.reply WHERE replies.turn = turns.id AND drafts.open = 1))
       ORDER BY turns.seq DESC, events.id DESC LIMIT 1
     ) AS pending FROM conversations WHERE id = $1`,
    session.conversation,
    session.id,
  );
  return row ?? { person: "", pending: null };
}

/** Records the start of a call. */
export async function insertSession(
  q: Query,
  session: Pick<SessionRow, "channel" | "id" | "conversation" | "node">,
): Promise<void> {
  await q.run(
    `INSERT INTO sessions (channel, id, conversation, state, node, openings, opened_at)
     VALUES ($1, $2, $3, 'open', $4, 1, now_ms())`,
    session.channel,
    session.id,
    session.conversation,
    session.node,
  );
  await pinLanes(q, session.conversation);
}

/** Resumes the session with the agent over a new connection at `node`, also during a transfer to a
 *  human. Work of another node on it is taken over soon. */
export async function resumeSession(q: Query, session: SessionRow, node: string): Promise<void> {
  await q.run(
    `UPDATE sessions SET state = 'open', node = $3, openings = openings + 1, handing_over = NULL, lost_at = NULL,
       closed_at = NULL, reason = NULL
     WHERE channel = $1 AND id = $2`,
    session.channel,
    session.id,
    node,
  );
  await pinLanes(q, session.conversation);
  if (session.node !== node) await hasten(q, session.conversation);
}

/** Reopens a session that was recorded as lost but is still connected at `node`. */
export async function reviveSession(q: Query, session: SessionRow, node: string): Promise<void> {
  await q.run(
    `UPDATE sessions SET state = 'open', node = $3, lost_at = NULL, reason = NULL
     WHERE channel = $1 AND id = $2 AND state = 'lost'`,
    session.channel,
    session.id,
    node,
  );
  await pinLanes(q, session.conversation);
}

/** Records that a transfer to a human is in progress. */
export async function handOver(q: Query, session: SessionRow, reason: string): Promise<void> {
  await q.run(
    "UPDATE sessions SET handing_over = $3 WHERE channel = $1 AND id = $2",
    session.channel,
    session.id,
    reason,
  );
}

/** Marks the session as lost after its connection failed; it may resume. A closed session stays closed. */
export async function loseSession(q: Query, session: SessionRow, reason: string | null): Promise<void> {
  await q.run(
    `UPDATE sessions SET state = 'lost', lost_at = COALESCE(lost_at, now_ms()), reason = $3
     WHERE channel = $1 AND id = $2 AND state <> 'closed'`,
    session.channel,
    session.id,
    reason,
  );
  await pinLanes(q, session.conversation);
}

/** Closes the session. A second report (another callback of the provider) adds missing details. */
export async function closeSession(
  q: Query,
  session: SessionRow,
  end: { readonly reason: string | null; readonly durationMs: number | null },
): Promise<void> {
  await q.run(
    `UPDATE sessions SET state = 'closed', closed_at = COALESCE(closed_at, now_ms()), reason = COALESCE($3, reason),
       duration = COALESCE($4, duration) WHERE channel = $1 AND id = $2`,
    session.channel,
    session.id,
    end.reason,
    end.durationMs === null ? null : Math.round(end.durationMs),
  );
  await pinLanes(q, session.conversation);
}

/** Milliseconds after which a lost session no longer reserves its conversation. */
const comebackMs = 120_000;

/** Returns the newest conversation with that person that has no live session. */
export async function freeConversation(q: Query, channel: string, person: string): Promise<string | null> {
  const row = await q.one<{ id: string }>(
    `SELECT id FROM conversations WHERE channel = $1 AND person = $2
       AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.conversation = conversations.id
         AND (state = 'open' OR (state = 'lost' AND lost_at > now_ms() - $3)))
     ORDER BY id DESC LIMIT 1`,
    channel,
    person,
    comebackMs,
  );
  return row?.id ?? null;
}

/** Pins the lanes of the conversation to the node of its open session, because that node holds the
 *  socket and can cancel a superseded question. Call after every change of a session's state. */
async function pinLanes(q: Query, conversation: string): Promise<void> {
  await q.run(
    `UPDATE lanes SET node = (
       SELECT node FROM sessions WHERE conversation = $1 AND state = 'open' ORDER BY opened_at DESC LIMIT 1
     ) WHERE id IN ($2, $3)`,
    conversation,
    `${conversation}/in`,
    `${conversation}/out`,
  );
}

/** Returns whether the conversation is bound to the platform's, or an open turn will bind it. */
export async function isBegun(q: Query, conversation: string): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM conversations WHERE id = $1
       AND (platform_id IS NOT NULL OR EXISTS (SELECT 1 FROM turns WHERE turns.conversation = conversations.id AND open = 1))`,
    conversation,
  );
  return row !== undefined;
}

/** Returns the milliseconds since the session was lost; null while it is open, "ended" when it is closed
 *  or unknown. */
export async function lostFor(q: Query, channel: string, id: string): Promise<number | null | "ended"> {
  const row = await q.one<{ state: string; lost_for: number | null }>(
    "SELECT state, now_ms() - lost_at AS lost_for FROM sessions WHERE channel = $1 AND id = $2",
    channel,
    id,
  );
  if (!row || row.state === "closed") return "ended";
  return row.state === "lost" ? (row.lost_for ?? 0) : null;
}

/** Marks every open session as lost. Called at start on a store that only one process may use. */
export async function loseSessions(q: Query): Promise<void> {
  await q.run("UPDATE lanes SET node = NULL WHERE node IS NOT NULL");
  await q.run(
    "UPDATE sessions SET state = 'lost', lost_at = now_ms(), reason = 'restarted' WHERE state = 'open'",
  );
}

/** Name of the lease that serves as the heartbeat of a node. */
export const nodeLease = (node: string): string => `node:${node}`;

const silent = "the node that held it is silent";

/** Marks open sessions of nodes without a valid lease as lost; returns their number. */
export async function loseOrphans(q: Query): Promise<number> {
  const orphans = await q.all<{ conversation: string }>(
    `UPDATE sessions SET state = 'lost', lost_at = now_ms(), reason = $1 WHERE state = 'open'
       AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.name = 'node:' || sessions.node AND until > now_ms())
     RETURNING conversation`,
    silent,
  );
  for (const { conversation } of orphans) {
    await pinLanes(q, conversation);
    await hasten(q, conversation);
  }
  return orphans.length;
}

/** Shortens the leases of a silent node, because the caller is waiting. They do not end at once: a node
 *  that was only suspended still relies on them. It starts no work that exceeds its lease. */
async function hasten(q: Query, conversation: string): Promise<void> {
  if (q.leases !== null) return;
  await q.run(
    `UPDATE lanes SET lease_until = CASE WHEN lease_until > now_ms() + 20000 THEN now_ms() + 20000 ELSE lease_until END
     WHERE id IN ($1, $2)`,
    `${conversation}/in`,
    `${conversation}/out`,
  );
}

/** Deletes the leases of nodes that expired more than a day ago. */
export async function forgetNodes(q: Query): Promise<void> {
  await q.run("DELETE FROM leases WHERE name LIKE 'node:%' AND until < now_ms() - 86400000");
}

/** Reopens sessions that other nodes marked as lost while this node could not reach the store, although
 *  it still holds them. */
export async function reclaimSessions(q: Query, node: string): Promise<void> {
  const own = await q.all<{ conversation: string }>(
    `UPDATE sessions SET state = 'open', lost_at = NULL, reason = NULL
     WHERE state <> 'closed' AND state = 'lost' AND node = $1 AND reason = $2 RETURNING conversation`,
    node,
    silent,
  );
  for (const { conversation } of own) await pinLanes(q, conversation);
}

/** Closes sessions that have been lost for longer than `afterMs`, because no end callback is expected
 *  any more. */
export async function endLost(q: Query, afterMs: number): Promise<void> {
  await q.run(
    `UPDATE sessions SET state = 'closed', closed_at = now_ms()
     WHERE state <> 'closed' AND state = 'lost' AND lost_at < now_ms() - $1`,
    afterMs,
  );
}

/** Returns the open call of a conversation, or null. */
export async function openSession(q: Query, conversation: string): Promise<string | null> {
  const row = await q.one<{ id: string }>(
    "SELECT id FROM sessions WHERE conversation = $1 AND state = 'open' LIMIT 1",
    conversation,
  );
  return row?.id ?? null;
}
