// What is not wanted any more in a live session: older questions when the caller says something newer, and everything
// that waits when the call is over. Call with the lane's row held (nextSeq, lockLane).

import type { Query } from "./driver.ts";
import { lockLane, refreshLane } from "./lanes.ts";
import { endAttempt } from "./turns.ts";

export interface OpenWords {
  readonly id: string;
  readonly state: "waiting" | "asking" | "unknown";
  readonly question: string;
}

/** The session's questions that are not answered, oldest first. */
export async function openWords(q: Query, conversation: string, session: string): Promise<OpenWords[]> {
  return q.all<OpenWords>(
    `SELECT id, state, question FROM turns WHERE conversation = $1 AND open = 1 AND session = $2 AND opening IS NULL
     ORDER BY seq`,
    conversation,
    session,
  );
}

/** Nobody wants the answer any more. Whoever asks it now finds out before it writes. */
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

/** A turn that is opening the platform's conversation goes on doing that alone: its words are another's now. */
export async function leaveOpening(q: Query, turn: string, opening: string): Promise<void> {
  await q.run(
    "UPDATE turns SET question = '', context = NULL, opening = $2, updated_at = now_ms() WHERE id = $1",
    turn,
    opening,
  );
}

/** What was said in one turn is asked in the other. */
export async function moveWords(q: Query, from: string, to: string): Promise<void> {
  await q.run("UPDATE events SET turn = $2 WHERE turn = $1", from, to);
}

/** The words of a dropped question that was certainly never put go ahead of the newer one that waits; if there is one. */
export async function handOnWords(
  q: Query,
  turn: {
    readonly id: string;
    readonly conversation: string;
    readonly session: string | null;
    readonly question: string;
  },
): Promise<void> {
  const next = await q.one<{ id: string }>(
    `UPDATE turns SET question = $3 || question WHERE id = (
       SELECT id FROM turns WHERE conversation = $1 AND session = $2 AND open = 1 AND state = 'waiting' AND opening IS NULL
       ORDER BY seq LIMIT 1
     ) RETURNING id`,
    turn.conversation,
    turn.session,
    `${turn.question}\n`,
  );
  if (next) await moveWords(q, turn.id, next.id);
}

/** Openings that nobody has begun. */
export async function dropWaitingOpenings(q: Query, conversation: string, session: string): Promise<void> {
  await q.run(
    `UPDATE turns SET state = 'dropped', open = 0, reason = 'the call has ended', updated_at = now_ms()
     WHERE conversation = $1 AND open = 1 AND session = $2 AND state = 'waiting' AND opening IS NOT NULL`,
    conversation,
    session,
  );
}

/** What waits to be said in it is never said. */
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

/** The caller cut a reply short: its other parts are not said either. */
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

/** Whether something newer was said in the session than what the reply answers. */
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

/** What the caller heard of the newest draft of the session, or of the one that answers `about` (an event's external id). */
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
