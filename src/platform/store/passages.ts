// The agents' knowledge as a full-text index (SQLite FTS5), rebuilt from the definitions at every start.

import type { Db } from "./database.ts";

export interface Passage {
  readonly title: string;
  readonly text: string;
}
export interface Hit extends Passage {
  readonly rowid: number;
}

export interface Passages {
  replace(passages: readonly (Passage & { readonly agentId: string })[]): void;
  /** The best passages of the agent that contain any of the words, best first. Words are letters and digits only. */
  search(agentId: string, words: readonly string[], limit: number): Hit[];
  /** Does the passage contain the word, in any of its grammatical forms? */
  contains(rowid: number, word: string): boolean;
}

export function preparePassages(db: Db): Passages {
  const clear = db.prepare("DELETE FROM passage");
  const insert = db.prepare("INSERT INTO passage (agent_id, title, text) VALUES (?, ?, ?)");
  // A title says in few words what its passage is about, hence its weight.
  const search = db.prepare<[string, string, number], Hit>(
    `SELECT rowid, title, text FROM passage WHERE passage MATCH ? AND agent_id = ?
     ORDER BY bm25(passage, 0, 3, 1) LIMIT ?`,
  );
  const contains = db.prepare<[string, number]>("SELECT 1 FROM passage WHERE passage MATCH ? AND rowid = ?");
  const quoted = (word: string) => `"${word.replaceAll('"', "")}"`;
  return {
    replace: (passages) =>
      db.transaction(() => {
        clear.run();
        for (const { agentId, title, text } of passages) insert.run(agentId, title, text);
      })(),
    search: (agentId, words, limit) =>
      words.length === 0 ? [] : search.all(words.map(quoted).join(" OR "), agentId, limit),
    contains: (rowid, word) => contains.get(quoted(word), rowid) !== undefined,
  };
}
