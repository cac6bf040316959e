// Messages, ordered by a sequence number that only increases.

import { randomBytes } from "node:crypto";
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

/** A part of a conversation's messages. `limit` and `offset` count messages. */
export interface MessageSlice {
  readonly orderDirection: "ASC" | "DESC";
  readonly limit: number;
  readonly offset: number;
}

export type Messages = ReturnType<typeof prepareMessages>;

export function prepareMessages(db: Db) {
  const insert = db.prepare<[NewMessage]>(
    `INSERT INTO message (id, conversation_id, sender_role, question_id, text, context, citations, open,
       patient, error, created_at)
     VALUES (@id, @conversation_id, @sender_role, @question_id, @text, @context, @citations, @open, @patient, @error,
       @created_at)`,
  );
  const byId = db.prepare<[string, string], MessageRow>(
    "SELECT * FROM message WHERE conversation_id = ? AND id = ?",
  );
  const list = (direction: MessageSlice["orderDirection"]) =>
    db.prepare<[string, number, number], MessageRow>(
      `SELECT * FROM message WHERE conversation_id = ? ORDER BY seq ${direction} LIMIT ? OFFSET ?`,
    );
  const lists = { ASC: list("ASC"), DESC: list("DESC") };
  const count = db
    .prepare<[string], number>("SELECT count(*) FROM message WHERE conversation_id = ?")
    .pluck();
  const before = db.prepare<[string, number, number], MessageRow>(
    "SELECT * FROM message WHERE conversation_id = ? AND seq < ? ORDER BY seq DESC LIMIT ?",
  );
  const newestQuestion = db.prepare<[string], MessageRow>(
    `SELECT * FROM message WHERE conversation_id = ? AND sender_role = 'conversation_user'
     ORDER BY seq DESC LIMIT 1`,
  );
  const answerTo = db.prepare<[string, string], MessageRow>(
    `SELECT * FROM message WHERE question_id = ? AND conversation_id = ? AND sender_role <> 'conversation_user'
     ORDER BY seq DESC LIMIT 1`,
  );
  const fail = db.prepare("UPDATE message SET open = 0, error = ? WHERE id = ?");
  const removeOf = db.prepare(
    "DELETE FROM message WHERE conversation_id IN (SELECT id FROM conversation WHERE person_id = ?)",
  );
  const anonymize = db.prepare(
    `UPDATE message SET text = '', context = NULL, citations = NULL, anonymized = 1 WHERE conversation_id = ?`,
  );
  const close = db.prepare("UPDATE message SET open = 0 WHERE id = ?");
  const remove = db.prepare("DELETE FROM message WHERE id = ? AND open = 1");
  const release = db.prepare("UPDATE message_file SET message_id = NULL WHERE message_id = ?");
  const open = db.prepare<[], MessageRow>("SELECT * FROM message WHERE open = 1 ORDER BY seq");
  return {
    insert: (row: NewMessage): void => void insert.run(row),
    byId: (conversationId: string, id: string): MessageRow | undefined => byId.get(conversationId, id),
    /** Returns all messages of a conversation, oldest first, or a slice of them. */
    list: (
      conversationId: string,
      slice: MessageSlice = { orderDirection: "ASC", limit: -1, offset: 0 },
    ): MessageRow[] => lists[slice.orderDirection].all(conversationId, slice.limit, slice.offset),
    count: (conversationId: string): number => count.get(conversationId) ?? 0,
    /** Returns the newest `limit` messages before `seq`, oldest first. */
    before: (conversationId: string, seq: number, limit: number): MessageRow[] =>
      before.all(conversationId, seq, limit).reverse(),
    newestQuestion: (conversationId: string): MessageRow | undefined => newestQuestion.get(conversationId),
    /** Returns the newest answer to a question. */
    answerTo: (conversationId: string, questionId: string): MessageRow | undefined =>
      answerTo.get(questionId, conversationId),
    /** Records the error of an asynchronous question. */
    fail: (id: string, error: string): void => void fail.run(error, id),
    /** Deletes all messages of a user's conversations. */
    removeOf: (personId: string): void => void removeOf.run(personId),
    /** Erases the text of all messages of the conversation. */
    anonymize: (conversationId: string): void => void anonymize.run(conversationId),
    /** Marks the question as finished, answered or not. */
    close: (id: string): void => void close.run(id),
    /** Deletes a question without an answer. Its files become available to another message. */
    remove: (id: string): void => {
      remove.run(id);
      release.run(id);
    },
    /** Returns questions whose processing was interrupted, oldest first. */
    open: (): MessageRow[] => open.all(),
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

const shown =
  "id, conversation_id, message_id, name, media_type, length(bytes) AS size, created_at, updated_at";

export function prepareMessageFiles(db: Db) {
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
    /** Key for signed addresses, generated once per database. */
    secret: secret.get() ?? new Uint8Array(),
    insert: (row: Omit<MessageFileRow, "size">): void => void insert.run(row),
    byId: (id: string): MessageFileRow | undefined => byId.get(id),
    bytes: (id: string): Uint8Array | undefined => bytes.get(id) ?? undefined,
    /** Stores the uploaded bytes. Returns false when a message already references the file, or when it was
     *  deleted. */
    fill: (id: string, uploaded: Uint8Array, now: number): boolean =>
      fill.run(uploaded, now, id).changes === 1,
    attach: (id: string, messageId: string): void => void attach.run(messageId, id),
    /** Returns the files of one message in the order of their announcement. */
    ofMessage: (messageId: string): MessageFileRow[] => ofMessage.all(messageId),
    ofConversation: (conversationId: string): MessageFileRow[] => ofConversation.all(conversationId),
    /** Returns the number of files that no message references yet. */
    loose: (conversationId: string): number => loose.get(conversationId) ?? 0,
    removeLoose: (before: number): void => void removeLoose.run(before),
    removeOfConversation: (conversationId: string): void => void removeOfConversation.run(conversationId),
    /** Deletes the files of all conversations of a user. */
    removeOf: (personId: string): void => void removeOf.run(personId),
  };
}
