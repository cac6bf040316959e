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
  readonly transferring: string | null;
  readonly reason: string | null;
  readonly opened_at: number;
}

export const sessionColumns = "id, channel, conversation, state, node, openings, transferring, reason, opened_at";

export async function readSession(q: Query, channel: string, id: string): Promise<SessionRow | null> {
  const row = await q.one<SessionRow>(
    `SELECT ${sessionColumns} FROM sessions WHERE channel = $1 AND id = $2`,
    channel,
    id,
  );
  return row ?? null;
}

/** Returns the caller, and the external id of the session's newest message that waits for its answer, or null. */
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
