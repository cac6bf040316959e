// State of the platform's conversations and their poll schedule. A poll reads the mode of a conversation
// and external messages. It runs under the lease of the conversation's inbound lane, so polling never runs
// together with a question.

import { type Query, touch } from "../driver.ts";

/** Value of `position` after a restore: all messages found by the next poll were delivered before. */
export const allKnown = -1;

/** Schedules a poll in `ms`, or keeps an earlier one. */
export async function schedulePoll(
  q: Query,
  { id, channel }: { readonly id: string; readonly channel: string },
  ms: number,
): Promise<void> {
  await q.write(
    `INSERT INTO watches (conversation, channel, due_at) VALUES ($1, $2, now_ms() + $3)
     ON CONFLICT (conversation) DO UPDATE SET due_at = CASE
       WHEN watches.due_at IS NULL OR watches.due_at > excluded.due_at THEN excluded.due_at ELSE watches.due_at END`,
    id,
    channel,
    Math.ceil(ms),
  );
  if (ms <= 0) touch(q, "watches");
  else q.waits.add(ms);
}

/** Records the mode that this daemon has just set, so that the next poll does not report it as a change. */
export async function recordMode(
  q: Query,
  { id, channel }: { readonly id: string; readonly channel: string },
  mode: "ai" | "manual",
): Promise<void> {
  await q.write(
    `INSERT INTO watches (conversation, channel, mode) VALUES ($1, $2, $3)
     ON CONFLICT (conversation) DO UPDATE SET mode = excluded.mode`,
    id,
    channel,
    mode,
  );
}

/** Resets the recorded state after the platform replaced the conversation. */
export async function resetPoll(q: Query, conversation: string): Promise<void> {
  await q.write(
    "UPDATE watches SET mode = NULL, mark = NULL, position = 0 WHERE conversation = $1",
    conversation,
  );
}
