// Stage route: debouncing. A turn that has not been asked yet absorbs the next messages of the same person.

import type { Query } from "../../store/driver.ts";
import { refreshLane } from "../../store/lanes.ts";

export interface JoinableRow {
  readonly id: string;
  readonly question: string;
  readonly context: string | null;
  /** Time at which the first of its messages was accepted. */
  readonly first_at: number;
}

/** Returns the conversation's last turn if it belongs to that person and has certainly not reached the
 *  platform: it waits for its first attempt or for a retry. Hold the lane's row (`lockLane`); otherwise
 *  the turn may be asked concurrently without the added text. */
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

/** Adds a later message to the turn, which becomes due at `dueAt`. A turn with failed attempts keeps its
 *  own due time if that is later. */
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
