// Multi-part replies: each draft is sent only after the previous one was accepted.

import type { Query } from "../driver.ts";
import { moves } from "../transitions.ts";

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
  await q.write(endings[state], reply, seq, reason);
}
const ended = {
  set: "open = 0, reason = $3, updated_at = now_ms()",
  where: "reply = $1 AND seq > $2 AND attempts = 0",
};
const endings = {
  dropped: moves("drafts", "dropped", { ...ended, from: ["queued", "held"] }),
  held: moves("drafts", "held", { ...ended, from: ["queued"] }),
};

/** Enqueues the held later parts again when the held part was sent or is about to be. Call with the
 *  lane's row locked, and refresh the lane. */
export async function resumeRest(q: Query, { reply, seq }: Part): Promise<void> {
  await q.write(
    moves("drafts", "queued", {
      set: "open = 1, reason = NULL, due_at = now_ms(), updated_at = now_ms()",
      where: "reply = $1 AND seq > $2 AND attempts = 0",
      from: ["held"],
    }),
    reply,
    seq,
  );
}
