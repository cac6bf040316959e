// A page of the file is damaged after the store was opened: the store names it, although other tables still work.

import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { expect, it, onTestFinished } from "vitest";
import { migrate } from "../../../src/store/migrate.ts";
import { proveWritable } from "../../../src/store/operators/overview.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";

it.each(["tx", "read"] as const)("is reported after a statement of %s has met it", async (how) => {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-damage-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "store.db");
  const sound = openSqlite(file, Date.now);
  await migrate(sound);
  await sound.close();
  damage(file, "raw_messages");
  const db = openSqlite(file, Date.now);
  onTestFinished(() => db.close());
  await db.tx(proveWritable);
  expect(db.damage()).toBeNull();
  await expect(db[how]((q) => q.all("SELECT * FROM raw_messages"))).rejects.toThrow("is damaged");
  expect(db.damage()).toMatch(/^the store .+store\.db is damaged .+ Remedy: /);
  await db.tx(proveWritable);
});

/** Overwrites the root page of a table. */
function damage(file: string, table: string): void {
  const db = new Sqlite(file, { readonly: true });
  const page = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = ?").pluck().get(table) as number;
  const size = db.pragma("page_size", { simple: true }) as number;
  db.close();
  const descriptor = openSync(file, "r+");
  writeSync(descriptor, Buffer.alloc(200, 0xff), 0, 200, (page - 1) * size);
  closeSync(descriptor);
}
