// Human takeover: a human answers in place of the agent, and unsent answers of the agent are dropped.

import type { Query } from "../driver.ts";
import { lockLane, refreshLane } from "../lanes.ts";
import { answeredBefore } from "../restored.ts";
import { moves } from "../transitions.ts";
import { endRest, moveDrafts } from "./drafts.ts";

/** Records the platform's id of a human's message, found by the turn that relayed it. */
export async function namePlatformId(q: Query, turn: string, platformId: string): Promise<void> {
  await q.write("UPDATE replies SET platform_id = $2 WHERE turn = $1", turn, platformId);
}

/** SQL condition on drafts with their replies: an answer of the agent that waits or is held, of which certainly no part was
 *  sent. What an operator has released is to be sent, and what a restore holds may have been sent by the lost state of the store. */
const unsentAnswer = `replies.kind = 'answer' AND drafts.state IN ('queued', 'held') AND drafts.released = 0
       AND COALESCE(drafts.code, '') <> '${answeredBefore}'
       AND NOT EXISTS (SELECT 1 FROM drafts part WHERE part.reply = drafts.reply AND part.attempts > (
         SELECT COUNT(*) FROM attempts WHERE attempts.subject = part.id AND attempts.outcome IN ('deferred', 'refused')))`;

const dropUnsent = moves("drafts", "dropped", {
  set: "code = 'human-answered', open = 0, reason = $2, updated_at = now_ms()",
  where: "id = $1",
  from: ["queued", "held"],
});

async function dropDraft(q: Query, id: string, reason: string): Promise<void> {
  await moveDrafts(q, { name: "dropped", code: "human-answered" }, dropUnsent, id, reason);
}

/** Drops the agent's answers that still wait for their delay. Keeps answers that are being sent or may
 *  have been sent, and those that `isKept` selects by their text (the agent's message at the handover). */
export async function dropWaitingAnswers(
  q: Query,
  conversation: string,
  reason: string,
  isKept: (text: string) => boolean = () => false,
): Promise<void> {
  await lockLane(q, conversation, "out");
  const rows = await q.all<{ id: string; text: string }>(
    `SELECT drafts.id, replies.text FROM drafts JOIN replies ON replies.id = drafts.reply
     WHERE drafts.conversation = $1 AND drafts.state = 'queued' AND drafts.attempts = 0 AND drafts.due_at > now_ms()
       AND ${unsentAnswer}`,
    conversation,
  );
  const dropped = rows.filter(({ text }) => !isKept(text));
  for (const { id } of dropped) await dropDraft(q, id, reason);
  if (dropped.length > 0) await refreshLane(q, conversation, "out");
}

/** SQL: true when `clearLanes` may have to change something in the conversation. */
export const needsClearing = (conversation: string): string =>
  `(EXISTS (SELECT 1 FROM turns WHERE turns.conversation = ${conversation} AND turns.open = 1)
     OR EXISTS (SELECT 1 FROM drafts WHERE drafts.conversation = ${conversation} AND (drafts.open = 1 OR drafts.state = 'held')))`;

/** Prepares the lanes for a human's reply. Drops the unsent answers of the agent, however they wait, except those that the
 *  platform lists after the human's reply (`later`: their ids there). Other failed or held work no longer occupies the head of
 *  its lane; it keeps its state, so that operators can see it. Call before the human's turn is enqueued, which refreshes the
 *  inbound lane. Returns true when no turn of the inbound lane has changed. */
export async function clearLanes(
  q: Query,
  conversation: string,
  later: ReadonlySet<string> = new Set(),
): Promise<boolean> {
  await lockLane(q, conversation, "in");
  const failed = await q.run(
    "UPDATE turns SET open = 0 WHERE conversation = $1 AND open = 1 AND state = 'failed'",
    conversation,
  );
  await lockLane(q, conversation, "out");
  const found = await q.all<{
    id: string;
    reply: string;
    seq: number;
    state: string;
    platform_id: string | null;
    unsent: number;
  }>(
    `SELECT drafts.id, drafts.reply, drafts.seq, drafts.state, replies.platform_id, CASE WHEN ${unsentAnswer} THEN 1 ELSE 0 END AS unsent
     FROM drafts JOIN replies ON replies.id = drafts.reply
     WHERE drafts.conversation = $1 AND (${unsentAnswer} OR (drafts.open = 1 AND drafts.state IN ('held', 'failed')))
     ORDER BY drafts.seq`,
    conversation,
  );
  for (const draft of found) {
    if (draft.unsent === 0) {
      await q.write("UPDATE drafts SET open = 0 WHERE id = $1", draft.id);
      await endRest(q, draft, draft.state === "held" ? "held" : "dropped");
    } else if (draft.platform_id === null || !later.has(draft.platform_id))
      await dropDraft(q, draft.id, "a person has answered");
  }
  if (found.length > 0) await refreshLane(q, conversation, "out");
  return failed === 0;
}

/** Finds the same text from a human in that conversation within the last `withinMs`. Returns its age (ms) and the state
 *  of its newest draft (null: no draft yet). Returns null if none exists, or none that was sent or will be. */
export async function earlierRelay(
  q: Query,
  conversation: string,
  text: string,
  withinMs: number,
): Promise<{ readonly ago: number; readonly state: string | null } | null> {
  const row = await q.one<{ ago: number; state: string | null }>(
    `SELECT now_ms() - replies.created_at AS ago, drafts.state FROM replies LEFT JOIN drafts ON drafts.reply = replies.id
     WHERE replies.conversation = $1 AND replies.kind = 'human' AND replies.text = $2 AND replies.state <> 'failed'
       AND replies.created_at > now_ms() - $3
       AND (COALESCE(drafts.state, 'queued') NOT IN ('held', 'failed', 'dropped') OR (drafts.state = 'held' AND drafts.code = 'shadow'))
     ORDER BY replies.created_at DESC LIMIT 1`,
    conversation,
    text,
    withinMs,
  );
  return row ?? null;
}

/** Returns whether a turn with that sequence number or a higher one sets the platform's mode back to the
 *  agent. Counts completed and pending turns, and none that failed. */
export async function wasReturned(q: Query, conversation: string, seq: number): Promise<boolean> {
  const row = await q.one(
    "SELECT 1 FROM turns WHERE conversation = $1 AND kind = 'mode' AND question = 'ai' AND state <> 'failed' AND seq >= $2 LIMIT 1",
    conversation,
    seq,
  );
  return row !== undefined;
}
