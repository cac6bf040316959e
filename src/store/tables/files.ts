// Files that are sent with a human's answer. Their bytes are those of the message with which they came,
// shared by digest, and stay as long as a draft may need them.

import type { Query } from "../driver.ts";

/** An attachment that the sender attached intentionally. */
export interface AttachedFile extends AttachmentRow {
  /** Null while the bytes are not available. */
  readonly blob: string | null;
  /** Reason why the bytes are missing or delayed. */
  readonly reason: string | null;
}

/** A file whose bytes are available. */
export interface ReadyFile extends AttachedFile {
  readonly size: number;
  readonly blob: string;
}

/** Returns the files in the order of the message. */
export async function attachedFiles(q: Query, event: number): Promise<AttachedFile[]> {
  return q.all<AttachedFile>(
    "SELECT name, media_type, size, blob, reason FROM attachments WHERE event = $1 AND meant = 1 ORDER BY position",
    event,
  );
}

/** Adds files to be sent with that reply. */
export async function insertFiles(q: Query, reply: string, files: readonly ReadyFile[]): Promise<void> {
  for (const [position, file] of files.entries()) {
    await q.write(
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

/** Returns the files of a reply, in order. Throws when retention has erased some of their bytes. */
export async function filesOf(q: Query, reply: string): Promise<ReadyFile[]> {
  const rows = await q.all<AttachedFile & { readonly size: number }>(
    "SELECT name, media_type, size, blob, NULL AS reason FROM files WHERE reply = $1 ORDER BY position",
    reply,
  );
  return rows.map((row) => {
    if (row.blob === null) throw new Error(`reply ${reply}: its files were erased (retention)`);
    return { ...row, blob: row.blob };
  });
}

/** Returns the bytes of one of the reply's files; null when the reply has no such file, or no longer has it. */
export async function readFile(q: Query, reply: string, blob: string): Promise<Uint8Array | null> {
  const row = await q.one<{ bytes: Uint8Array }>(
    `SELECT bytes FROM blobs WHERE id = $2 AND EXISTS (SELECT 1 FROM files WHERE reply = $1 AND blob = $2)`,
    reply,
    blob,
  );
  return row?.bytes ?? null;
}

/** Erases the bytes of files that were sent, or finally not sent, longer ago than the age of their channel; a resend by
 *  an operator restarts that period. Names are erased with the text of the reply. At most `limit` rows of each. */
export async function forgetFiles(q: Query, ageOf: (channel: string) => number, limit: number): Promise<number> {
  const channels = await q.all<{ channel: string }>(
    // Not a join: with the statistics of an empty table of files SQLite would scan the replies.
    `SELECT DISTINCT (SELECT channel FROM replies WHERE replies.id = files.reply) AS channel FROM files WHERE blob IS NOT NULL`,
  );
  let bytes = 0;
  for (const { channel } of channels)
    bytes += await q.run(
      `UPDATE files SET blob = NULL WHERE blob IS NOT NULL AND reply IN (
         SELECT replies.id FROM files old JOIN replies ON replies.id = old.reply
         WHERE old.blob IS NOT NULL AND replies.channel = $2 AND replies.state <> 'ready' AND replies.created_at < now_ms() - $1
           AND NOT EXISTS (SELECT 1 FROM drafts WHERE drafts.reply = replies.id AND (drafts.open = 1
             OR drafts.state NOT IN ('sent', 'delivered', 'failed', 'dropped') OR drafts.updated_at >= now_ms() - $1))
         LIMIT ${limit})`,
      ageOf(channel),
      channel,
    );
  const names = await q.run(
    `DELETE FROM files WHERE blob IS NULL AND reply IN (
       SELECT old.reply FROM files old WHERE old.blob IS NULL
         AND EXISTS (SELECT 1 FROM replies WHERE replies.id = old.reply AND replies.text = '') LIMIT ${limit})`,
  );
  return bytes + names;
}

/** An attachment of a message, as the agent and operators see it. */
export interface AttachmentRow {
  readonly name: string;
  readonly media_type: string;
  /** Size in bytes; null when unknown. */
  readonly size: number | null;
}
