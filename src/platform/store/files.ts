// Agent files: the documents and whether the agent uses them for answers.

import { all, count, insertInto, listOf, one, run, values } from "./lists.ts";
import type { Db } from "./store.ts";

export interface FileRow {
  readonly id: string;
  readonly agent_id: string;
  readonly name: string;
  readonly media_type: string;
  readonly size: number;
  /** Null when the file is not added to the agent. */
  readonly status: "processing" | "done" | "failed" | null;
  readonly reason: string | null;
  readonly created_at: number;
  readonly added_at: number | null;
}

const columns = "id, agent_id, name, media_type, length(bytes) AS size, status, reason, created_at, added_at";

type NewFile = Pick<FileRow, "id" | "agent_id" | "name" | "media_type" | "created_at">;

export function prepareFiles(db: Db) {
  const insert = run<[NewFile & { readonly bytes: Uint8Array }]>(
    db,
    insertInto("file", ["id", "agent_id", "name", "media_type", "bytes", "created_at"]),
  );
  const bytes = values<[string], Uint8Array>(db, "SELECT bytes FROM file WHERE id = ?");
  const setStatus = run<[FileRow["status"], string | null, number | null, string]>(
    db,
    "UPDATE file SET status = ?, reason = ?, added_at = ? WHERE id = ?",
  );
  return {
    insert: (row: NewFile, content: Uint8Array) => insert({ ...row, bytes: content }),
    byId: one<[agentId: string, id: string], FileRow>(db, `SELECT ${columns} FROM file WHERE agent_id = ? AND id = ?`),
    bytes: (id: string): Uint8Array | undefined => bytes(id)[0],
    list: listOf<FileRow>(db, "file", "agent_id", columns),
    count: count<[agentId: string]>(db, "SELECT count(*) FROM file WHERE agent_id = ?"),
    setStatus: (id: string, status: FileRow["status"], reason: string | null, addedAt: number | null): void =>
      void setStatus(status, reason, addedAt, id),
    /** Deletes the file. Its passages must be deleted first. */
    remove: run<[id: string]>(db, "DELETE FROM file WHERE id = ?"),
    /** Returns files whose processing was interrupted. */
    processing: all<[], FileRow>(db, `SELECT ${columns} FROM file WHERE status = 'processing'`),
  };
}

// Full-text index of the agents' knowledge (SQLite FTS5). Passages from definitions are rebuilt at every
// start; passages from files persist.

export interface KnowledgePassage {
  readonly title: string;
  readonly text: string;
}
export interface Hit extends KnowledgePassage {
  readonly rowid: number;
  /** Id of the source file; null when the passage comes from the agent's definition. */
  readonly file_id: string | null;
}

export type Passages = ReturnType<typeof preparePassages>;

export function preparePassages(db: Db) {
  const clear = db.prepare("DELETE FROM passage WHERE file_id IS NULL");
  const insert = db.prepare("INSERT INTO passage (agent_id, file_id, title, text) VALUES (?, ?, ?, ?)");
  const note = db.prepare("INSERT INTO file_passage (passage, file) VALUES (?, ?)");
  const removeFile = db.prepare("DELETE FROM passage WHERE rowid IN (SELECT passage FROM file_passage WHERE file = ?)");
  const forget = db.prepare("DELETE FROM file_passage WHERE file = ?");
  // The title has a higher weight, because it describes the passage in few words.
  const search = db.prepare<[string, string, number], Hit>(
    `SELECT rowid, file_id, title, text FROM passage WHERE passage MATCH ? AND agent_id = ?
     ORDER BY bm25(passage, 0, 0, 3, 1) LIMIT ?`,
  );
  const contains = db.prepare<[string, number]>("SELECT 1 FROM passage WHERE passage MATCH ? AND rowid = ?");
  const quoted = (word: string) => `"${word.replaceAll('"', "")}"`;
  return {
    /** Replaces all passages that come from definitions. Passages from files stay. */
    replace: (passages: readonly (KnowledgePassage & { readonly agentId: string })[]): void =>
      db.transaction(() => {
        clear.run();
        for (const { agentId, title, text } of passages) insert.run(agentId, null, title, text);
      })(),
    addFile: (fileId: string, agentId: string, passages: readonly KnowledgePassage[]): void => {
      for (const { title, text } of passages)
        note.run(insert.run(agentId, fileId, title, text).lastInsertRowid, fileId);
    },
    removeFile: (fileId: string): void => {
      removeFile.run(fileId);
      forget.run(fileId);
    },
    /** Returns the agent's passages that contain any of the words, best first. Words consist of letters and digits. */
    search: (agentId: string, words: readonly string[], limit: number): Hit[] =>
      words.length === 0 ? [] : search.all(words.map(quoted).join(" OR "), agentId, limit),
    /** Returns whether the passage contains the word in any grammatical form (Porter stemming). */
    contains: (rowid: number, word: string): boolean => contains.get(quoted(word), rowid) !== undefined,
  };
}
