// Files that go out with a person's answer. The bytes are those of the message they came with, shared by their digest, and
// stay for as long as a draft may need them.

import type { Query } from "./driver.ts";

/** An attachment that the person meant to hand over. */
export interface MeantFile {
  readonly name: string;
  readonly media_type: string;
  /** Bytes; null when that is not known. */
  readonly size: number | null;
  /** Null while there are no bytes. */
  readonly blob: string | null;
  /** Why there are none, or not yet. */
  readonly reason: string | null;
}

/** One whose bytes are there. */
export interface ReadyFile extends MeantFile {
  readonly size: number;
  readonly blob: string;
}

/** In the order of the message. */
export async function meantFiles(q: Query, event: number): Promise<MeantFile[]> {
  return q.all<MeantFile>(
    "SELECT name, media_type, size, blob, reason FROM attachments WHERE event = $1 AND meant = 1 ORDER BY position",
    event,
  );
}

/** Goes out with that reply. */
export async function insertFiles(q: Query, reply: string, files: readonly ReadyFile[]): Promise<void> {
  for (const [position, file] of files.entries()) {
    await q.run(
      "INSERT INTO files (reply, position, name, media_type, size, blob) VALUES ($1, $2, $3, $4, $5, $6)",
      reply,
      position,
      file.name,
      file.media_type,
      file.size,
      file.blob,
    );
  }
}

/** What goes out with a reply, in its order. Throws when bytes of it were forgotten. */
export async function filesOf(q: Query, reply: string): Promise<ReadyFile[]> {
  const rows = await q.all<MeantFile & { readonly size: number }>(
    "SELECT name, media_type, size, blob, NULL AS reason FROM files WHERE reply = $1 ORDER BY position",
    reply,
  );
  return rows.map((row) => {
    if (row.blob === null) throw new Error(`reply ${reply}: its files were forgotten (retention)`);
    return { ...row, blob: row.blob };
  });
}

/** The bytes of one of the reply's files; null when it has no such file (any more). */
export async function readFile(q: Query, reply: string, blob: string): Promise<Uint8Array | null> {
  const row = await q.one<{ bytes: Uint8Array }>(
    `SELECT bytes FROM blobs WHERE id = $2 AND EXISTS (SELECT 1 FROM files WHERE reply = $1 AND blob = $2)`,
    reply,
    blob,
  );
  return row?.bytes ?? null;
}

/** Bytes of what went out that long ago, or will not go out; an operator's resend of a draft begins a new time. Names go
 *  with the reply's words. At most `limit` of each. */
export async function forgetFiles(q: Query, ageMs: number, limit: number): Promise<number> {
  const bytes = await q.run(
    `UPDATE files SET blob = NULL WHERE blob IS NOT NULL AND reply IN (
       SELECT replies.id FROM files old JOIN replies ON replies.id = old.reply
       WHERE old.blob IS NOT NULL AND replies.state <> 'ready' AND replies.created_at < now_ms() - $1
         AND NOT EXISTS (SELECT 1 FROM drafts WHERE drafts.reply = replies.id AND (drafts.open = 1
           OR drafts.state NOT IN ('sent', 'delivered', 'failed', 'dropped') OR drafts.updated_at >= now_ms() - $1))
       LIMIT ${limit})`,
    ageMs,
  );
  const names = await q.run(
    `DELETE FROM files WHERE blob IS NULL AND reply IN (
       SELECT old.reply FROM files old WHERE old.blob IS NULL
         AND EXISTS (SELECT 1 FROM replies WHERE replies.id = old.reply AND replies.text = '') LIMIT ${limit})`,
  );
  return bytes + names;
}
