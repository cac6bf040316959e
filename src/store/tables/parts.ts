// Multi-part replies: each draft is sent only after the previous one was accepted.

import type { Query } from "../driver.ts";

interface Part {
  readonly reply: string;
  readonly seq: number;
}

/** Ends the later parts of a reply after a part that was not certainly sent: they are dropped, or
 *  held for an operator together with it. Call with the lane's row locked, and refresh the lane. */
export async function endRest(q: Query, { reply, seq }: Part, state: "dropped" | "held"): Promise<void> {
  const reason = { dropped: "an earlier part was not sent", held: "an earlier part may not have gone out" }[
    state
  ];
  await q.run(
    `UPDATE drafts SET state = $3, open = 0, reason = $4, updated_at = now_ms()
     WHERE reply = $1 AND seq > $2 AND attempts = 0 AND state IN ('queued', 'held') AND state <> $3`,
    reply,
    seq,
    state,
    reason,
  );
}

/** Enqueues the held later parts again when the held part was sent or is about to be. Call with the
 *  lane's row locked, and refresh the lane. */
export async function resumeRest(q: Query, { reply, seq }: Part): Promise<void> {
  await q.run(
    `UPDATE drafts SET state = 'queued', open = 1, reason = NULL, due_at = now_ms(), updated_at = now_ms()
     WHERE reply = $1 AND seq > $2 AND attempts = 0 AND state = 'held'`,
    reply,
    seq,
  );
}
