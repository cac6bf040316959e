// Forgetting: raw messages after a while, the words of closed conversations later. What dedupe needs (ids and
// fingerprints) stays, so that an old mail that turns up again is still known.

import type { Query } from "./driver.ts";

const batch = 200;

export interface Forgotten {
  readonly raw: number;
  readonly bodies: number;
  /** There may be more: call again. */
  readonly more: boolean;
}

/** One bounded batch. Ages in milliseconds. */
export async function forget(q: Query, ages: { readonly rawMs: number; readonly eventsMs: number }): Promise<Forgotten> {
  const raw = await forgetRaw(q, ages.rawMs);
  const bodies = await forgetBodies(q, ages.eventsMs);
  return { raw, bodies, more: raw === batch || bodies === batch };
}

async function forgetRaw(q: Query, ageMs: number): Promise<number> {
  const rows = await q.all<{ id: number; raw: string }>(
    `SELECT id, raw FROM events WHERE raw IS NOT NULL AND received_at < now_ms() - $1
       AND state NOT IN ('stored', 'held') ORDER BY received_at LIMIT $2`,
    ageMs,
    batch,
  );
  for (const { id, raw } of rows) {
    const blobs = await q.all<{ blob: string | null }>("SELECT blob FROM attachments WHERE event = $1", id);
    await q.run("UPDATE events SET raw = NULL WHERE id = $1", id);
    await q.run("UPDATE attachments SET blob = NULL WHERE event = $1", id);
    for (const blob of [raw, ...blobs.map((row) => row.blob)]) if (blob) await dropBlob(q, blob);
  }
  return rows.length;
}

async function dropBlob(q: Query, blob: string): Promise<void> {
  await q.run(
    `DELETE FROM blobs WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM events WHERE raw = $1)
       AND NOT EXISTS (SELECT 1 FROM attachments WHERE blob = $1)`,
    blob,
  );
}

const forgotten = "{}";

async function forgetBodies(q: Query, ageMs: number): Promise<number> {
  const rows = await q.all<{ id: number }>(
    `SELECT id FROM events WHERE received_at < now_ms() - $1 AND body <> '${forgotten}' AND state NOT IN ('stored', 'held')
       AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.event = events.id AND open = 1) ORDER BY received_at LIMIT $2`,
    ageMs,
    batch,
  );
  for (const { id } of rows) {
    await q.run(`UPDATE events SET body = '${forgotten}', subject = NULL, sender = NULL WHERE id = $1`, id);
    await q.run("UPDATE drafts SET body = 'null' WHERE open = 0 AND reply IN (SELECT id FROM replies WHERE turn IN (SELECT id FROM turns WHERE event = $1))", id);
    await q.run("UPDATE replies SET text = '' WHERE turn IN (SELECT id FROM turns WHERE event = $1)", id);
    await q.run("UPDATE turns SET question = '', context = NULL WHERE event = $1", id);
  }
  return rows.length;
}
