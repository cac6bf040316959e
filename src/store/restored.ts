// Hold after a restore. When the store was restored, or is older than the messages found at the provider, its open work
// may have been answered since. Such work is held, listed under one code and released by an operator.

import type { Query } from "./driver.ts";
import { type Direction, refreshLane } from "./lanes.ts";
import { revokeLease } from "./leases.ts";
import { allKnown } from "./tables/conversations.ts";
import { moves } from "./transitions.ts";

/** Code of every message that is held for this reason. */
export const answeredBefore = "answered-before-restore";

const reason = "the store was restored: this may have been answered already";

/** $1: the channel, or empty for all; $2: work older than this (epoch milliseconds); $3: the reason. */
const ofChannel = "(channel = $1 OR $1 = '')";

// Messages exempt from a cap are consent keywords, voicemails, or speech in a call; they are processed as usual.
const holdEvents = moves("events", "held", {
  set: `code = '${answeredBefore}', reason = $3`,
  where: `kind = 'message' AND COALESCE(code, '') <> 'exempt' AND ${ofChannel} AND received_at < $2`,
  from: ["stored"],
});
const failTurns = `${moves("turns", "failed", {
  set: "open = 0, reason = $3, updated_at = now_ms()",
  where: `open = 1 AND session IS NULL AND ${ofChannel} AND made_at < $2`,
  from: ["waiting", "asking", "unknown"],
})} RETURNING id, conversation`;
/** Replies that were not composed: stage compose holds their drafts. */
const holdReplies = `UPDATE replies SET reason = $3
  WHERE state = 'ready' AND internal = 0 AND ${ofChannel} AND created_at < $2
    AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.id = replies.turn AND turns.session IS NOT NULL)`;
const holdDrafts = `${moves("drafts", "held", {
  set: `open = 0, reconcile_until = NULL, code = '${answeredBefore}', reason = $3, updated_at = now_ms()`,
  where: `open = 1 AND session IS NULL AND internal = 0 AND ${ofChannel} AND created_at < $2`,
  from: ["queued", "sending", "unknown"],
})} RETURNING conversation`;

/** Holds every unanswered message and every unsent reply, also confirmations of opt-outs. Messages already present in the platform's
 *  conversations count as delivered. What humans wrote for the platform, and changes of its mode, are given up: done a second
 *  time they would undo what has happened since. Notifications of responders are still sent. `only` limits this to
 *  one channel, and to work older than `before` (epoch milliseconds). */
export async function holdOpenWork(
  q: Query,
  only: { readonly channel: string; readonly before: number } | null,
): Promise<{ readonly messages: number; readonly replies: number }> {
  const which = [only?.channel ?? "", only?.before ?? Number.MAX_SAFE_INTEGER] as const;
  let messages = await q.run(holdEvents, ...which, reason);
  const turns = await q.all<{ id: string; conversation: string }>(failTurns, ...which, reason);
  for (const { id } of turns) messages += await holdEventsOf(q, id);
  await q.run(holdReplies, ...which, reason);
  const drafts = await q.all<{ conversation: string }>(holdDrafts, ...which, reason);
  // Messages of the agent and of humans since then were delivered by the later state of the store.
  await q.run(
    `UPDATE polls SET mark = NULL, position = ${allKnown} WHERE ${ofChannel}
       AND COALESCE((SELECT MAX(made_at) FROM turns WHERE turns.conversation = polls.conversation), 0) < $2`,
    ...which,
  );
  for (const { conversation } of turns) await takeBack(q, conversation, "in");
  for (const { conversation } of drafts) await takeBack(q, conversation, "out");
  return { messages, replies: drafts.length };
}

/** Revokes the lease on the lane, because a write of its holder would undo the hold. */
async function takeBack(q: Query, conversation: string, direction: Direction): Promise<void> {
  await revokeLease(q, conversation, direction);
  await refreshLane(q, conversation, direction);
}

async function holdEventsOf(q: Query, turn: string): Promise<number> {
  return q.run(
    moves("events", "held", {
      set: `code = '${answeredBefore}', reason = $2`,
      where: "turn = $1",
      again: true,
    }),
    turn,
    reason,
  );
}

/** Counts the work that is held for this reason. */
export async function countHeld(q: Query): Promise<{ readonly messages: number; readonly replies: number }> {
  const messages = await q.one<{ count: number }>(
    `SELECT COUNT(*) AS count FROM events WHERE state IN ('ignored', 'held', 'failed') AND state = 'held' AND code = '${answeredBefore}'`,
  );
  const replies = await q.one<{ count: number }>(
    `SELECT COUNT(*) AS count FROM drafts WHERE state = 'held' AND code = '${answeredBefore}'`,
  );
  return { messages: messages?.count ?? 0, replies: replies?.count ?? 0 };
}
