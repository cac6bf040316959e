// Retention: erases raw messages first, and later the text of completed work. Deduplication data (ids and
// fingerprints) stays, so that an old email that arrives again is still detected.

import type { RetentionAges } from "../domain/retention.ts";
import { listOf, type Query } from "./driver.ts";
import { channelsIn } from "./due.ts";
import { erasureAction } from "./person/ledger.ts";
import { lockChannel } from "./tables/events.ts";
import { forgetFiles } from "./tables/files.ts";

/** Rows per batch. A small batch hardly delays other transactions. */
const batch = 200;

/** Number of rows that one call erased or deleted, by kind; all zero when nothing is left. */
export interface Forgotten {
  readonly raw: number;
  readonly attachments: number;
  /** Files sent with answers. */
  readonly files: number;
  /** Blobs without references. */
  readonly blobs: number;
  readonly events: number;
  readonly turns: number;
  /** With their drafts. */
  readonly replies: number;
  readonly escalations: number;
  /** Deliveries of the platform's webhooks. */
  readonly platformWebhooks: number;
  /** Recorded actions of operators. */
  readonly actions: number;
  /** Checked conversations: their personal data was erased, or they are still active. */
  readonly people: number;
}

/** The ages of a store: those of the configuration, and stricter ones of single agents. */
export interface RetentionRules extends Omit<RetentionAges, "peopleMs"> {
  /** Default: `eventsMs`. */
  readonly peopleMs?: number;
  /** By channel. */
  readonly channels?: ReadonlyMap<string, RetentionAges>;
  /** By agent, for what belongs to no channel. */
  readonly agents?: ReadonlyMap<string, RetentionAges>;
}

/** Erases what is older than its age. At most one batch of each kind: call again until all counts are zero.
 *  Conversations with old work that is held or stuck are checked again after `recheckMs`. Unfinished work is never
 *  erased. */
export async function forget(q: Query, rules: RetentionRules, recheckMs: number): Promise<Forgotten> {
  const own = { ...rules, peopleMs: rules.peopleMs ?? rules.eventsMs };
  const of = (channel: string): RetentionAges => rules.channels?.get(channel) ?? own;
  const raw = (channel: string) => of(channel).rawMs;
  const text = (channel: string) => of(channel).eventsMs;
  const all = [rules, ...(rules.channels?.values() ?? [])];
  const strictest = {
    rawMs: Math.min(...all.map(({ rawMs }) => rawMs)),
    // Notifications quote customers of any agent, on any channel.
    eventsMs: Math.min(...all.map(({ eventsMs }) => eventsMs)),
  };
  return {
    raw: await inEach(q, "raw_messages", "event > 0", raw, forgetRaw),
    attachments: await inEach(q, "attachments", "(blob IS NOT NULL OR ref IS NOT NULL)", raw, forgetAttachments),
    files: await forgetFiles(q, raw, batch),
    blobs: await forgetBlobs(q, strictest.rawMs),
    events: await inEach(q, "events", "body <> '{}'", text, forgetEvents),
    turns: await inEach(q, "turns", "question <> ''", text, forgetTurns),
    replies:
      (await inEach(q, "replies", "kept = 1", text, forgetReplies)) +
      (await forgetReplies(q, null, strictest.eventsMs, batch)),
    escalations: await inEach(q, "escalations", "closed_by IS NOT NULL", text, forgetEscalations),
    platformWebhooks: await inEach(
      q,
      "platform_webhooks",
      "body <> ''",
      (agent) => (rules.agents?.get(agent) ?? rules).eventsMs,
      erasePlatformWebhooks,
    ),
    actions: await inEach(q, "actions", "made_at > 0", text, deleteActions),
    people: await inEach(
      q,
      "conversations",
      "person <> ''",
      (channel) => of(channel).peopleMs,
      (...args) => forgetPeople(...args, recheckMs),
    ),
  };
}

/** Runs `erase` for each channel with rows that satisfy `condition`, until a batch is full. Returns the number of rows.
 *  The condition is that of a partial index on (channel, time). */
async function inEach(
  q: Query,
  table: Parameters<typeof channelsIn>[0],
  condition: string,
  ageOf: (channel: string) => number,
  erase: string | ((q: Query, channel: string, ageMs: number, limit: number) => Promise<number>),
): Promise<number> {
  let done = 0;
  for (const { channel } of await q.all<{ channel: string }>(channelsIn(table, condition))) {
    const values = [channel, ageOf(channel), batch - done] as const;
    if (done < batch) done += await (typeof erase === "string" ? q.run(erase, ...values) : erase(q, ...values));
  }
  return done;
}

// Statements of `inEach`. $1: the channel (or agent); $2: the age in milliseconds; $3: the number of rows.

const erasePlatformWebhooks = `UPDATE platform_webhooks SET body = ''
  WHERE body <> '' AND state <> 'stored' AND (agent, id) IN (
    SELECT agent, id FROM platform_webhooks WHERE agent = $1 AND body <> '' AND state <> 'stored'
      AND received_at < now_ms() - $2 ORDER BY received_at LIMIT $3)`;

// The record of an erasure has no data of the person, and a restore of an old backup needs it.
const deleteActions = `DELETE FROM actions WHERE id IN (
  SELECT id FROM actions WHERE channel = $1 AND made_at > 0 AND made_at < now_ms() - $2 AND action <> '${erasureAction}'
  ORDER BY made_at LIMIT $3)`;

/** SQL: true for an event that waits for its decision, for an operator, or with its turn: for example while its channel is
 *  paused, after which the message may be held for its age. */
const isUnfinished = `(events.state IN ('stored', 'held')
     OR EXISTS (SELECT 1 FROM turns WHERE turns.id = events.turn AND turns.open = 1))`;

/** Erases events with the names of their attachments. Only events in state `stored` are ordered by `queue`. Reasons may
 *  quote the sender. */
async function forgetEvents(q: Query, channel: string, ageMs: number, limit: number): Promise<number> {
  const rows = await q.all<{ id: number }>(
    `UPDATE events SET body = '{}', subject = NULL, sender = NULL, queue = NULL, reason = NULL WHERE id IN (
       SELECT id FROM events WHERE channel = $1 AND body <> '{}' AND received_at < now_ms() - $2
         AND NOT ${isUnfinished} ORDER BY received_at LIMIT $3) RETURNING id`,
    channel,
    ageMs,
    limit,
  );
  await q.run(
    `UPDATE attachments SET name = '', reason = NULL
     WHERE event IN (SELECT CAST(value AS BIGINT) FROM json_each($1)) -- only: sqlite
     WHERE event = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS json)) AS BIGINT))) -- only: postgres`,
    listOf(rows.map(({ id }) => String(id))),
  );
  return rows.length;
}

/** Returns the first young event of the channel. Event ids increase in order of arrival, so all events before it are
 *  old. One that arrived while the clock was ahead does not count: it would keep all later ones. */
async function firstYoung(q: Query, channel: string, ageMs: number): Promise<number> {
  const young = await q.one<{ id: number }>(
    `SELECT id FROM events WHERE channel = $1 AND body <> '{}' AND received_at >= now_ms() - $2 AND received_at <= now_ms()
     ORDER BY received_at LIMIT 1`,
    channel,
    ageMs,
  );
  return young?.id ?? Number.MAX_SAFE_INTEGER;
}

async function forgetRaw(q: Query, channel: string, ageMs: number, limit: number): Promise<number> {
  return q.run(
    `DELETE FROM raw_messages WHERE channel = $1 AND event IN (
       SELECT raw_messages.event FROM raw_messages JOIN events ON events.id = raw_messages.event
       WHERE raw_messages.channel = $1 AND raw_messages.event < $2 AND events.received_at < now_ms() - $3
         AND NOT ${isUnfinished} ORDER BY raw_messages.event LIMIT $4)`,
    channel,
    await firstYoung(q, channel, ageMs),
    ageMs,
    limit,
  );
}

/** Erases the bytes and the download references of attachments. */
async function forgetAttachments(q: Query, channel: string, ageMs: number, limit: number): Promise<number> {
  const rows = await q.all<{ event: number; position: number }>(
    `SELECT attachments.event, attachments.position FROM attachments JOIN events ON events.id = attachments.event
     WHERE attachments.channel = $1 AND (attachments.blob IS NOT NULL OR attachments.ref IS NOT NULL) AND attachments.event < $2
       AND events.received_at < now_ms() - $3
       AND NOT ${isUnfinished} ORDER BY attachments.event LIMIT $4`,
    channel,
    await firstYoung(q, channel, ageMs),
    ageMs,
    limit,
  );
  for (const { event, position } of rows) {
    await q.run(
      "UPDATE attachments SET blob = NULL, ref = NULL, due_at = NULL WHERE event = $1 AND position = $2",
      event,
      position,
    );
  }
  return rows.length;
}

/** Deletes blobs without references; bytes shared by several messages stay until the last one is erased. */
async function forgetBlobs(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `DELETE FROM blobs WHERE id IN (
       SELECT id FROM blobs WHERE stored_at < now_ms() - $1
         AND NOT EXISTS (SELECT 1 FROM attachments WHERE attachments.blob = blobs.id)
         AND NOT EXISTS (SELECT 1 FROM files WHERE files.blob = blobs.id)
       ORDER BY stored_at LIMIT ${batch})`,
    ageMs,
  );
}

/** Skips turns whose reply is not composed yet, because the reply uses the turn's address, and turns of held messages,
 *  because a release asks them again. Without `queue`, younger messages of the sender are ordered as if this one had not
 *  been asked. */
async function forgetTurns(q: Query, channel: string, ageMs: number, limit: number): Promise<number> {
  const rows = await q.all<{ id: string }>(
    `UPDATE turns SET question = '', context = NULL, address = '{}', queue = NULL, reason = NULL WHERE id IN (
       SELECT id FROM turns WHERE channel = $1 AND question <> '' AND received_at < now_ms() - $2 AND open = 0
         AND state IN ('answered', 'silent', 'failed', 'dropped')
         AND NOT EXISTS (SELECT 1 FROM replies WHERE replies.turn = turns.id AND replies.state = 'ready')
         AND NOT EXISTS (SELECT 1 FROM events WHERE events.turn = turns.id AND events.state IN ('stored', 'held'))
       ORDER BY received_at LIMIT $3) RETURNING id`,
    channel,
    ageMs,
    limit,
  );
  return forgetAttempts(q, rows);
}

/** Erases replies with their drafts, as soon as none of the drafts is open, held by an operator, or younger than that age.
 *  `channel` null: those to responders, on all channels. */
async function forgetReplies(q: Query, channel: string | null, ageMs: number, limit: number): Promise<number> {
  const replies = await q.all<{ id: string }>(
    `UPDATE replies SET text = '', rendered = NULL, address = NULL, reason = NULL, kept = 0 WHERE id IN (
       SELECT id FROM replies WHERE ${channel === null ? "internal = 1 AND $1 = ''" : "channel = $1"} AND kept = 1
         AND created_at < now_ms() - $2 AND state <> 'ready' AND NOT EXISTS (
           SELECT 1 FROM drafts WHERE drafts.reply = replies.id AND (open = 1 OR updated_at >= now_ms() - $2
             OR drafts.state NOT IN ('sent', 'delivered', 'failed', 'dropped')))
       ORDER BY created_at LIMIT $3) RETURNING id`,
    channel ?? "",
    ageMs,
    limit,
  );
  for (const { id } of replies)
    await forgetAttempts(
      q,
      await q.all("UPDATE drafts SET body = '', heard = NULL, reason = NULL WHERE reply = $1 RETURNING id", id),
    );
  return replies.length;
}

/** Deletes attempts, because the providers' responses may contain names. */
async function forgetAttempts(q: Query, subjects: readonly { readonly id: string }[]): Promise<number> {
  for (const { id } of subjects) await q.run("DELETE FROM attempts WHERE subject = $1", id);
  return subjects.length;
}

/** Erases the names and addresses of conversations without activity for that time; the rows stay. While an escalation
 *  is not closed, its customer and its notified responders can still be answered. An active conversation is checked
 *  again when it may be old enough. The channel's lock excludes routing during this work. */
async function forgetPeople(
  q: Query,
  channel: string,
  ageMs: number,
  limit: number,
  recheckMs: number,
): Promise<number> {
  const rows = await q.all<{ id: string }>(
    `SELECT id FROM conversations WHERE channel = $1 AND person <> '' AND seen_at < now_ms() - $2
     ORDER BY seen_at LIMIT $3`,
    channel,
    ageMs,
    limit,
  );
  if (rows.length === 0 || !(await lockChannel(q, channel))) return 0;
  for (const { id } of rows) await forgetParticipants(q, id, ageMs, recheckMs);
  return rows.length;
}

async function forgetParticipants(q: Query, conversation: string, ageMs: number, recheckMs: number): Promise<void> {
  const found = await q.one<{ seen_at: number | null; kept: number | null }>(
    `SELECT MAX(at) AS seen_at, MAX(kept) AS kept FROM (
       SELECT received_at AS at, CASE WHEN open = 1 OR question <> '' THEN 1 ELSE 0 END AS kept
       FROM turns WHERE conversation = $1
       UNION ALL
       SELECT created_at AS at, CASE WHEN text <> '' THEN 1 ELSE 0 END AS kept FROM replies WHERE conversation = $1
       UNION ALL
       SELECT updated_at AS at, CASE WHEN open = 1 OR body <> '' THEN 1 ELSE 0 END AS kept
       FROM drafts WHERE conversation = $1
       UNION ALL
       SELECT opened_at AS at, 1 AS kept FROM escalations WHERE conversation = $1 AND state <> 'closed'
       UNION ALL
       SELECT opened_at AS at, 1 AS kept FROM notification_targets JOIN escalations ON escalations.id = notification_targets.escalation
       WHERE notification_targets.conversation = $1 AND state <> 'closed'
     ) AS said`,
    conversation,
  );
  if (found?.kept === 1) {
    await q.run(
      `UPDATE conversations SET seen_at = CASE WHEN $2 > now_ms() - $3 THEN $2 ELSE now_ms() - $3 + $4 END
       WHERE id = $1`,
      conversation,
      found.seen_at,
      ageMs,
      recheckMs,
    );
    return;
  }
  await q.run("UPDATE conversations SET person = '', person_name = NULL, subject = NULL WHERE id = $1", conversation);
  await q.run("DELETE FROM participants WHERE conversation = $1", conversation);
  await q.run("DELETE FROM polls WHERE conversation = $1", conversation);
  // A turn without a question, such as one that opens a conversation, is erased here.
  const turns = await q.all<{ id: string }>(
    `UPDATE turns SET person = '', reply_to = NULL, untagged = NULL, queue = NULL, opening = NULL, context = NULL, address = '{}', reason = NULL
     WHERE conversation = $1 RETURNING id`,
    conversation,
  );
  await forgetAttempts(q, turns);
  await q.run("UPDATE drafts SET recipient = '' WHERE conversation = $1", conversation);
}

// Closed escalations. The rows stay for the counts of `bridgehead escalation`, and because a new escalation
// about the same subject looks for the newest one. Keys of triggers and ids of deliveries stay too, so that
// duplicates are still detected. Texts, names and addresses are erased.

/** Erases escalations closed longer than `ageMs` (milliseconds), at most one batch, and returns their
 *  number. `closed_by` marks those that remain to be erased. */
async function forgetEscalations(q: Query, channel: string, ageMs: number, limit: number): Promise<number> {
  const rows = await q.all<{ id: string }>(
    `UPDATE escalations SET reason = '', acknowledged_by = NULL, closed_by = NULL WHERE id IN (
       SELECT id FROM escalations WHERE channel = $1 AND closed_by IS NOT NULL AND state = 'closed'
         AND closed_at < now_ms() - $2 ORDER BY closed_at LIMIT $3) RETURNING id`,
    channel,
    ageMs,
    limit,
  );
  for (const { id } of rows) await forgetTargets(q, id);
  return rows.length;
}

/** Notification targets and notifications keep their channel and conversation, so a reply to a notification is never
 *  routed as a customer message, even after years. */
async function forgetTargets(q: Query, escalation: string): Promise<void> {
  await q.run("UPDATE triggers SET detail = NULL WHERE escalation = $1", escalation);
  await q.run(
    `UPDATE notifications SET text = NULL, due_at = NULL, subject = CASE WHEN kind = 'acknowledged' THEN id ELSE subject END
     WHERE target IN (SELECT id FROM notification_targets WHERE escalation = $1)`,
    escalation,
  );
  await q.run(
    `UPDATE notification_targets SET person = '', name = '', address = id, link = NULL, link_until = NULL
     WHERE escalation = $1`,
    escalation,
  );
}
