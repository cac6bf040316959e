// Agent files: the documents and whether the agent uses them for answers.

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

export function prepareFiles(db: Db) {
  const insert = db.prepare(
    `INSERT INTO file (id, agent_id, name, media_type, bytes, created_at)
     VALUES (@id, @agent_id, @name, @media_type, @bytes, @created_at)`,
  );
  const byId = db.prepare<[string, string], FileRow>(
    `SELECT ${columns} FROM file WHERE agent_id = ? AND id = ?`,
  );
  const bytes = db.prepare<[string], Uint8Array>("SELECT bytes FROM file WHERE id = ?").pluck();
  const list = (direction: "ASC" | "DESC") =>
    db.prepare<[string, number, number], FileRow>(
      `SELECT ${columns} FROM file WHERE agent_id = ? ORDER BY created_at ${direction}, rowid ${direction} LIMIT ? OFFSET ?`,
    );
  const lists = { ASC: list("ASC"), DESC: list("DESC") };
  const count = db.prepare<[string], number>("SELECT count(*) FROM file WHERE agent_id = ?").pluck();
  const setStatus = db.prepare("UPDATE file SET status = ?, reason = ?, added_at = ? WHERE id = ?");
  const remove = db.prepare("DELETE FROM file WHERE id = ?");
  const processing = db.prepare<[], FileRow>(`SELECT ${columns} FROM file WHERE status = 'processing'`);
  return {
    insert: (
      row: Pick<FileRow, "id" | "agent_id" | "name" | "media_type" | "created_at">,
      content: Uint8Array,
    ): void => void insert.run({ ...row, bytes: content }),
    byId: (agentId: string, id: string): FileRow | undefined => byId.get(agentId, id),
    bytes: (id: string): Uint8Array | undefined => bytes.get(id),
    list: (agentId: string, direction: "ASC" | "DESC", limit: number, offset: number): FileRow[] =>
      lists[direction].all(agentId, limit, offset),
    count: (agentId: string): number => count.get(agentId) ?? 0,
    setStatus: (id: string, status: FileRow["status"], reason: string | null, addedAt: number | null): void =>
      void setStatus.run(status, reason, addedAt, id),
    /** Deletes the file. Its passages must be deleted first. */
    remove: (id: string): void => void remove.run(id),
    /** Returns files whose processing was interrupted. */
    processing: (): FileRow[] => processing.all(),
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
  const removeFile = db.prepare(
    "DELETE FROM passage WHERE rowid IN (SELECT passage FROM file_passage WHERE file = ?)",
  );
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
    /** Returns the agent's passages that contain any of the words, best first. Words consist of letters
     *  and digits. */
    search: (agentId: string, words: readonly string[], limit: number): Hit[] =>
      words.length === 0 ? [] : search.all(words.map(quoted).join(" OR "), agentId, limit),
    /** Returns whether the passage contains the word in any grammatical form (Porter stemming). */
    contains: (rowid: number, word: string): boolean => contains.get(quoted(word), rowid) !== undefined,
  };
}
