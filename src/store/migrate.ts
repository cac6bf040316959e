// Numbered migrations, forward only, each in one transaction. A schema newer than this program stops the start.

import { type Database, dialect, type Query } from "./driver.ts";
import { core } from "./migrations/0001-core.ts";
import { escalations } from "./migrations/0002-escalations.ts";
import { readMeta, writeMeta } from "./tables/meta.ts";

export interface Migration {
  readonly name: string;
  readonly sql: string;
}

/** The schema migrations; the number of a migration is its position in the list, counted from 1. Never
 *  edit a released one. */
export const migrations: readonly Migration[] = [
  { name: "core", sql: core },
  { name: "escalations", sql: escalations },
];

// The SQLite driver supplies now_ms(); on PostgreSQL it is the server's clock, the same for all nodes. Both
// evaluate it once per statement, hence STABLE: an index cannot serve a comparison with a value that
// changes per row. PostgreSQL plans a function in SQL again in every statement, so this is not one.
const postgresClock = `CREATE OR REPLACE FUNCTION now_ms() RETURNS BIGINT LANGUAGE plpgsql STABLE COST 1
  AS $$ BEGIN RETURN floor(extract(epoch FROM clock_timestamp()) * 1000)::BIGINT; END $$`;

/** The store was written by a newer Bridgehead version. Nothing was changed; run that version or restore a backup. */
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

/** Returns the schema number; 0 for an empty store. */
export async function schemaVersion(db: Database): Promise<number> {
  return db.tx(async (q) => {
    await lock(db, q);
    await q.run("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)");
    return readMeta(q, "schema");
  }, unhurried);
}

/** Applies missing migrations and returns their names. Throws NewerSchema. Tests pass additional `steps`. */
export async function migrate(db: Database, steps: readonly Migration[] = migrations): Promise<string[]> {
  const start = await schemaVersion(db);
  if (start > steps.length) throw new NewerSchema(start);
  const applied: string[] = [];
  for (const [index, migration] of steps.entries()) {
    const number = index + 1;
    const done = await db.tx(async (q) => {
      await lock(db, q);
      if ((await readMeta(q, "schema")) >= number) return false;
      if (db.kind === "postgres") await q.run(postgresClock);
      for (const statement of statementsOf(migration.sql, db.kind)) await q.run(statement);
      await writeMeta(q, "schema", number);
      return true;
    }, unhurried);
    if (done) applied.push(migration.name);
  }
  return applied;
}

/** Serializes the migrations of nodes that start together. On SQLite, BEGIN IMMEDIATE already does this. */
async function lock(db: Database, q: Query): Promise<void> {
  if (db.kind === "postgres") await q.all("SELECT pg_advisory_xact_lock(7261)");
}

/** Splits the SQL into single statements without comments; our migrations contain no semicolon inside a statement. */
function statementsOf(sql: string, kind: Database["kind"]): string[] {
  return dialect(sql, kind)
    .replace(/ *--[^\n]*/g, "")
    .split(";")
    .map((statement) => statement.trim())
    .filter(Boolean);
}
