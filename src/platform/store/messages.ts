// Messages, ordered by a sequence number that only increases.

import { randomBytes } from "node:crypto";
import { all, count, insertInto, listOf, one, run, values } from "./lists.ts";
import type { Db } from "./store.ts";

export interface MessageRow {
  readonly seq: number;
  readonly id: string;
  readonly conversation_id: string;
  readonly sender_role: "conversation_user" | "assistant" | "manual_assistant";
  /** Id of the question; a question refers to itself. */
  readonly question_id: string;
  readonly text: string;
  readonly context: string | null;
  /** JSON: the passages that the answer cites. */
  readonly citations: string | null;
  readonly open: 0 | 1;
  /** 1 for an asynchronous question: its caller reads the answer or the error later. */
  readonly patient: 0 | 1;
  readonly error: string | null;
  readonly created_at: number;
  readonly anonymized: 0 | 1;
}
export type NewMessage = Omit<MessageRow, "seq" | "anonymized">;

/** The bounds of a part that is read backwards from the newest message: messages, and characters in them. */
export interface MessageBounds {
  readonly limit: number;
  readonly length: number;
}

/** The size of a conversation's texts: the number of messages, the bytes of all texts and of the longest. */
export interface ConversationSize {
  readonly total: number;
  readonly bytes: number;
  readonly longest: number;
}

const message = "SELECT * FROM message WHERE conversation_id = ?";
const columns = "id conversation_id sender_role question_id text context citations open patient error created_at";
const ofPerson = "conversation_id IN (SELECT id FROM conversation WHERE person_id = ?)";

export function prepareMessages(db: Db) {
  const before = all<[string, number, number], MessageRow>(db, `${message} AND seq < ? ORDER BY seq DESC LIMIT ?`);
  const inserted = one<[NewMessage], Pick<MessageRow, "seq" | "anonymized">>(
    db,
    `${insertInto("message", columns.split(" "))} RETURNING seq, anonymized`,
  );
  // octet_length reads the length from the row's header, not the text.
  const size = one<[string], ConversationSize>(
    db,
    `SELECT count(*) AS total, coalesce(sum(octet_length(text)), 0) AS bytes,
       coalesce(max(octet_length(text)), 0) AS longest FROM message WHERE conversation_id = ?`,
  );
  const newest = db.prepare<[string, number], MessageRow>(`${message} AND seq <= ? ORDER BY seq DESC`);
  const fail = run<[string, string]>(db, "UPDATE message SET open = 0, error = ? WHERE id = ?");
  const remove = run<[string]>(db, "DELETE FROM message WHERE id = ? AND open = 1");
  const release = run<[string]>(db, "UPDATE message_file SET message_id = NULL WHERE message_id = ?");
  return {
    insert(row: NewMessage): MessageRow {
      const added = inserted(row);
      if (!added) throw new Error("storing a message: it is not there");
      return { ...row, ...added };
    },
    byId: one<[conversationId: string, id: string], MessageRow>(db, `${message} AND id = ?`),
    list: listOf<MessageRow>(db, "message", "conversation_id", "*", ["seq"]),
    size: (conversationId: string): ConversationSize => size(conversationId) ?? { total: 0, bytes: 0, longest: 0 },
    /** Returns the sequence number of the conversation's newest message; 0 when it has none. */
    newestSeq: count<[conversationId: string]>(db, "SELECT max(seq) FROM message WHERE conversation_id = ?"),
    /** Returns the newest messages up to `until`, oldest first. There are at most `limit`, and at most `length`
     *  characters in them, except for the newest message alone. */
    newest(conversationId: string, until: number, { limit, length }: MessageBounds): MessageRow[] {
      const rows: MessageRow[] = [];
      let left = length;
      for (const row of newest.iterate(conversationId, until)) {
        left -= row.text.length;
        if (rows.length > 0 && left < 0) break;
        rows.push(row);
        if (rows.length >= limit || left <= 0) break;
      }
      return rows.reverse();
    },
    /** Returns the newest `limit` messages before `seq`, oldest first. */
    before: (conversationId: string, seq: number, limit: number): MessageRow[] =>
      before(conversationId, seq, limit).reverse(),
    newestQuestion: one<[conversationId: string], MessageRow>(
      db,
      `${message} AND sender_role = 'conversation_user' ORDER BY seq DESC LIMIT 1`,
    ),
    /** Returns the newest answer to a question. */
    answerTo: one<[conversationId: string, questionId: string], MessageRow>(
      db,
      `${message} AND question_id = ? AND sender_role <> 'conversation_user' ORDER BY seq DESC LIMIT 1`,
    ),
    /** Marks the question as finished, answered or not. */
    close: run<[id: string]>(db, "UPDATE message SET open = 0 WHERE id = ?"),
    /** Records the error of an asynchronous question. */
    fail: (id: string, error: string) => fail(error, id),
    removeOf: run<[personId: string]>(db, `DELETE FROM message WHERE ${ofPerson}`),
    /** Erases the text of all messages of the conversation. */
    anonymize: run<[conversationId: string]>(
      db,
      "UPDATE message SET text = '', context = NULL, citations = NULL, anonymized = 1 WHERE conversation_id = ?",
    ),
    /** Deletes a question without an answer. Its files become available to another message. */
    remove: (id: string): void => {
      remove(id);
      release(id);
    },
    /** Returns questions whose processing was interrupted, oldest first. */
    open: all<[], MessageRow>(db, "SELECT * FROM message WHERE open = 1 ORDER BY seq"),
  };
}

// Documents that users attach to messages: announced first, then uploaded, then referenced by one message.

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

const shown = "id, conversation_id, message_id, name, media_type, length(bytes) AS size, created_at, updated_at";

export function prepareMessageFiles(db: Db) {
  run<[Buffer]>(
    db,
    "INSERT INTO secret (name, value) VALUES ('files', ?) ON CONFLICT (name) DO NOTHING",
  )(randomBytes(32));
  const [secret = new Uint8Array()] = values<[], Uint8Array>(db, "SELECT value FROM secret WHERE name = 'files'")();
  const bytes = values<[string], Buffer | null>(db, "SELECT bytes FROM message_file WHERE id = ?");
  const fill = run<[Uint8Array, number, string]>(
    db,
    "UPDATE message_file SET bytes = ?, updated_at = ? WHERE id = ? AND message_id IS NULL",
  );
  const attach = run<[string, string]>(
    db,
    "UPDATE message_file SET message_id = ? WHERE id = ? AND message_id IS NULL",
  );
  const files = (column: string) =>
    all<[id: string], MessageFileRow>(
      db,
      `SELECT ${shown} FROM message_file WHERE ${column} = ? ORDER BY created_at, rowid`,
    );
  const columns = ["id", "conversation_id", "message_id", "name", "media_type", "created_at", "updated_at"];
  return {
    /** Key for signed addresses, generated once per database. */
    secret,
    insert: run<[Omit<MessageFileRow, "size">]>(db, insertInto("message_file", columns)),
    byId: one<[id: string], MessageFileRow>(db, `SELECT ${shown} FROM message_file WHERE id = ?`),
    bytes: (id: string): Uint8Array | undefined => bytes(id)[0] ?? undefined,
    /** Stores the uploaded bytes. Returns false when a message already references the file, or when it was deleted. */
    fill: (id: string, uploaded: Uint8Array, now: number): boolean => fill(uploaded, now, id) === 1,
    attach: (id: string, messageId: string) => attach(messageId, id),
    /** Returns the files of one message in the order of their announcement. */
    ofMessage: files("message_id"),
    ofConversation: files("conversation_id"),
    /** Returns the number of files that no message references yet. */
    loose: count<[conversationId: string]>(
      db,
      "SELECT count(*) FROM message_file WHERE conversation_id = ? AND message_id IS NULL",
    ),
    removeLoose: run<[before: number]>(db, "DELETE FROM message_file WHERE message_id IS NULL AND created_at < ?"),
    removeOfConversation: run<[conversationId: string]>(db, "DELETE FROM message_file WHERE conversation_id = ?"),
    /** Deletes the files of all conversations of a user. */
    removeOf: run<[personId: string]>(db, `DELETE FROM message_file WHERE ${ofPerson}`),
  };
}
