// Reads the store of a daemon under test from outside, on both databases.

import Database from "better-sqlite3";
import { Client, types } from "pg";

export type Row = Readonly<Record<string, unknown>>;

/** Runs one query. Every number in the store, and every COUNT, is a bigint on PostgreSQL; it becomes a number. Rejects when there is no store yet. */
export function readStored<T = Row>(store: string, sql: string): Promise<T[]> {
  return store.startsWith("postgres:")
    ? onPostgres(store, sql)
    : Promise.resolve().then(() => onSqlite(store, sql));
}

/** Violations of the schema and of the file format that the database itself finds. PostgreSQL checks each write. */
export async function damageOf(store: string): Promise<string[]> {
  if (store.startsWith("postgres:")) return [];
  const integrity = onSqlite<{ integrity_check: string }>(store, "PRAGMA integrity_check");
  const foreign = onSqlite(store, "PRAGMA foreign_key_check");
  return [
    ...integrity.map((row) => row.integrity_check).filter((found) => found !== "ok"),
    ...foreign.map((row) => JSON.stringify(row)),
  ];
}

function onSqlite<T>(file: string, sql: string): T[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare(sql).all() as T[];
  } finally {
    db.close();
  }
}

async function onPostgres<T>(url: string, sql: string): Promise<T[]> {
  const client = new Client({
    connectionString: url,
    types: { getTypeParser: (type) => (type === types.builtins.INT8 ? Number : String) },
  });
  await client.connect();
  try {
    return (await client.query(sql)).rows as T[];
  } finally {
    await client.end();
  }
}
