// A reply in several drafts: each goes out only after the one before was taken.

import type { Query } from "./driver.ts";

interface Part {
  readonly reply: string;
  readonly seq: number;
}

/** A part has ended without having gone out for certain: what stands behind it is not sent (`dropped`), or waits with it
 *  for a human (`held`). Hold the lane's row, and refresh the lane. */
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

/** A part that was held has gone out, or is about to: what waited with it goes on. Hold the lane's row, and refresh the lane. */
export async function resumeRest(q: Query, { reply, seq }: Part): Promise<void> {
  await q.run(
    `UPDATE drafts SET state = 'queued', open = 1, reason = NULL, due_at = now_ms(), updated_at = now_ms()
     WHERE reply = $1 AND seq > $2 AND attempts = 0 AND state = 'held'`,
    reply,
    seq,
  );
}
