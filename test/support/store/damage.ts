// Damage to an SQLite file, as a disk does it.

import { closeSync, openSync, writeSync } from "node:fs";
import Sqlite from "better-sqlite3";

/** Overwrites the root page of a table. The page must not be in the write-ahead log. */
export function damageTable(file: string, table: string): void {
  const db = new Sqlite(file, { readonly: true });
  const page = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = ?").pluck().get(table) as number;
  const size = db.pragma("page_size", { simple: true }) as number;
  db.close();
  const descriptor = openSync(file, "r+");
  writeSync(descriptor, Buffer.alloc(200, 0xff), 0, 200, (page - 1) * size);
  closeSync(descriptor);
}
