// A person answers in place of the agent: what the agent has said and nobody has heard yet is not said any more.

import type { Query } from "./driver.ts";
import { lockLane, refreshLane } from "./lanes.ts";
import { endRest } from "./parts.ts";

/** The platform's id of what a person has said, by the turn that put it there. */
export async function namePlatformId(q: Query, turn: string, platformId: string): Promise<void> {
  await q.run("UPDATE replies SET platform_id = $2 WHERE turn = $1", turn, platformId);
}

/** Drops the agent's answers that still wait for their delay. Not what is being sent, or may have been, nor answers whose
 *  text is in `except` (what the agent says when it hands over). */
export async function dropWaitingAnswers(
  q: Query,
  conversation: string,
  reason: string,
  except: ReadonlySet<string> = new Set(),
): Promise<void> {
  await lockLane(q, conversation, "out");
  const rows = await q.all<{ id: string; text: string }>(
    `SELECT drafts.id, replies.text FROM drafts JOIN replies ON replies.id = drafts.reply
     WHERE drafts.conversation = $1 AND drafts.open = 1 AND drafts.state = 'queued' AND drafts.attempts = 0
       AND drafts.due_at > now_ms() AND replies.kind = 'answer'
       AND NOT EXISTS (SELECT 1 FROM drafts other WHERE other.reply = drafts.reply AND other.attempts > 0)`,
    conversation,
  );
  for (const { id } of rows.filter(({ text }) => !except.has(text.trim())))
    await q.run(
      "UPDATE drafts SET state = 'dropped', open = 0, reason = $2, updated_at = now_ms() WHERE id = $1",
      id,
      reason,
    );
  await refreshLane(q, conversation, "out");
}

/** What failed, or is held, blocks a person's words no longer: it stays what it is, for operators to see. */
export async function unblock(q: Query, conversation: string): Promise<void> {
  await lockLane(q, conversation, "in");
  await q.run(
    "UPDATE turns SET open = 0 WHERE conversation = $1 AND open = 1 AND state = 'failed'",
    conversation,
  );
  await refreshLane(q, conversation, "in");
  await lockLane(q, conversation, "out");
  const stuck = await q.all<{ id: string; reply: string; seq: number; state: string }>(
    "SELECT id, reply, seq, state FROM drafts WHERE conversation = $1 AND open = 1 AND state IN ('held', 'failed')",
    conversation,
  );
  for (const draft of stuck) {
    await q.run("UPDATE drafts SET open = 0 WHERE id = $1", draft.id);
    await endRest(q, draft, draft.state === "held" ? "held" : "dropped");
  }
  await refreshLane(q, conversation, "out");
}

/** Whether a reply is a person's words, in place of the agent's. */
export async function isHumans(q: Query, reply: string): Promise<boolean> {
  return (await q.one("SELECT 1 FROM replies WHERE id = $1 AND kind = 'human'", reply)) !== undefined;
}

/** The very same words of a person's, left in that conversation within the last `withinMs`: how long ago (ms), and what has
 *  become of their newest draft (null: not made yet). Null when there are none, or none that went out or will. */
export async function saidBefore(
  q: Query,
  conversation: string,
  text: string,
  withinMs: number,
): Promise<{ readonly ago: number; readonly state: string | null } | null> {
  const row = await q.one<{ ago: number; state: string | null }>(
    `SELECT now_ms() - replies.created_at AS ago, drafts.state FROM replies LEFT JOIN drafts ON drafts.reply = replies.id
     WHERE replies.conversation = $1 AND replies.kind = 'human' AND replies.text = $2 AND replies.state <> 'failed'
       AND replies.created_at > now_ms() - $3 AND COALESCE(drafts.state, 'queued') NOT IN ('held', 'failed', 'dropped')
     ORDER BY replies.created_at DESC LIMIT 1`,
    conversation,
    text,
    withinMs,
  );
  return row ?? null;
}

/** Whether the platform is, or was, to be told in a turn of that number, or a higher one, that the agent answers again. */
export async function wasGivenBack(q: Query, conversation: string, seq: number): Promise<boolean> {
  const row = await q.one(
    "SELECT 1 FROM turns WHERE conversation = $1 AND kind = 'mode' AND question = 'ai' AND seq >= $2 LIMIT 1",
    conversation,
    seq,
  );
  return row !== undefined;
}
