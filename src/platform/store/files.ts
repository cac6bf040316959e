// Agent files: the documents and whether the agent uses them for answers.

import type { Db } from "./database.ts";

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

export interface Files {
  insert(
    row: Pick<FileRow, "id" | "agent_id" | "name" | "media_type" | "created_at">,
    bytes: Uint8Array,
  ): void;
  byId(agentId: string, id: string): FileRow | undefined;
  bytes(id: string): Uint8Array | undefined;
  list(agentId: string, direction: "ASC" | "DESC", limit: number, offset: number): FileRow[];
  count(agentId: string): number;
  setStatus(id: string, status: FileRow["status"], reason: string | null, addedAt: number | null): void;
  /** Deletes the file. Its passages must be deleted first. */
  remove(id: string): void;
  /** Returns files whose processing was interrupted. */
  processing(): FileRow[];
}

const columns = "id, agent_id, name, media_type, length(bytes) AS size, status, reason, created_at, added_at";

export function prepareFiles(db: Db): Files {
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
    insert: (row, content) => void insert.run({ ...row, bytes: content }),
    byId: (agentId, id) => byId.get(agentId, id),
    bytes: (id) => bytes.get(id),
    list: (agentId, direction, limit, offset) => lists[direction].all(agentId, limit, offset),
    count: (agentId) => count.get(agentId) ?? 0,
    setStatus: (id, status, reason, addedAt) => void setStatus.run(status, reason, addedAt, id),
    remove: (id) => void remove.run(id),
    processing: () => processing.all(),
  };
}
