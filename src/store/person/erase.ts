// Erases one person: texts, names and addresses, in the person's conversations, in escalations and notifications about
// them, and wherever else an address of the person is written. The rows stay for counts and deduplication: a mail that
// arrives again is still recognized. Opt-outs stay as keyed hashes (tables/suppressions.ts).

import type { Timing } from "../../ops/timing.ts";
import type { Database, Query } from "../driver.ts";
import { lockLane, refreshLane } from "../lanes.ts";
import { someOperator } from "../tables/actions.ts";
import { hideSuppressions } from "../tables/suppressions.ts";
import { moves, stateWhere } from "../transitions.ts";
import type { PersonRecords } from "./find.ts";
import { type ErasureOrder, recordErasure } from "./ledger.ts";
import { eraseMentions } from "./mentions.ts";

export interface ErasedRows {
  readonly conversations: number;
  readonly messages: number;
  readonly replies: number;
  readonly escalations: number;
  readonly notifications: number;
  /** Rows of other people in which an address was replaced. */
  readonly mentions: number;
  /** Stored bytes: raw messages and files. */
  readonly files: number;
  readonly suppressions: number;
}

export interface Erased {
  readonly rows: ErasedRows;
  /** Longer addresses of other people that contain one of the person's; a search of the files finds them. */
  readonly kept: ReadonlySet<string>;
}

/** Work of the person that a daemon does at this moment. */
export async function countInFlight(q: Query, { conversations }: PersonRecords): Promise<number> {
  let count = 0;
  for (const conversation of conversations) {
    const row = await q.one<{ count: number }>(
      `SELECT (SELECT COUNT(*) FROM turns WHERE conversation = $1 AND state = 'asking')
         + (SELECT COUNT(*) FROM drafts WHERE conversation = $1 AND state = 'sending') AS count`,
      conversation,
    );
    count += row?.count ?? 0;
  }
  return count;
}

/** Erases the person. Each conversation is one transaction, so that a running daemon is never blocked for long; after a
 *  crash, run it again. `done` is called after each part; there are `erasureParts(records)` of them. The erasure is
 *  recorded first (ledger.ts). */
export async function erasePerson(
  db: Database,
  records: PersonRecords,
  done: () => void,
  timing: Pick<Timing, "escalation">,
  order: ErasureOrder = { actor: someOperator, deleted: [] },
): Promise<Erased> {
  await db.tx((q) => recordErasure(q, records, order));
  let [messages, replies, escalations, notifications] = [0, 0, 0, 0];
  for (const conversation of records.conversations) {
    const erased = await db.tx((q) => eraseConversation(q, conversation, timing.escalation));
    messages += erased.messages;
    replies += erased.replies;
    escalations += erased.escalations;
    notifications += erased.notifications;
    done();
  }
  messages += await db.tx((q) => eraseEvents(q, records.events));
  for (const { id } of records.platform) await db.tx((q) => eraseWebhooks(q, id));
  done();
  const suppressions = await db.tx((q) => hideSuppressions(q, records.addresses));
  const mentions = await eraseMentions(db, records.addresses);
  done();
  const files = await db.tx(deleteBlobs);
  done();
  const rows = {
    conversations: records.conversations.length,
    messages,
    replies,
    escalations,
    notifications,
    mentions: mentions.changed,
    files,
    suppressions,
  };
  return { rows, kept: mentions.kept };
}

export const erasureParts = ({ conversations }: PersonRecords): number => conversations.length + 3;

const erased = "erased at the request of the person";

async function eraseConversation(q: Query, conversation: string, timing: Timing["escalation"]) {
  await lockLane(q, conversation, "in");
  await lockLane(q, conversation, "out");
  await q.run(
    moves("turns", "dropped", {
      set: `open = 0, reason = '${erased}', updated_at = now_ms()`,
      where: "conversation = $1",
    }),
    conversation,
  );
  await q.run(moves("replies", "failed", { where: "conversation = $1" }), conversation);
  await q.run(
    moves("drafts", "dropped", {
      set: `open = 0, reconcile_until = NULL, reason = '${erased}', updated_at = now_ms()`,
      where: "conversation = $1 AND state <> 'failed'",
    }),
    conversation,
  );
  const rows = await q.all<{ id: number }>("SELECT id FROM events WHERE conversation = $1", conversation);
  const ids = rows.map(({ id }) => id);
  const messages = await eraseEvents(q, ids);
  const notified = await eraseEscalations(q, conversation, timing);
  const replies = await eraseTexts(q, "conversation = $1", conversation);
  await q.run(
    `DELETE FROM attempts WHERE subject IN (SELECT id FROM turns WHERE conversation = $1)
       OR subject IN (SELECT id FROM drafts WHERE conversation = $1)`,
    conversation,
  );
  await q.run(
    `UPDATE turns SET question = '', context = NULL, opening = NULL, address = '{}', person = '', reply_to = NULL, untagged = NULL,
       queue = NULL, reason = CASE WHEN reason = '${erased}' THEN reason ELSE NULL END WHERE conversation = $1`,
    conversation,
  );
  await q.run("UPDATE drafts SET recipient = '' WHERE conversation = $1", conversation);
  await q.run("DELETE FROM citations WHERE conversation = $1", conversation);
  await q.run("DELETE FROM participants WHERE conversation = $1", conversation);
  await q.run("UPDATE actions SET detail = NULL WHERE conversation = $1", conversation);
  await q.run("DELETE FROM polls WHERE conversation = $1", conversation);
  await q.run("UPDATE sessions SET reason = NULL WHERE conversation = $1", conversation);
  await q.run("UPDATE conversations SET person = '', person_name = NULL, subject = NULL WHERE id = $1", conversation);
  await refreshLane(q, conversation, "in");
  await refreshLane(q, conversation, "out");
  return { messages, replies, ...notified };
}

/** Erases the texts of replies and drafts, and the files sent with them. */
async function eraseTexts(q: Query, where: string, value: string): Promise<number> {
  const replies = `SELECT id FROM replies WHERE ${where}`;
  await q.run(`DELETE FROM files WHERE reply IN (${replies})`, value);
  await q.run(
    `UPDATE drafts SET body = '', heard = NULL,
       reason = CASE WHEN reason = '${erased}' THEN reason ELSE NULL END WHERE reply IN (${replies})`,
    value,
  );
  return q.run(
    `UPDATE replies SET text = '', kept = 0, rendered = NULL, address = NULL, reason = NULL WHERE ${where}`,
    value,
  );
}

async function eraseEvents(q: Query, ids: readonly number[]): Promise<number> {
  // What operators have written about the messages.
  await q.run(
    `UPDATE actions SET detail = NULL WHERE event IN (
       SELECT value FROM json_each($1) -- only: sqlite
       SELECT CAST(json_array_elements_text(CAST($1 AS json)) AS BIGINT) -- only: postgres
     )`,
    JSON.stringify(ids),
  );
  for (const id of ids) {
    await q.run(moves("events", "ignored", { set: "code = 'erased'", where: "id = $1", from: ["stored", "held"] }), id);
    await q.run(
      `UPDATE events SET body = '{}', subject = NULL, sender = NULL, cited = NULL, queue = NULL,
         reason = CASE WHEN code = 'erased' THEN '${erased}' ELSE NULL END WHERE id = $1`,
      id,
    );
    await q.run(
      "DELETE FROM raw_messages WHERE event = $1 AND channel = (SELECT channel FROM events WHERE id = $1)",
      id,
    );
    await q.run(
      "UPDATE attachments SET name = '', blob = NULL, ref = NULL, due_at = NULL, reason = NULL WHERE event = $1",
      id,
    );
  }
  return ids.length;
}

/** Closes the escalations about the conversation, and erases what their notifications and the answers to them quote. */
async function eraseEscalations(q: Query, conversation: string, { replyAfterEnd }: Timing["escalation"]) {
  const rows = await q.all<{ id: string; opened_at: number; closed_at: number | null }>(
    "SELECT id, opened_at, closed_at FROM escalations WHERE conversation = $1",
    conversation,
  );
  let notifications = 0;
  for (const { id, opened_at: from, closed_at: to } of rows) {
    await q.run(moves("escalations", "closed", { set: "closed_at = now_ms(), due_at = NULL", where: "id = $1" }), id);
    await q.run(
      "UPDATE escalations SET reason = '', topic = NULL, acknowledged_by = NULL, closed_by = NULL, due_at = NULL WHERE id = $1",
      id,
    );
    await q.run("UPDATE triggers SET detail = NULL WHERE escalation = $1", id);
    const sent = await q.all<{ reply: string | null }>(
      "SELECT reply FROM notifications WHERE target IN (SELECT id FROM notification_targets WHERE escalation = $1)",
      id,
    );
    for (const { reply } of sent.filter((one) => one.reply !== null)) await eraseNotification(q, reply ?? "");
    notifications += sent.length;
    await q.run(
      `UPDATE notifications SET text = NULL, due_at = NULL, subject = CASE WHEN kind = 'acknowledged' THEN id ELSE subject END
       WHERE target IN (SELECT id FROM notification_targets WHERE escalation = $1)`,
      id,
    );
    // A responder's answer usually quotes the notification.
    const answers = await q.all<{ id: number }>(
      `SELECT id FROM events WHERE kind = 'message' AND received_at >= $2 AND received_at <= $3
         AND conversation IN (SELECT conversation FROM notification_targets WHERE escalation = $1)`,
      id,
      from,
      (to ?? Number.MAX_SAFE_INTEGER / 2) + replyAfterEnd,
    );
    await eraseEvents(
      q,
      answers.map((answer) => answer.id),
    );
    await q.run("UPDATE notification_targets SET link = NULL, link_until = NULL WHERE escalation = $1", id);
  }
  return { escalations: rows.length, notifications };
}

async function eraseNotification(q: Query, reply: string): Promise<void> {
  const lanes = await q.all<{ conversation: string }>(
    "SELECT DISTINCT conversation FROM drafts WHERE reply = $1 ORDER BY conversation",
    reply,
  );
  // Like the daemon, which locks a lane before it changes its drafts.
  for (const { conversation } of lanes) await lockLane(q, conversation, "out");
  await q.run(
    moves("drafts", "dropped", {
      set: `open = 0, reason = '${erased}', updated_at = now_ms()`,
      where: "reply = $1 AND state <> 'failed'",
    }),
    reply,
  );
  await q.run("DELETE FROM attempts WHERE subject IN (SELECT id FROM drafts WHERE reply = $1)", reply);
  await q.run(moves("replies", "failed", { where: "id = $1" }), reply);
  await eraseTexts(q, "id = $1", reply);
  for (const { conversation } of lanes) await refreshLane(q, conversation, "out");
}

/** Deliveries of the platform's webhooks about the conversation. One that waits will find nothing. */
async function eraseWebhooks(q: Query, platformId: string): Promise<number> {
  return q.run(
    `UPDATE platform_webhooks SET body = '', due_at = NULL, ${stateWhere("platform_webhooks", "lost")}
     WHERE body LIKE '%' || $1 || '%'`,
    platformId,
  );
}

/** Deletes bytes without references. */
async function deleteBlobs(q: Query): Promise<number> {
  return q.run(
    `DELETE FROM blobs WHERE NOT EXISTS (SELECT 1 FROM attachments WHERE attachments.blob = blobs.id)
       AND NOT EXISTS (SELECT 1 FROM files WHERE files.blob = blobs.id)`,
  );
}
