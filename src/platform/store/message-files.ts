// Documents that users attach to messages: announced first, then uploaded, then referenced by one message.

import { randomBytes } from "node:crypto";
import type { Db } from "./database.ts";

export interface MessageFileRow {
  readonly id: string;
  readonly conversation_id: string;
  /** Null until a message references the file. */
  readonly message_id: string | null;
  readonly name: string;
  readonly media_type: string;
  /** Size in bytes; null until the upload. */
  readonly size: number | null;
  readonly created_at: number;
  readonly updated_at: number;
}

export interface MessageFiles {
  /** Key for signed addresses, generated once per database. */
  readonly secret: Uint8Array;
  insert(row: Omit<MessageFileRow, "size">): void;
  byId(id: string): MessageFileRow | undefined;
  bytes(id: string): Uint8Array | undefined;
  /** Stores the uploaded bytes. Returns false when a message already references the file, or when it was
   *  deleted. */
  fill(id: string, bytes: Uint8Array, now: number): boolean;
  attach(id: string, messageId: string): void;
  /** Returns the files of one message in the order of their announcement. */
  ofMessage(messageId: string): MessageFileRow[];
  ofConversation(conversationId: string): MessageFileRow[];
  /** Returns the number of files that no message references yet. */
  loose(conversationId: string): number;
  removeLoose(before: number): void;
  removeOfConversation(conversationId: string): void;
  /** Deletes the files of all conversations of a user. */
  removeOf(personId: string): void;
}

const shown =
  "id, conversation_id, message_id, name, media_type, length(bytes) AS size, created_at, updated_at";

export function prepareMessageFiles(db: Db): MessageFiles {
  db.prepare("INSERT INTO secret (name, value) VALUES ('files', ?) ON CONFLICT (name) DO NOTHING").run(
    randomBytes(32),
  );
  const secret = db.prepare<[], Buffer>("SELECT value FROM secret WHERE name = 'files'").pluck();
  const insert = db.prepare<[Omit<MessageFileRow, "size">]>(
    `INSERT INTO message_file (id, conversation_id, message_id, name, media_type, created_at, updated_at)
     VALUES (@id, @conversation_id, @message_id, @name, @media_type, @created_at, @updated_at)`,
  );
  const byId = db.prepare<[string], MessageFileRow>(`SELECT ${shown} FROM message_file WHERE id = ?`);
  const bytes = db.prepare<[string], Buffer | null>("SELECT bytes FROM message_file WHERE id = ?").pluck();
  const fill = db.prepare(
    "UPDATE message_file SET bytes = ?, updated_at = ? WHERE id = ? AND message_id IS NULL",
  );
  const attach = db.prepare("UPDATE message_file SET message_id = ? WHERE id = ? AND message_id IS NULL");
  const ofMessage = db.prepare<[string], MessageFileRow>(
    `SELECT ${shown} FROM message_file WHERE message_id = ? ORDER BY created_at, rowid`,
  );
  const ofConversation = db.prepare<[string], MessageFileRow>(
    `SELECT ${shown} FROM message_file WHERE conversation_id = ? ORDER BY created_at, rowid`,
  );
  const loose = db
    .prepare<[string], number>(
      "SELECT count(*) FROM message_file WHERE conversation_id = ? AND message_id IS NULL",
    )
    .pluck();
  const removeLoose = db.prepare("DELETE FROM message_file WHERE message_id IS NULL AND created_at < ?");
  const removeOfConversation = db.prepare("DELETE FROM message_file WHERE conversation_id = ?");
  const removeOf = db.prepare(
    "DELETE FROM message_file WHERE conversation_id IN (SELECT id FROM conversation WHERE person_id = ?)",
  );
  return {
    secret: secret.get() ?? new Uint8Array(),
    insert: (row) => void insert.run(row),
    byId: (id) => byId.get(id),
    bytes: (id) => bytes.get(id) ?? undefined,
    fill: (id, uploaded, now) => fill.run(uploaded, now, id).changes === 1,
    attach: (id, messageId) => void attach.run(messageId, id),
    ofMessage: (messageId) => ofMessage.all(messageId),
    ofConversation: (conversationId) => ofConversation.all(conversationId),
    loose: (conversationId) => loose.get(conversationId) ?? 0,
    removeLoose: (before) => void removeLoose.run(before),
    removeOfConversation: (conversationId) => void removeOfConversation.run(conversationId),
    removeOf: (personId) => void removeOf.run(personId),
  };
}
