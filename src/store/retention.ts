// Forgetting: raw messages after a while, the words of what is settled later. What dedupe needs (ids and fingerprints)
// stays, so that an old mail that turns up again is still known.

import { forgetEscalations, forgetIntakes } from "./closed-escalations.ts";
import type { Query } from "./driver.ts";
import { lockChannel } from "./events.ts";
import { forgetFiles } from "./files.ts";

/** So few that other transactions hardly wait. */
const batch = 200;

/** How many rows one call emptied or removed, by kind; all zero when there is nothing left to do. */
export interface Forgotten {
  /** Raw messages that were let go of. */
  readonly raw: number;
  readonly attachments: number;
  /** Files that went out with answers. */
  readonly files: number;
  /** Bytes that nobody refers to any more. */
  readonly blobs: number;
  readonly events: number;
  readonly turns: number;
  readonly replies: number;
  readonly drafts: number;
  readonly escalations: number;
  /** Deliveries of the platform's webhooks. */
  readonly intakes: number;
  /** Conversations that were looked at: whose people were forgotten, or which turned out to be alive. */
  readonly people: number;
}

/** Forgets raw messages and attachments after `rawMs`, and after `eventsMs` the words of what is settled, and who wrote
 *  them (milliseconds, by the database's clock). At most one batch of each kind: call again until all counts are zero. */
export async function forget(
  q: Query,
  ages: { readonly rawMs: number; readonly eventsMs: number },
): Promise<Forgotten> {
  return {
    raw: await forgetRaw(q, ages.rawMs),
    attachments: await forgetAttachments(q, ages.rawMs),
    files: await forgetFiles(q, ages.rawMs, batch),
    blobs: await forgetBlobs(q, ages.rawMs),
    events: await forgetEvents(q, ages.eventsMs),
    turns: await forgetTurns(q, ages.eventsMs),
    replies: await forgetReplies(q, ages.eventsMs),
    drafts: await forgetDrafts(q, ages.eventsMs),
    escalations: await forgetEscalations(q, ages.eventsMs),
    intakes: await forgetIntakes(q, ages.eventsMs),
    people: await forgetPeople(q, ages.eventsMs),
  };
}

async function forgetRaw(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `UPDATE events SET raw = NULL WHERE id IN (
       SELECT id FROM events WHERE raw IS NOT NULL AND received_at < now_ms() - $1 AND state NOT IN ('stored', 'held')
       ORDER BY received_at LIMIT ${batch})`,
    ageMs,
  );
}

/** Bytes, and where bytes were to be fetched from. Events are numbered in the order of their arrival: those before the
 *  first young one are the old ones. */
async function forgetAttachments(q: Query, ageMs: number): Promise<number> {
  const young = await q.one<{ id: number }>(
    "SELECT id FROM events WHERE body <> '{}' AND received_at >= now_ms() - $1 ORDER BY received_at LIMIT 1",
    ageMs,
  );
  const rows = await q.all<{ event: number; position: number }>(
    `SELECT attachments.event, attachments.position FROM attachments JOIN events ON events.id = attachments.event
     WHERE (attachments.blob IS NOT NULL OR attachments.ref IS NOT NULL) AND attachments.event < $1 AND events.received_at < now_ms() - $2
       AND events.state NOT IN ('stored', 'held') ORDER BY attachments.event LIMIT ${batch}`,
    young?.id ?? Number.MAX_SAFE_INTEGER,
    ageMs,
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

/** Bytes that several messages share live as long as the last of them. */
async function forgetBlobs(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `DELETE FROM blobs WHERE id IN (
       SELECT id FROM blobs WHERE stored_at < now_ms() - $1
         AND NOT EXISTS (SELECT 1 FROM events WHERE events.raw = blobs.id)
         AND NOT EXISTS (SELECT 1 FROM attachments WHERE attachments.blob = blobs.id)
         AND NOT EXISTS (SELECT 1 FROM files WHERE files.blob = blobs.id)
       ORDER BY stored_at LIMIT ${batch})`,
    ageMs,
  );
}

async function forgetEvents(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `UPDATE events SET body = '{}', subject = NULL, sender = NULL WHERE id IN (
       SELECT id FROM events WHERE body <> '{}' AND received_at < now_ms() - $1 AND state NOT IN ('stored', 'held')
       ORDER BY received_at LIMIT ${batch})`,
    ageMs,
  );
}

/** Not while its reply waits to be composed: the reply's address is the turn's. */
async function forgetTurns(q: Query, ageMs: number): Promise<number> {
  const rows = await q.all<{ id: string }>(
    `UPDATE turns SET question = '', context = NULL, address = '{}' WHERE id IN (
       SELECT id FROM turns WHERE question <> '' AND received_at < now_ms() - $1 AND open = 0
         AND state IN ('answered', 'silent', 'failed', 'dropped')
         AND NOT EXISTS (SELECT 1 FROM replies WHERE replies.turn = turns.id AND replies.state = 'ready')
       ORDER BY received_at LIMIT ${batch}) RETURNING id`,
    ageMs,
  );
  return forgetAttempts(q, rows);
}

async function forgetReplies(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `UPDATE replies SET text = '', address = NULL WHERE id IN (
       SELECT id FROM replies WHERE text <> '' AND created_at < now_ms() - $1 AND state <> 'ready'
       ORDER BY created_at LIMIT ${batch})`,
    ageMs,
  );
}

/** A held draft waits for its operator, however long. */
async function forgetDrafts(q: Query, ageMs: number): Promise<number> {
  const rows = await q.all<{ id: string }>(
    `UPDATE drafts SET body = '', heard = NULL WHERE id IN (
       SELECT id FROM drafts WHERE body <> '' AND updated_at < now_ms() - $1 AND open = 0
         AND state IN ('sent', 'delivered', 'failed', 'dropped')
       ORDER BY updated_at LIMIT ${batch}) RETURNING id`,
    ageMs,
  );
  return forgetAttempts(q, rows);
}

/** What the providers said of them may name people. */
async function forgetAttempts(q: Query, subjects: readonly { readonly id: string }[]): Promise<number> {
  for (const { id } of subjects) await q.run("DELETE FROM attempts WHERE subject = $1", id);
  return subjects.length;
}

/** Conversations in which nothing was said for so long lose the names and addresses of their people; the rows stay.
 *  While an escalation is not closed, its customer and those who were told of it can be answered. One that is alive is
 *  looked at again when it can be old enough. Routing is kept out of the channel meanwhile. */
async function forgetPeople(q: Query, ageMs: number): Promise<number> {
  const rows = await q.all<{ id: string; channel: string }>(
    `SELECT id, channel FROM conversations WHERE person <> '' AND seen_at < now_ms() - $1
     ORDER BY seen_at LIMIT ${batch}`,
    ageMs,
  );
  const locked = new Map<string, boolean>();
  let looked = 0;
  for (const { id, channel } of rows) {
    if (!locked.has(channel)) locked.set(channel, await lockChannel(q, channel));
    if (!locked.get(channel)) continue;
    await forgetParticipants(q, id, ageMs);
    looked += 1;
  }
  return looked;
}

const day = 86_400_000;

async function forgetParticipants(q: Query, conversation: string, ageMs: number): Promise<void> {
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
       SELECT opened_at AS at, 1 AS kept FROM contacts JOIN escalations ON escalations.id = contacts.escalation
       WHERE contacts.conversation = $1 AND state <> 'closed'
     ) AS said`,
    conversation,
  );
  if (found?.kept === 1) {
    // Something old that is held or stuck is looked at once a day.
    await q.run(
      `UPDATE conversations SET seen_at = CASE WHEN $2 > now_ms() - $3 THEN $2 ELSE now_ms() - $3 + ${day} END
       WHERE id = $1`,
      conversation,
      found.seen_at,
      ageMs,
    );
    return;
  }
  await q.run(
    "UPDATE conversations SET person = '', person_name = NULL, subject = NULL WHERE id = $1",
    conversation,
  );
  await q.run("DELETE FROM participants WHERE conversation = $1", conversation);
  await q.run("DELETE FROM watches WHERE conversation = $1", conversation);
  // What we began with has no question that could be forgotten.
  await q.run(
    `UPDATE turns SET person = '', opening = NULL, address = CASE WHEN opening IS NULL THEN address ELSE '{}' END
     WHERE conversation = $1`,
    conversation,
  );
  await q.run("UPDATE drafts SET recipient = '' WHERE conversation = $1", conversation);
}
