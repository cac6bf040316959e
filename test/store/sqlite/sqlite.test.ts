// The store on SQLite, and what only SQLite has: group commit, and a disk that is full.

import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { expect, it, onTestFinished, vi } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { Query } from "../../../src/store/driver.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { readSettings, writeSettings } from "../../../src/store/tables/agents.ts";
import { newFolder } from "../../support/resources.ts";
import { fresh, sqliteDatabase } from "../../support/store/databases.ts";

const count = async (q: Query) => Number((await q.one<{ n: number }>("SELECT COUNT(*) AS n FROM agents"))?.n);

it("commits what gathers together, and what throws is rolled back alone", async () => {
  const db = await fresh(sqliteDatabase);
  const version = async () =>
    (await db.read((q) => q.one<{ data_version: number }>("PRAGMA data_version")))?.data_version;
  const before = (await version()) ?? 0;
  const all = Array.from({ length: 100 }, (_, i) =>
    db.tx(async (q) => {
      await writeSettings(q, `a${i}`, "{}");
      if (i === 50) throw new Error("no");
      return count(q);
    }),
  );
  const results = await Promise.allSettled(all);
  expect((await version()) ?? 0).toBe(before + 1);
  expect(results.filter((one) => one.status === "rejected")).toHaveLength(1);
  expect(results.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []))).toEqual(
    [...Array(99).keys()].map((i) => i + 1),
  );
});

it("resolves no transaction before the commit is on disk", async () => {
  const db = await fresh(sqliteDatabase);
  const told: string[] = [];
  const first = db.tx((q) => writeSettings(q, "one", "{}")).then(() => told.push("one"));
  const second = db.tx(async (q) => {
    told.push("second runs");
    await writeSettings(q, "two", "{}");
  });
  await Promise.all([first, second]);
  expect(told).toEqual(["second runs", "one"]);
});

it("rejects every write in the commit when the disk is full, keeps earlier data, and recovers", async () => {
  const db = await fresh(sqliteDatabase, (q) => writeSettings(q, "before", "{}"));
  const pages = await db.tx((q) => q.one<{ page_count: number }>("PRAGMA page_count"));
  await db.tx((q) => q.all(`PRAGMA max_page_count = ${pages?.page_count ?? 0}`));
  const big = "x".repeat(1_000_000);
  const results = await Promise.allSettled([
    db.tx((q) => writeSettings(q, "small", "{}")),
    db.tx((q) => writeSettings(q, "big", big)),
    db.tx((q) => writeSettings(q, "after", "{}")),
  ]);
  const names = await db.read((q) => q.all<{ id: string }>("SELECT id FROM agents ORDER BY id"));
  const kept = ["small", "big", "after"].filter((_, i) => results[i]?.status === "fulfilled");
  expect(names.map((row) => row.id)).toEqual(["before", ...kept].sort());
  expect(results[1]).toMatchObject({ status: "rejected", reason: { code: "SQLITE_FULL" } });
  await db.tx((q) => q.all("PRAGMA max_page_count = 1000000"));
  await db.tx((q) => writeSettings(q, "big", big));
  expect((await db.read((q) => readSettings(q, "big")))?.settings).toHaveLength(1_000_000);
});

it("writes nothing one by one after the database has rolled the transaction back", async () => {
  const db = await fresh(sqliteDatabase);
  const beside = db.tx((q) => writeSettings(q, "beside", "{}"));
  const broken = db.tx(async (q) => {
    await writeSettings(q, "lost", "{}");
    await q.savepoint(() => q.run("ROLLBACK")).catch(() => undefined); // as a full disk or an I/O error does
    await writeSettings(q, "stray", "{}").catch(() => undefined);
    return "looks well";
  });
  await expect(beside).rejects.toThrow();
  await expect(broken).rejects.toThrow();
  expect(await db.read(count)).toBe(0);
  await db.tx((q) => writeSettings(q, "next", "{}"));
  expect(await db.read(count)).toBe(1);
});

it("rejects every commit after the file was deleted or replaced", async () => {
  const file = join(newFolder(), "store.db");
  const db = openSqlite(file, Date.now);
  onTestFinished(() => db.close());
  const write = () => db.tx((q) => q.run("CREATE TABLE IF NOT EXISTS t (n)"));
  await write();
  renameSync(file, `${file}.aside`);
  await expect(write()).rejects.toThrow(/deleted or replaced.*Remedy/);
  writeFileSync(file, "");
  await expect(write()).rejects.toThrow(/deleted or replaced/);
  renameSync(`${file}.aside`, file);
  await write();
});

it("waits for another process that opens the new file for as long as for its locks", () => {
  const file = join(newFolder(), "store.db");
  const other = new Sqlite(file);
  onTestFinished(() => void other.close());
  // Readers pass, but the file cannot become a WAL file.
  other.exec("CREATE TABLE t (n); BEGIN IMMEDIATE");
  const timing = { ...standardTiming.sqlite, busy: 100, busyRetry: 10 };
  const waits = vi.spyOn(Atomics, "wait");
  onTestFinished(() => waits.mockRestore());
  expect(() => openSqlite(file, Date.now, { timing })).toThrow("locked");
  expect(waits.mock.calls.map(([, , , ms]) => ms)).toEqual(Array(10).fill(10));
});

it("orders its writes, checks references and can return free pages, and is reopened so", async () => {
  const store = await sqliteDatabase();
  for (let i = 0; i < 2; i++) {
    const db = await store.open();
    const modes = await db.tx(async (q) => [
      await q.one("PRAGMA journal_mode"),
      await q.one("PRAGMA synchronous"),
      await q.one("PRAGMA foreign_keys"),
      await q.one("PRAGMA auto_vacuum"),
    ]);
    expect(modes).toEqual([{ journal_mode: "wal" }, { synchronous: 1 }, { foreign_keys: 1 }, { auto_vacuum: 2 }]);
  }
});

it("runs more different statements than it keeps prepared", async () => {
  const db = await fresh(sqliteDatabase);
  const add = (q: Query, n: number) => q.one<{ sum: number }>(`SELECT $1 + ${n} AS sum`, 1);
  await db.read(async (q) => {
    for (let n = 0; n < 2500; n += 1) expect(await add(q, n)).toEqual({ sum: n + 1 });
    expect(await add(q, 0)).toEqual({ sum: 1 });
  });
});

/** A table whose two indexes only statistics can tell apart, and the index by which a read finds a row of it. */
async function withTwoIndexes(rows: number) {
  const db = await fresh(sqliteDatabase);
  await db.tx((q) => q.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, kind TEXT, name TEXT, text TEXT)"));
  await db.tx((q) => q.run("CREATE INDEX by_name ON notes (name)"));
  await db.tx((q) => q.run("CREATE INDEX by_kind ON notes (kind)"));
  await db.tx((q) =>
    q.run(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
       INSERT INTO notes (kind, name, text) SELECT 'same', 'name' || i, $2 FROM n`,
      rows,
      "x".repeat(1000),
    ),
  );
  const chosen = async () => {
    const sql = "EXPLAIN QUERY PLAN SELECT id FROM notes WHERE kind = 'same' AND name = 'name7'";
    const [step] = await db.read((q) => q.all<{ detail: string }>(sql));
    return /USING INDEX (\w+)/.exec(step?.detail ?? "")?.[1];
  };
  return { db, chosen };
}

it("plans the reads that follow a maintenance with its statistics", async () => {
  const { db, chosen } = await withTwoIndexes(4000);
  expect(await chosen()).toBe("by_kind");
  await db.maintain();
  expect(await chosen()).toBe("by_name");
});

it("keeps the connection of a read under way while a maintenance replaces it", async () => {
  const { db } = await withTwoIndexes(10);
  const during = await db.read(async (q) => {
    await db.maintain();
    await db.read((other) => other.all("SELECT 1"));
    return q.one("SELECT COUNT(*) AS n FROM notes");
  });
  expect(during).toEqual({ n: 10 });
});

it("makes no statistics of a small store, which would let the planner read whole tables", async () => {
  const { db } = await withTwoIndexes(20);
  while (await db.maintain());
  expect(await db.read((q) => q.all("SELECT name FROM sqlite_schema WHERE name = 'sqlite_stat1'"))).toEqual([]);
});
