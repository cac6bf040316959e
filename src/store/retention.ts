// Forgetting: raw messages after a while, the words of what is settled later. What dedupe needs (ids and fingerprints)
// stays, so that an old mail that turns up again is still known.

import type { Query } from "./driver.ts";

/** So few that other transactions hardly wait. */
const batch = 200;

/** How many rows one call emptied or removed, by kind; all zero when there is nothing left to do. */
export interface Forgotten {
  /** Raw messages that were let go of. */
  readonly raw: number;
  readonly attachments: number;
  /** Bytes that nobody refers to any more. */
  readonly blobs: number;
  readonly events: number;
  readonly turns: number;
  readonly replies: number;
  readonly drafts: number;
}

/** Forgets raw messages and attachments after `rawMs`, and the words of what is settled after `eventsMs` (milliseconds,
 *  by the database's clock). At most one batch of each kind: call again until all counts are zero. */
export async function forget(
  q: Query,
  ages: { readonly rawMs: number; readonly eventsMs: number },
): Promise<Forgotten> {
  return {
    raw: await forgetRaw(q, ages.rawMs),
    attachments: await forgetAttachments(q, ages.rawMs),
    blobs: await forgetBlobs(q, ages.rawMs),
    events: await forgetEvents(q, ages.eventsMs),
    turns: await forgetTurns(q, ages.eventsMs),
    replies: await forgetReplies(q, ages.eventsMs),
    drafts: await forgetDrafts(q, ages.eventsMs),
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

async function forgetAttachments(q: Query, ageMs: number): Promise<number> {
  const rows = await q.all<{ event: number; position: number }>(
    `SELECT attachments.event, attachments.position FROM attachments
     JOIN blobs ON blobs.id = attachments.blob JOIN events ON events.id = attachments.event
     WHERE blobs.stored_at < now_ms() - $1 AND events.received_at < now_ms() - $1
       AND events.state NOT IN ('stored', 'held') LIMIT ${batch}`,
    ageMs,
  );
  for (const { event, position } of rows) {
    await q.run("UPDATE attachments SET blob = NULL WHERE event = $1 AND position = $2", event, position);
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
  return q.run(
    `UPDATE turns SET question = '', context = NULL, address = '{}' WHERE id IN (
       SELECT id FROM turns WHERE question <> '' AND received_at < now_ms() - $1 AND open = 0
         AND state IN ('answered', 'silent', 'failed')
         AND NOT EXISTS (SELECT 1 FROM replies WHERE replies.turn = turns.id AND replies.state = 'ready')
       ORDER BY received_at LIMIT ${batch})`,
    ageMs,
  );
}

async function forgetReplies(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `UPDATE replies SET text = '' WHERE id IN (
       SELECT id FROM replies WHERE text <> '' AND created_at < now_ms() - $1 AND state <> 'ready'
       ORDER BY created_at LIMIT ${batch})`,
    ageMs,
  );
}

/** A held draft waits for its operator, however long. */
async function forgetDrafts(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `UPDATE drafts SET body = '' WHERE id IN (
       SELECT id FROM drafts WHERE body <> '' AND updated_at < now_ms() - $1 AND open = 0
         AND state IN ('sent', 'delivered', 'failed', 'dropped')
       ORDER BY updated_at LIMIT ${batch})`,
    ageMs,
  );
}
