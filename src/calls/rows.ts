// Statements on live sessions and on the turns and drafts of a call.

import type { Query } from "../store/driver.ts";
import { lockLane, refreshLane } from "../store/lanes.ts";
import { moveDrafts } from "../store/tables/drafts.ts";
import { type SessionRow, sessionColumns } from "../store/tables/sessions.ts";
import { endAttempt } from "../store/tables/turns.ts";
import { moves } from "../store/transitions.ts";
import type { DropPlan, FreeConversation, OpenTurns, Speaking } from "./decide.ts";

/** Returns the session, locked for this transaction, before its lanes: in the order of the heartbeat. */
export async function lockSession(q: Query, channel: string, id: string): Promise<SessionRow | null> {
  const row = await q.one<SessionRow>(
    `SELECT ${sessionColumns} FROM sessions WHERE channel = $1 AND id = $2
     FOR UPDATE -- only: postgres`,
    channel,
    id,
  );
  return row ?? null;
}

/** Records the start of a call. */
export async function insertSession(
  q: Query,
  session: Pick<SessionRow, "channel" | "id" | "conversation" | "node">,
): Promise<void> {
  await q.write(
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
 *  human. Work of another node on it is taken over after at most `takeoverMs`. */
export async function resumeSession(q: Query, session: SessionRow, node: string, takeoverMs: number): Promise<void> {
  await q.run(
    moves("sessions", "open", {
      set: `node = $3, openings = openings + 1, transferring = NULL, lost_at = NULL, closed_at = NULL,
       reason = NULL`,
      where: "channel = $1 AND id = $2",
    }),
    session.channel,
    session.id,
    node,
  );
  await pinLanes(q, session.conversation);
  if (session.node !== node) await hasten(q, session.conversation, takeoverMs);
}

/** Reopens a session that was recorded as lost but is still connected at `node`. */
export async function reviveSession(q: Query, session: SessionRow, node: string): Promise<void> {
  await q.write(
    moves("sessions", "open", {
      set: "node = $3, lost_at = NULL, reason = NULL",
      where: "channel = $1 AND id = $2",
      from: ["lost"],
    }),
    session.channel,
    session.id,
    node,
  );
  await pinLanes(q, session.conversation);
}

/** Records that a transfer to a human is in progress. */
export async function markTransferring(q: Query, session: SessionRow, reason: string): Promise<void> {
  await q.write(
    "UPDATE sessions SET transferring = $3 WHERE channel = $1 AND id = $2",
    session.channel,
    session.id,
    reason,
  );
}

/** Marks the session as lost after its connection failed; it may resume. A closed session stays closed. */
export async function loseSession(q: Query, session: SessionRow, reason: string | null): Promise<void> {
  await q.write(
    moves("sessions", "lost", {
      set: "lost_at = COALESCE(lost_at, now_ms()), reason = $3",
      where: "channel = $1 AND id = $2",
      again: true,
    }),
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
  await q.write(
    moves("sessions", "closed", {
      set: `closed_at = COALESCE(closed_at, now_ms()), reason = COALESCE($3, reason),
       duration = COALESCE($4, duration)`,
      where: "channel = $1 AND id = $2",
      again: true,
    }),
    session.channel,
    session.id,
    end.reason,
    end.durationMs === null ? null : Math.round(end.durationMs),
  );
  await pinLanes(q, session.conversation);
}

/** Pins the lanes of the conversation to the node of its open session, because that node holds the
 *  socket and can cancel a superseded question. Call after every change of a session's state. */
export async function pinLanes(q: Query, conversation: string): Promise<void> {
  await q.write(
    `UPDATE lanes SET node = (
       SELECT node FROM sessions WHERE conversation = $1 AND state = 'open' ORDER BY opened_at DESC LIMIT 1
     ) WHERE id IN ($2, $3)`,
    conversation,
    `${conversation}/in`,
    `${conversation}/out`,
  );
}

/** Returns the newest conversation with that person that has no live session. `begun`: it is bound to the platform's
 *  conversation, or an open turn will bind it. A lost session reserves its conversation for `reservedMs`. */
export async function freeConversation(
  q: Query,
  channel: string,
  person: string,
  reservedMs: number,
): Promise<FreeConversation | null> {
  const row = await q.one<{ id: string; begun: number }>(
    `SELECT id, CASE WHEN platform_id IS NOT NULL
         OR EXISTS (SELECT 1 FROM turns WHERE turns.conversation = conversations.id AND open = 1) THEN 1 ELSE 0 END AS begun
     FROM conversations WHERE channel = $1 AND person = $2
       AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.conversation = conversations.id
         AND (state = 'open' OR (state = 'lost' AND lost_at > now_ms() - $3)))
     ORDER BY id DESC LIMIT 1`,
    channel,
    person,
    reservedMs,
  );
  return row ? { id: row.id, begun: row.begun === 1 } : null;
}

const prefixedColumns = sessionColumns.replace(/\w+/g, "sessions.$&");

interface OpenTurnColumns {
  readonly bound: number;
  readonly turn: string | null;
  readonly turn_state: OpenTurns["turns"][number]["state"];
  readonly question: string;
  readonly trace: string;
  readonly opening: number;
}

/** Locks the session and the inbound lane of its conversation. Returns the session (null: unknown) with its
 *  open turns, oldest first. */
export async function openTurns(
  q: Query,
  { channel, id, conversation }: Pick<SessionRow, "channel" | "id" | "conversation">,
): Promise<OpenTurns & { readonly session: SessionRow | null }> {
  if (q.leases === null) await q.write("SELECT 1 FROM sessions WHERE channel = $1 AND id = $2 FOR UPDATE", channel, id);
  await lockLane(q, conversation, "in");
  const rows = await q.all<SessionRow & OpenTurnColumns>(
    `SELECT ${prefixedColumns}, CASE WHEN platform_id IS NULL THEN 0 ELSE 1 END AS bound,
       turns.id AS turn, turns.state AS turn_state, turns.question, turns.trace,
       CASE WHEN turns.opening IS NULL THEN 0 ELSE 1 END AS opening
     FROM sessions JOIN conversations ON conversations.id = sessions.conversation
     LEFT JOIN turns ON turns.conversation = sessions.conversation AND turns.open = 1 AND turns.session = sessions.id
     WHERE sessions.channel = $1 AND sessions.id = $2 ORDER BY turns.seq`,
    channel,
    id,
  );
  const turns = rows.flatMap(({ turn, turn_state: state, question, trace, opening }) =>
    turn === null ? [] : [{ id: turn, state, question, trace, opening: opening === 1 }],
  );
  return { session: rows[0] ?? null, isBound: rows[0]?.bound === 1, turns };
}

const dropTurn = moves("turns", "dropped", {
  set: "open = 0, reason = $2, updated_at = now_ms()",
  where: "id = $1",
});

/** Drops the turns of the plan, and replaces the questions of turns that must complete an opening by `opening`. Call
 *  with the inbound lane locked. A worker that is asking a dropped turn detects this before it writes. */
export async function dropTurns(q: Query, plan: DropPlan, reason: string, opening: string): Promise<void> {
  for (const { id, state } of plan.drop) {
    if (state === "asking") await endAttempt(q, id, "unknown", reason);
    await q.write(dropTurn, id, reason);
  }
  for (const { id } of plan.strip)
    await q.write(
      "UPDATE turns SET question = '', context = NULL, opening = $2, updated_at = now_ms() WHERE id = $1",
      id,
      opening,
    );
}

/** Moves the messages of one turn to another turn. */
export async function moveMessages(q: Query, from: string, to: string): Promise<void> {
  await q.write("UPDATE events SET turn = $2 WHERE turn = $1", from, to);
}

/** Drops the queued drafts of the session, except what a human wrote: stage send drops it, and notifies the responders. */
export const dropDrafts = (q: Query, session: SpeakingSession): Promise<void> =>
  dropQueued(
    q,
    session,
    "the call has ended",
    "NOT EXISTS (SELECT 1 FROM replies WHERE replies.id = drafts.reply AND replies.kind = 'human')",
  );

/** Drops the remaining parts of a reply after the caller interrupted it (barge-in). */
export const dropRest = (q: Query, session: SpeakingSession): Promise<void> =>
  dropQueued(
    q,
    session,
    "the caller interrupted",
    `EXISTS (SELECT 1 FROM drafts said WHERE said.reply = drafts.reply AND said.id <> drafts.id
       AND said.state IN ('sending', 'sent', 'delivered'))`,
  );

type SpeakingSession = Pick<SessionRow, "id" | "conversation">;

/** `which` is a condition on drafts. */
async function dropQueued(
  q: Query,
  { id, conversation }: SpeakingSession,
  reason: string,
  which: string,
): Promise<void> {
  await lockLane(q, conversation, "out");
  const changed = await moveDrafts(
    q,
    { name: "dropped" },
    moves("drafts", "dropped", {
      set: "open = 0, reason = $3, updated_at = now_ms()",
      where: `conversation = $1 AND open = 1 AND session = $2 AND ${which}`,
      from: ["queued"],
    }),
    conversation,
    id,
    reason,
  );
  if (changed > 0) await refreshLane(q, conversation, "out");
}

/** Records the text that was played to the caller from the session's newest draft, or from the draft
 *  that answers `about` (the external id of an event). */
export async function recordHeard(
  q: Query,
  session: { readonly channel: string; readonly id: string; readonly conversation: string },
  heard: string,
  about: string | null,
): Promise<void> {
  await q.write(
    `UPDATE drafts SET heard = $3 WHERE id = (
       SELECT drafts.id FROM drafts JOIN replies ON replies.id = drafts.reply
       WHERE drafts.conversation = $1 AND drafts.session = $2 AND drafts.state IN ('sending', 'sent', 'delivered')
         AND ($4 = '' OR EXISTS (
           SELECT 1 FROM events WHERE events.channel = $5 AND events.external_id = $4 AND events.turn = replies.turn))
       ORDER BY drafts.seq DESC LIMIT 1)`,
    session.conversation,
    session.id,
    heard,
    about ?? "",
    session.channel,
  );
}

/** Returns what decides whether a draft of the session may be spoken. `outdated`: the session has a newer
 *  question than the one that the reply answers. `doubtful`: the reply, or its question, is from before a
 *  power failure. `escalated`: a human is, or will be, notified of the conversation. */
export async function speakingState(q: Query, channel: string, session: string, reply: string): Promise<Speaking> {
  const row = await q.one<{
    state: string;
    lost_for: number | null;
    outdated: number;
    doubtful: number;
    escalated: number;
  }>(
    `SELECT sessions.state, now_ms() - lost_at AS lost_for, CASE WHEN EXISTS (
       SELECT 1 FROM turns later WHERE later.conversation = own.conversation AND later.seq > own.seq
         AND later.session = $2 AND later.opening IS NULL) THEN 1 ELSE 0 END AS outdated,
       CASE WHEN COALESCE(own.made_at, replies.created_at) < (
         SELECT value FROM meta WHERE name = 'power_failed_at') THEN 1 ELSE 0 END AS doubtful,
       CASE WHEN EXISTS (SELECT 1 FROM escalations WHERE escalations.conversation = sessions.conversation
         AND escalations.state <> 'closed') THEN 1 ELSE 0 END AS escalated
     FROM sessions LEFT JOIN replies ON replies.id = $3 LEFT JOIN turns own ON own.id = replies.turn
     WHERE sessions.channel = $1 AND sessions.id = $2`,
    channel,
    session,
    reply,
  );
  if (!row || row.state === "closed") return { lostFor: "ended", outdated: false, doubtful: false, escalated: false };
  return {
    lostFor: row.state === "lost" ? (row.lost_for ?? 0) : null,
    outdated: row.outdated === 1,
    doubtful: row.doubtful === 1,
    escalated: row.escalated === 1,
  };
}

/** Marks every open session as lost, and returns their number. Called at start on a store that only one process may use. */
export async function loseSessions(q: Query): Promise<number> {
  await q.write("UPDATE lanes SET node = NULL WHERE node IS NOT NULL");
  return q.run(
    moves("sessions", "lost", {
      set: "lost_at = now_ms(), reason = 'restarted'",
      where: "state <> 'closed'",
      from: ["open"],
    }),
  );
}

/** Shortens the leases of a silent node, because the caller is waiting. Where an attempt is under way they do not end at
 *  once (`releaseLanes`): a node that was only suspended still relies on them. It starts no work that exceeds its lease. */
export async function hasten(q: Query, conversation: string, takeoverMs: number): Promise<void> {
  if (q.leases !== null) return;
  await q.run(
    `UPDATE lanes SET lease_until = CASE WHEN lease_until > now_ms() + $3 THEN now_ms() + $3 ELSE lease_until END
     WHERE id IN ($1, $2)`,
    `${conversation}/in`,
    `${conversation}/out`,
    takeoverMs,
  );
}
