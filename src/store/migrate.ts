// Numbered migrations, forward only, each in one transaction. A schema newer than this program stops it.

import { type Database, dialect, type Query } from "./driver.ts";
import { spine } from "./migrations/0001-spine.ts";
import { escalations } from "./migrations/0002-escalations.ts";
import { files } from "./migrations/0003-files.ts";
import { storms } from "./migrations/0004-storms.ts";

export interface Migration {
  readonly name: string;
  readonly sql: string;
}

/** The steps of the schema; a step's number is its place in the list, counted from 1. Never edit one that was released. */
export const migrations: readonly Migration[] = [
  { name: "spine", sql: spine },
  { name: "escalations", sql: escalations },
  { name: "files", sql: files },
  { name: "storms", sql: storms },
];

// SQLite's now_ms() is filled in by its driver; PostgreSQL's is the server's clock, the same for all nodes. Read once for
// a statement on both, hence STABLE: an index is of no use to a comparison with something that changes from row to row.
const postgresClock = `CREATE OR REPLACE FUNCTION now_ms() RETURNS BIGINT LANGUAGE SQL STABLE
  AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT $$`;

/** The store was written by a newer Bridgehead. Nothing was changed; run that version or restore a backup. */
export class NewerSchema extends Error {
  /** The command line recognizes it by this name (`exitCodeOf`). */
  override readonly name = "NewerSchema";
  readonly found: number;
  constructor(found: number) {
    super(
      `the store has schema ${found}, this version knows up to ${migrations.length}: run the newer Bridgehead that wrote it`,
    );
    this.found = found;
  }
}

const unhurried = { unhurried: true };

/** The schema's number; 0 for an empty store. */
export async function schemaVersion(db: Database): Promise<number> {
  return db.tx(async (q) => {
    await lock(db, q);
    await q.run("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)");
    const row = await q.one<{ value: number }>("SELECT value FROM meta WHERE name = 'schema'");
    return row?.value ?? 0;
  }, unhurried);
}

/** Applies what is missing and returns the names of what was applied. Throws NewerSchema. `steps` are ours; tests add
 *  some of their own. */
export async function migrate(db: Database, steps: readonly Migration[] = migrations): Promise<string[]> {
  const start = await schemaVersion(db);
  if (start > steps.length) throw new NewerSchema(start);
  const applied: string[] = [];
  for (const [index, migration] of steps.entries()) {
    const number = index + 1;
    const done = await db.tx(async (q) => {
      await lock(db, q);
      const row = await q.one<{ value: number }>("SELECT value FROM meta WHERE name = 'schema'");
      if ((row?.value ?? 0) >= number) return false;
      if (db.kind === "postgres") await q.run(postgresClock);
      for (const statement of statementsOf(migration.sql, db.kind)) await q.run(statement);
      await q.run(
        "INSERT INTO meta (name, value) VALUES ('schema', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        number,
      );
      return true;
    }, unhurried);
    if (done) applied.push(migration.name);
  }
  return applied;
}

/** Two nodes that start together migrate one after the other. SQLite's BEGIN IMMEDIATE does that by itself. */
async function lock(db: Database, q: Query): Promise<void> {
  if (db.kind === "postgres") await q.all("SELECT pg_advisory_xact_lock(7261)");
}

/** Single statements without comments; our migrations hold no semicolon inside one. */
function statementsOf(sql: string, kind: Database["kind"]): string[] {
  return dialect(sql, kind)
    .replace(/ *--[^\n]*/g, "")
    .split(";")
    .map((statement) => statement.trim())
    .filter(Boolean);
}
