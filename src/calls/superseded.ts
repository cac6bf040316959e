// Cancellation in a live session: older questions when the caller says something newer, and all waiting
// work when the call has ended. Call with the lane's row locked (`nextSeq`, `lockLane`).

import type { Query } from "../store/driver.ts";
import { lockLane, refreshLane } from "../store/lanes.ts";
import { endAttempt } from "../store/tables/turns.ts";

export interface OpenWords {
  readonly id: string;
  readonly state: "waiting" | "asking" | "unknown";
  readonly question: string;
}

/** Returns the unanswered questions of the session, oldest first. */
export async function openWords(q: Query, conversation: string, session: string): Promise<OpenWords[]> {
  return q.all<OpenWords>(
    `SELECT id, state, question FROM turns WHERE conversation = $1 AND open = 1 AND session = $2 AND opening IS NULL
     ORDER BY seq`,
    conversation,
    session,
  );
}

/** Drops a question whose answer is no longer needed. A worker that is asking it detects this before it
 *  writes. */
export async function dropTurn(
  q: Query,
  turn: Pick<OpenWords, "id" | "state">,
  reason: string,
): Promise<void> {
  if (turn.state === "asking") await endAttempt(q, turn.id, "unknown", reason);
  await q.run(
    "UPDATE turns SET state = 'dropped', open = 0, reason = $2, updated_at = now_ms() WHERE id = $1",
    turn.id,
    reason,
  );
}

/** Removes the question from a turn that is opening the platform's conversation. The turn completes the
 *  opening only; after newer speech of the caller, the newer turn asks the question. */
export async function leaveOpening(q: Query, turn: string, opening: string): Promise<void> {
  await q.run(
    "UPDATE turns SET question = '', context = NULL, opening = $2, updated_at = now_ms() WHERE id = $1",
    turn,
    opening,
  );
}

/** Moves the messages of one turn to another turn. */
export async function moveWords(q: Query, from: string, to: string): Promise<void> {
  await q.run("UPDATE events SET turn = $2 WHERE turn = $1", from, to);
}

/** Drops openings that have not been attempted. */
export async function dropWaitingOpenings(q: Query, conversation: string, session: string): Promise<void> {
  await q.run(
    `UPDATE turns SET state = 'dropped', open = 0, reason = 'the call has ended', updated_at = now_ms()
     WHERE conversation = $1 AND open = 1 AND session = $2 AND state = 'waiting' AND opening IS NOT NULL`,
    conversation,
    session,
  );
}

/** Drops the queued drafts of the session. */
export async function dropDrafts(q: Query, conversation: string, session: string): Promise<void> {
  await lockLane(q, conversation, "out");
  await q.run(
    `UPDATE drafts SET state = 'dropped', open = 0, reason = 'the call has ended', updated_at = now_ms()
     WHERE conversation = $1 AND open = 1 AND session = $2 AND state = 'queued'`,
    conversation,
    session,
  );
  await refreshLane(q, conversation, "out");
}

/** Drops the remaining parts of a reply after the caller interrupted it (barge-in). */
export async function dropRest(q: Query, conversation: string, session: string): Promise<void> {
  await lockLane(q, conversation, "out");
  await q.run(
    `UPDATE drafts SET state = 'dropped', open = 0, reason = 'the caller interrupted', updated_at = now_ms()
     WHERE conversation = $1 AND open = 1 AND session = $2 AND state = 'queued'
       AND EXISTS (SELECT 1 FROM drafts said WHERE said.reply = drafts.reply AND said.id <> drafts.id
         AND said.state IN ('sending', 'sent', 'delivered'))`,
    conversation,
    session,
  );
  await refreshLane(q, conversation, "out");
}

/** Returns whether the session has a newer question than the one that the reply answers. */
export async function isOutdated(q: Query, reply: string, session: string): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM replies JOIN turns own ON own.id = replies.turn
     JOIN turns later ON later.conversation = own.conversation AND later.seq > own.seq
     WHERE replies.id = $1 AND later.session = $2 AND later.opening IS NULL LIMIT 1`,
    reply,
    session,
  );
  return row !== undefined;
}

/** Records the text that was played to the caller from the session's newest draft, or from the draft
 *  that answers `about` (the external id of an event). */
export async function noteHeard(
  q: Query,
  session: { readonly channel: string; readonly id: string; readonly conversation: string },
  heard: string,
  about: string | null,
): Promise<void> {
  await q.run(
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
