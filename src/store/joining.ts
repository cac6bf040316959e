// Stage route: turns that nobody has asked yet take along what the person says next.

import type { Query } from "./driver.ts";
import { refreshLane } from "./lanes.ts";

export interface JoinableRow {
  readonly id: string;
  readonly question: string;
  readonly context: string | null;
  /** When the first of its messages was accepted. */
  readonly first_at: number;
}

/** The conversation's last turn, if it is that person's and waits to be asked for the first time, or again because it
 *  certainly was not. Hold the lane's row (lockLane): else it may be asked meanwhile, without what is added. */
export async function joinableTurn(
  q: Query,
  conversation: string,
  person: string,
): Promise<JoinableRow | null> {
  const last = await q.one<JoinableRow & { state: string; person: string; own: number }>(
    `SELECT turns.id, question, context, turns.state, person, COALESCE(events.received_at, made_at) AS first_at,
       CASE WHEN session IS NULL AND opening IS NULL AND turns.kind = 'question' THEN 1 ELSE 0 END AS own
     FROM turns LEFT JOIN events ON events.id = turns.event
     WHERE turns.conversation = $1 AND open = 1 ORDER BY seq DESC LIMIT 1`,
    conversation,
  );
  return last?.state === "waiting" && last.own === 1 && last.person === person ? last : null;
}

/** Puts a later message into it. It is due at `dueAt`; one that had been tried keeps its own time if that is later. */
export async function extendTurn(
  q: Query,
  conversation: string,
  id: string,
  change: {
    readonly question: string;
    readonly context: string | null;
    readonly address: string;
    readonly receivedAt: number;
    readonly dueAt: number;
  },
): Promise<void> {
  await q.run(
    `UPDATE turns SET question = $2, context = $3, address = $4, received_at = $5, updated_at = now_ms(),
       due_at = CASE WHEN attempts > 0 AND due_at > $6 THEN due_at ELSE $6 END WHERE id = $1`,
    id,
    change.question,
    change.context,
    change.address,
    change.receivedAt,
    change.dueAt,
  );
  await refreshLane(q, conversation, "in");
}
