// When a commit of the SQLite driver counts as durable: what waits for the disk, what does not, and what a failed disk and
// a growing log lead to. The power-cut replay examines what is on the disk then.

import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { atCommit, type CommitPace, type Database } from "../../../src/store/driver.ts";
import type { WalOptions } from "../../../src/store/sqlite/wal.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { newFolder } from "../../support/resources.ts";

const newFile = (): string => join(newFolder(), "store.db");

async function opened(file: string, options: WalOptions): Promise<Database> {
  const db = openSqlite(file, Date.now, options);
  onTestFinished(() => db.close());
  await db.tx((q) => q.run("CREATE TABLE notes (text TEXT)"), { durable: false });
  return db;
}

const write = (db: Database, text: string, durable = true) =>
  db.tx((q) => q.run("INSERT INTO notes VALUES ($1)", text), { durable });

/** A disk whose syncs end when the test says so. */
function slowDisk() {
  const syncs: PromiseWithResolvers<void>[] = [];
  const begun = new Map<number, () => void>();
  return {
    syncs,
    sync: () => {
      const one = Promise.withResolvers<void>();
      syncs.push(one);
      begun.get(syncs.length)?.();
      return one.promise;
    },
    /** Resolves when that many syncs have begun. */
    count: (n: number) => new Promise<void>((resolve) => (syncs.length >= n ? resolve() : void begun.set(n, resolve))),
  };
}

const isPending = async (promise: Promise<unknown>): Promise<boolean> => {
  const later = new Promise((resolve) => setImmediate(resolve, "pending"));
  return (await Promise.race([promise, later])) === "pending";
};

it("acknowledges a transaction after a sync that began after its commit, and runs others during it", async () => {
  const disk = slowDisk();
  const db = await opened(newFile(), disk);
  const first = write(db, "first");
  await disk.count(1);
  const others = [write(db, "second"), write(db, "third")];
  // It runs although no sync has ended, and sees what was committed.
  await write(db, "not durable", false);
  expect(await isPending(first)).toBe(true);
  disk.syncs[0]?.resolve();
  await first;
  await disk.count(2);
  expect(await isPending(Promise.race(others))).toBe(true);
  disk.syncs[1]?.resolve();
  await Promise.all(others);
  expect(disk.syncs).toHaveLength(2);
});

it("reports commits in their order, also one that waits for no sync after one whose sync runs", async () => {
  const disk = slowDisk();
  const db = await opened(newFile(), disk);
  const seen: string[] = [];
  db.observe(({ hops }) => void seen.push(...hops.map(({ trace }) => trace)));
  const reporting = (trace: string, durable: boolean) =>
    db.tx(
      async (q) => {
        await q.run("INSERT INTO notes VALUES ($1)", trace);
        q.hop({ name: "sent", channel: "c", trace });
      },
      { durable },
    );
  const first = reporting("first", true);
  await disk.count(1);
  await reporting("second", false);
  expect(seen).toEqual([]);
  disk.syncs[0]?.resolve();
  await first;
  const last = reporting("third", true);
  await disk.count(2);
  disk.syncs[1]?.resolve();
  await last;
  await expect.poll(() => seen).toEqual(["first", "second", "third"]);
});

it("gathers transactions while a sync runs, and commits them when it has ended", async () => {
  const disk = slowDisk();
  const db = await opened(newFile(), disk);
  const committed: string[] = [];
  const note = (text: string, durable = true) =>
    db.tx((q) => q.run("INSERT INTO notes VALUES ($1)", text), {
      durable,
      committed: () => committed.push(text),
    });
  const first = note("first");
  await disk.count(1);
  expect(committed).toEqual(["first"]);
  const others = [note("second"), note("third")];
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  expect(committed).toEqual(["first"]);
  disk.syncs[0]?.resolve();
  await first;
  await disk.count(2);
  expect(committed).toEqual(["first", "second", "third"]);
  const fourth = note("fourth");
  await note("not durable", false);
  expect(committed).toEqual(["first", "second", "third", "fourth", "not durable"]);
  disk.syncs[1]?.resolve();
  await disk.count(3);
  disk.syncs[2]?.resolve();
  await Promise.all([...others, fourth]);
});

it("shares the sync of a live call with others, and joins the commit of an outcome to the next one", async () => {
  let syncs = 0;
  const sync = async () => void (syncs += 1);
  const timing = { ...standardTiming.sqlite, commitJoin: 60_000, syncShare: 60_000 };
  const db = await opened(newFile(), { sync, timing });
  const committed: string[] = [];
  const note = (text: string, pace?: CommitPace) => {
    const act = () => void committed.push(text);
    return db.tx((q) => q.run("INSERT INTO notes VALUES ($1)", text), { pace, committed: act });
  };
  const outcome = note("outcome", "joining");
  await new Promise((resolve) => setImmediate(resolve));
  const said = note("said", "shared");
  await expect.poll(() => committed).toEqual(["outcome", "said"]);
  const asked = note("asked", "shared");
  await expect.poll(() => committed).toHaveLength(3);
  expect([syncs, await isPending(Promise.race([outcome, said, asked]))]).toEqual([0, true]);
  await note("mail");
  await Promise.all([outcome, said, asked]);
  expect(syncs).toBe(1);
});

it("covers an answer, and the record of its reply that follows later, with one sync", async () => {
  let syncs = 0;
  const sync = async () => void (syncs += 1);
  const db = await opened(newFile(), { sync, timing: { ...standardTiming.sqlite, syncShare: 60_000 } });
  const committed = Promise.withResolvers<void>();
  const answer = db.tx((q) => q.run("INSERT INTO notes VALUES ('answer')"), {
    pace: "trailing",
    committed: committed.resolve,
  });
  await committed.promise;
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  expect([syncs, await isPending(answer)]).toEqual([0, true]);
  await write(db, "record");
  await answer;
  expect(syncs).toBe(1);
});

it("acknowledges transactions under load with their own sync, not with one that others share later", async () => {
  const disk = slowDisk();
  const db = await opened(newFile(), { ...disk, timing: { ...standardTiming.sqlite, syncShare: 60_000 } });
  const two = () => Promise.all([write(db, "one"), write(db, "two")]);
  const before = two();
  await disk.count(1);
  disk.syncs[0]?.resolve();
  await before;
  // The last commit had several transactions, so the sync of the next one begins at once.
  const own = two();
  await disk.count(2);
  const said = Promise.withResolvers<void>();
  const shared = db.tx((q) => q.run("INSERT INTO notes VALUES ('said')"), { pace: "shared", committed: said.resolve });
  await said.promise;
  disk.syncs[1]?.resolve();
  await own;
  expect(disk.syncs).toHaveLength(2);
  const mail = write(db, "mail");
  await disk.count(3);
  disk.syncs[2]?.resolve();
  await Promise.all([shared, mail]);
});

it("limits the time for which the rows of a live call wait for others", async () => {
  let syncs = 0;
  const sync = async () => void (syncs += 1);
  const timing = { ...standardTiming.sqlite, commitJoin: 1, syncShare: 1 };
  const db = await opened(newFile(), { sync, timing });
  await db.tx((q) => q.run("INSERT INTO notes VALUES ('outcome')"), { pace: "joining" });
  expect(syncs).toBe(1);
  const closed = openSqlite(newFile(), Date.now, { timing: { ...timing, commitJoin: 60_000 } });
  const last = closed.tx((q) => q.run("CREATE TABLE notes (text TEXT)"), { pace: "joining" });
  await closed.close();
  await last;
});

it("syncs each commit that wrote, and none that changed nothing", async () => {
  let syncs = 0;
  const sync = async () => void (syncs += 1);
  const db = await opened(newFile(), { sync });
  const syncsOf = async (work: Parameters<Database["tx"]>[0]) => {
    const before = syncs;
    await db.tx(work);
    return syncs - before;
  };
  await write(db, "first");
  expect(await syncsOf((q) => q.run("UPDATE notes SET text = 'x' WHERE text = 'absent'"))).toBe(0);
  expect(await syncsOf((q) => q.all("DELETE FROM notes WHERE text = 'absent' RETURNING text"))).toBe(0);
  expect(await syncsOf((q) => q.all("SELECT * FROM notes"))).toBe(0);
  expect(await syncsOf((q) => q.one("UPDATE notes SET text = 'second' RETURNING text"))).toBe(1);
  expect(await syncsOf((q) => q.all("INSERT INTO notes VALUES ('third') RETURNING text"))).toBe(1);
  expect(await syncsOf((q) => q.write("DELETE FROM notes WHERE text = 'third'"))).toBe(1);
  expect(await syncsOf((q) => q.run("CREATE TABLE others (text TEXT)"))).toBe(1);
});

it("reports the commit only of transactions that succeeded", async () => {
  const db = await opened(newFile(), {});
  const committed: string[] = [];
  const run = (name: string, work: () => Promise<unknown>) =>
    db.tx(work, { committed: () => committed.push(name) }).catch(() => undefined);
  const fail = () => Promise.reject(new Error("on purpose"));
  await Promise.all([run("a", async () => 1), run("b", fail), run("c", async () => 1)]);
  await run("d", fail);
  expect(committed).toEqual(["a", "c"]);
});

it("lets the event loop continue between the parts of a long batch", async () => {
  const db = await opened(newFile(), {});
  const busy = () => {
    const end = performance.now() + 6;
    while (performance.now() < end);
    return Promise.resolve();
  };
  let turns = 0;
  const counting = setInterval(() => (turns += 1), 1);
  await db.tx(busy); // a single one, so that the others are queued together
  turns = 0;
  await Promise.all(Array.from({ length: 12 }, () => db.tx(busy)));
  clearInterval(counting);
  expect(turns).toBeGreaterThanOrEqual(3);
});

it("reports what it has read, and a transaction that wrote nothing, only when that is on disk", async () => {
  const disk = slowDisk();
  const db = await opened(newFile(), disk);
  const writing = write(db, "first");
  await disk.count(1);
  const count = () => db.read((q) => q.one("SELECT COUNT(*) AS n FROM notes"));
  const waiting = [count(), db.tx((q) => q.one("SELECT COUNT(*) AS n FROM notes"))];
  const failing = db.tx(() => Promise.reject(new Error("it is there already")));
  failing.catch(() => undefined);
  expect(await isPending(Promise.race([...waiting, failing]))).toBe(true);
  disk.syncs[0]?.resolve();
  expect(await Promise.all(waiting)).toEqual([{ n: 1 }, { n: 1 }]);
  await expect(failing).rejects.toThrow("it is there already");
  await writing;
  await count();
  expect(disk.syncs).toHaveLength(1);
});

it("reports a transaction that failed alone only when what it may have read is on disk", async () => {
  const disk = slowDisk();
  const db = await opened(newFile(), disk);
  let failing: Promise<unknown> = Promise.resolve();
  const writing = db.tx((q) => q.run("INSERT INTO notes VALUES ('first')"), {
    committed() {
      failing = db.tx(() => Promise.reject(new Error("it is there already")));
      failing.catch(() => undefined);
    },
  });
  await disk.count(1);
  expect(await isPending(failing)).toBe(true);
  disk.syncs[0]?.resolve();
  await writing;
  await expect(failing).rejects.toThrow("it is there already");
});

it("acknowledges what an earlier process wrote only after a sync of its own", async () => {
  const file = newFile();
  const former = openSqlite(file, Date.now, { sync: () => new Promise(() => undefined) });
  await former.tx((q) => q.run("CREATE TABLE notes (text TEXT)"), { durable: false });
  const disk = slowDisk();
  const db = openSqlite(file, Date.now, disk);
  onTestFinished(() => db.close());
  const found = db.read((q) => q.one("SELECT COUNT(*) AS n FROM notes"));
  await disk.count(1);
  expect(await isPending(found)).toBe(true);
  disk.syncs[0]?.resolve();
  expect(await found).toEqual({ n: 0 });
});

it("covers a commit and the record of the work that it starts with one sync", async () => {
  const disk = slowDisk();
  const db = await opened(newFile(), disk);
  let recorded: Promise<unknown> = Promise.resolve();
  const first = db.tx((q) => q.run("INSERT INTO notes VALUES ('event')"), {
    // The HTTP client examines an idle connection for one turn of the event loop before the attempt is recorded.
    committed: () => void setImmediate(() => void (recorded = write(db, "attempt"))),
  });
  await disk.count(1);
  expect(await isPending(Promise.race([first, recorded]))).toBe(true);
  disk.syncs[0]?.resolve();
  await Promise.all([first, recorded]);
  expect(disk.syncs).toHaveLength(1);
});

it("reports a commit before it is on disk, and lets a read wait for a commit that did not ask for the disk", async () => {
  const disk = slowDisk();
  const db = await opened(newFile(), disk);
  const heard: string[] = [];
  const first = db.tx((q) => q.run("INSERT INTO notes VALUES ('first')"), {
    committed: () => void heard.push("first"),
  });
  const failing = db.tx(() => Promise.reject(new Error("no")), {
    committed: () => void heard.push("failed"),
  });
  failing.catch(() => undefined);
  expect(await atCommit(db, (q) => q.run("INSERT INTO notes VALUES ('second')"))).toBe(1);
  expect([heard, await isPending(first)]).toEqual([["first"], true]);
  await disk.count(1);
  disk.syncs[0]?.resolve();
  await first;
  disk.syncs[1]?.resolve();
  await db.read((q) => q.one("SELECT 1 AS n"));
  const before = disk.syncs.length;
  await write(db, "third", false);
  const read = db.read((q) => q.one("SELECT COUNT(*) AS n FROM notes"));
  await disk.count(before + 1);
  expect(await isPending(read)).toBe(true);
  disk.syncs[before]?.resolve();
  expect(await read).toEqual({ n: 3 });
});

it("acknowledges nothing any more after a sync has failed, even if later ones succeed", async () => {
  const disk = slowDisk();
  const file = newFile();
  const db = openSqlite(file, Date.now, disk);
  await db.tx((q) => q.run("CREATE TABLE notes (text TEXT)"), { durable: false });
  const first = write(db, "first");
  await disk.count(1);
  const second = write(db, "second");
  const both = Promise.allSettled([first, second]);
  disk.syncs[0]?.reject(Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO" }));
  for (const result of await both)
    expect(result).toMatchObject({
      status: "rejected",
      reason: { message: expect.stringMatching(/EIO.*nothing is acknowledged any more\. Remedy: .*restart/) },
    });
  await expect(write(db, "third")).rejects.toThrow("failed to write");
  await expect(db.read((q) => q.one("SELECT 1 AS n"))).rejects.toThrow("failed to write");
  const copied = statSync(file).size;
  await db.close();
  // The kernel may have dropped pages of the log, so nothing is copied from it.
  expect([statSync(file).size, statSync(`${file}-wal`).size > 0]).toEqual([copied, true]);
  const again = openSqlite(file, Date.now);
  onTestFinished(() => again.close());
  await write(again, "after the restart");
});

it("rejects commits after the log was deleted", async () => {
  const file = newFile();
  const db = await opened(file, {});
  await write(db, "first");
  rmSync(`${file}-wal`);
  await expect(write(db, "second")).rejects.toThrow(/deleted or replaced.*Remedy/);
});

it("keeps the log short under a writer that never pauses", async () => {
  const file = newFile();
  const db = await opened(file, { checkpointPages: 50 });
  const text = "x".repeat(4000);
  let most = 0;
  const writer = async (share: number) => {
    for (let n = 0; n < 300; n += 1) {
      await write(db, `${share} ${n} ${text}`);
      most = Math.max(most, statSync(`${file}-wal`).size);
    }
  };
  await Promise.all([1, 2, 3, 4, 5, 6].map(writer));
  // Written: 1,800 pages with 4 kB of text each, and those that lead to them.
  expect(statSync(file).size + most).toBeGreaterThan(1500 * 4096);
  expect(most).toBeLessThan(400 * 4096);
  expect(await db.read((q) => q.one("SELECT COUNT(*) AS n FROM notes"))).toEqual({ n: 1800 });
});

it("lets the log grow to twice its length before it starts a thread for a checkpoint", async () => {
  const file = newFile();
  const db = await opened(file, { checkpointPages: 50 });
  const text = "x".repeat(4000);
  const started: number[] = [];
  process.once("worker", () => started.push(statSync(`${file}-wal`).size));
  // Each commit writes at least the page of its row.
  while (started.length === 0) await write(db, text);
  expect(started[0]).toBeGreaterThan(2 * 50 * 4096);
});

it("returns the pages of deleted rows to the file system, in small parts", async () => {
  const file = newFile();
  const db = openSqlite(file, Date.now);
  await db.tx((q) => q.run("CREATE TABLE notes (text TEXT)"));
  await db.tx(async (q) => {
    for (let n = 0; n < 4000; n += 1) await q.run("INSERT INTO notes VALUES ($1)", `${n} ${"x".repeat(4000)}`);
  });
  await db.tx((q) => q.run("DELETE FROM notes WHERE rowid % 2 = 0"));
  const pages = async () => {
    const row = await db.read((q) => q.one<{ page_count: number }>("PRAGMA page_count"));
    return row?.page_count ?? 0;
  };
  const before = await pages();
  let parts = 1;
  while (await db.maintain()) parts += 1;
  expect(parts).toBeGreaterThan(5);
  expect(await pages()).toBeLessThan(before - 900);
  expect(await db.read((q) => q.one("SELECT COUNT(*) AS n FROM notes"))).toEqual({ n: 2000 });
  await db.close();
  expect(statSync(file).size).toBeLessThan((before - 900) * 4096);
});
