// State of the platform's conversations and their poll schedule. A poll reads the mode of a conversation
// and external messages. It runs under the lease of the conversation's inbound lane, so polling never runs
// together with a question.

import { ManyRows, type Query, touch } from "../driver.ts";

/** Value of `position` after a restore: all messages found by the next poll were delivered before. */
export const allKnown = -1;

const dueRows = new ManyRows(
  "INSERT INTO polls (conversation, channel, due_at) VALUES",
  "(:id, :channel, now_ms() + :ms)",
  `ON CONFLICT (conversation) DO UPDATE SET due_at = excluded.due_at
     WHERE polls.due_at IS NULL OR polls.due_at > excluded.due_at`,
);

/** Schedules polls of distinct conversations in `ms`, or keeps earlier ones. */
export async function schedulePolls(
  q: Query,
  conversations: readonly { readonly id: string; readonly channel: string }[],
  ms: number,
): Promise<void> {
  if (conversations.length === 0) return;
  // In a fixed order, so that concurrent transactions cannot deadlock.
  const sorted = conversations.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  await dueRows.write(
    q,
    sorted.map((one) => ({ ...one, ms: Math.ceil(ms) })),
  );
  if (ms <= 0) touch(q, "polls");
  else q.waits.add(ms);
}

/** Schedules a poll in `ms`, or keeps an earlier one. */
export const schedulePoll = (
  q: Query,
  conversation: { readonly id: string; readonly channel: string },
  ms: number,
): Promise<void> => schedulePolls(q, [conversation], ms);

/** Records the mode that this daemon has just set, so that the next poll does not report it as a change. */
export async function recordMode(
  q: Query,
  { id, channel }: { readonly id: string; readonly channel: string },
  mode: "ai" | "manual",
): Promise<void> {
  await q.write(
    `INSERT INTO polls (conversation, channel, mode) VALUES ($1, $2, $3)
     ON CONFLICT (conversation) DO UPDATE SET mode = excluded.mode`,
    id,
    channel,
    mode,
  );
}

/** Resets the recorded state after the platform replaced the conversation. */
export async function resetPoll(q: Query, conversation: string): Promise<void> {
  await q.write(
    "UPDATE polls SET mode = NULL, mark = NULL, position = 0 WHERE conversation = $1",
    conversation,
  );
}
