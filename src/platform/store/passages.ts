// Full-text index of the agents' knowledge (SQLite FTS5). Passages from definitions are rebuilt at every
// start; passages from files persist.

import type { Db } from "./database.ts";

export interface Passage {
  readonly title: string;
  readonly text: string;
}
export interface Hit extends Passage {
  readonly rowid: number;
  /** Id of the source file; null when the passage comes from the agent's definition. */
  readonly file_id: string | null;
}

export interface Passages {
  /** Replaces all passages that come from definitions. Passages from files stay. */
  replace(passages: readonly (Passage & { readonly agentId: string })[]): void;
  addFile(fileId: string, agentId: string, passages: readonly Passage[]): void;
  removeFile(fileId: string): void;
  /** Returns the agent's passages that contain any of the words, best first. Words consist of letters
   *  and digits. */
  search(agentId: string, words: readonly string[], limit: number): Hit[];
  /** Returns whether the passage contains the word in any grammatical form (Porter stemming). */
  contains(rowid: number, word: string): boolean;
}

export function preparePassages(db: Db): Passages {
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
    replace: (passages) =>
      db.transaction(() => {
        clear.run();
        for (const { agentId, title, text } of passages) insert.run(agentId, null, title, text);
      })(),
    addFile: (fileId, agentId, passages) => {
      for (const { title, text } of passages)
        note.run(insert.run(agentId, fileId, title, text).lastInsertRowid, fileId);
    },
    removeFile: (fileId) => {
      removeFile.run(fileId);
      forget.run(fileId);
    },
    search: (agentId, words, limit) =>
      words.length === 0 ? [] : search.all(words.map(quoted).join(" OR "), agentId, limit),
    contains: (rowid, word) => contains.get(quoted(word), rowid) !== undefined,
  };
}
