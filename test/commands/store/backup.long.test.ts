// backup, verify and restore of an SQLite store, their deaths, damaged files, and the copies before migrations.

import { spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { openStore } from "../../../src/app.ts";
import { exitCodes } from "../../../src/commands/io.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { insertEvents } from "../../../src/pipeline/accept/rows.ts";
import { copyStore, verifyStore } from "../../../src/store/backup.ts";
import { migrations } from "../../../src/store/migrate.ts";
import { lockStore } from "../../../src/store/sqlite/lock.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { bridgehead, childEnv, root } from "../../support/machine/command.ts";
import { silentLog } from "../../support/resources.ts";
import { event } from "../../support/store/databases.ts";

const killing = new URL("../../support/process/preload.ts", import.meta.url).href;

let home: string;
let config: string;
let store: string;
let copy: string;
const run = (...args: string[]) => bridgehead([...args, "--config", config]);

/** `count` messages from number `from` on, with bytes of their own. */
async function fill(from: number, count: number): Promise<void> {
  const db = openSqlite(store, Date.now);
  await db.tx(async (q) => {
    await ensureChannel(q, "office");
    for (let n = from; n < from + count; n++) {
      const common = {
        channel: "office",
        kind: "message",
        sender: "a@b.c",
        subject: null,
        sentAt: 1,
      } as const;
      const event = { ...common, fingerprint: null, body: "{}", raw: null, attachments: [] };
      await insertEvents(q, [{ ...event, externalId: `${n}` }]);
    }
  });
  await db.close();
}

const eventsIn = (file: string): number => verifyStore(file).counts["events"] ?? 0;
const folderOf = (pattern: string) => readdirSync(home).filter((name) => name.includes(pattern));

beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "bridgehead-backup-"));
  config = join(home, "bridgehead.yaml");
  store = join(home, "store.db");
  copy = join(home, "copy.db");
  writeFileSync(
    config,
    'platform: { url: https://p.example.com }\nagents: { a: { key: "${env:ABSENT}" } }\nchannels: {}\nstore: sqlite:store.db\n',
  );
  expect((await run("migrate")).code).toBe(exitCodes.ok);
  await fill(0, 100);
  return () => rmSync(home, { recursive: true, force: true });
});

/** The command, killed at a point. Resolves with its signal. */
function killed(point: string, ...args: string[]): Promise<NodeJS.Signals | null> {
  const child = spawn(
    process.execPath,
    ["--conditions=source", "--import", killing, `${root}src/main.ts`, ...args, "--config", config],
    { stdio: "ignore", env: { ...childEnv, KILL_AT: point } },
  );
  return new Promise((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
}

describe("backup and restore", () => {
  it("copies a store that is being written, readable by its user alone", async () => {
    const unlock = lockStore(store);
    onTestFinished(unlock);
    const db = openSqlite(store, Date.now);
    await db.tx((q) => q.run("UPDATE meta SET value = value"));
    expect((await run("backup", copy)).code).toBe(exitCodes.ok);
    expect(eventsIn(copy)).toBe(100);
    await db.close();
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    expect(verifyStore(copy)).toMatchObject({ isBackup: true, problems: [], schema: migrations.length });
  });

  it("puts a copy back and keeps the former store", async () => {
    await run("backup", copy);
    await fill(100, 50);
    const restored = await run("restore", copy);
    expect(restored).toMatchObject({ code: exitCodes.ok });
    expect(eventsIn(store)).toBe(100);
    const [former = ""] = folderOf("before-restore").filter((name) => !name.endsWith("-wal"));
    expect(eventsIn(join(home, former))).toBe(150);
    expect(restored.out).toContain(former);
    expect(folderOf("restoring")).toEqual([]);
  });

  it("refuses to restore while the daemon runs, from itself, and from a damaged or newer file", async () => {
    await run("backup", copy);
    const unlock = lockStore(store);
    expect(await run("restore", copy)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringContaining("running"),
    });
    unlock();
    expect(await run("restore", store)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringContaining("itself"),
    });
    truncateSync(copy, statSync(copy).size - 4096);
    expect(await run("restore", copy)).toMatchObject({
      code: exitCodes.damagedStore,
      err: expect.stringMatching(/is damaged .*Remedy: use another backup;/),
    });
    copyStore(store, join(home, "newer.db"), null, standardTiming.sqlite.busy);
    const newer = openSqlite(join(home, "newer.db"), Date.now);
    await newer.tx((q) => q.run("UPDATE meta SET value = 999 WHERE name = 'schema'"));
    await newer.close();
    expect((await run("restore", join(home, "newer.db"))).code).toBe(exitCodes.newerSchema);
    expect(eventsIn(store)).toBe(100);
    expect(folderOf("before-restore")).toEqual([]);
  });

  it("names the file and the remedy when a directory is given as a backup", async () => {
    for (const ended of [await bridgehead(["verify", home]), await run("restore", home)]) {
      expect(ended.code).toBe(exitCodes.failed);
      expect(ended.err).toMatch(new RegExp(`the store ${home} cannot be used: .*Remedy: check that it is a file`));
    }
  });

  it("leaves no half-written backup when it is killed", async () => {
    expect(await killed("backup.copy:after:1", "backup", copy)).toBe("SIGKILL");
    expect(existsSync(copy)).toBe(false);
    expect((await run("backup", copy)).code).toBe(exitCodes.ok);
    expect(eventsIn(copy)).toBe(100);
    expect(folderOf("partial")).toEqual([]);
  });

  it.each([
    ["before", 150],
    ["after", 100],
  ])("leaves a whole store when restore is killed %s the swap", async (phase, events) => {
    await run("backup", copy);
    await fill(100, 50);
    expect(await killed(`restore.swap:${phase}:1`, "restore", copy)).toBe("SIGKILL");
    expect(eventsIn(store)).toBe(events);
    const { db, unlock, installation } = await openStore(
      { store: { kind: "sqlite", file: store } },
      systemClock,
      silentLog,
      standardTiming,
    );
    await db.close();
    unlock();
    expect(installation.cause).toBe(phase === "after" ? "restored" : "new");
    expect((await run("restore", copy)).code).toBe(exitCodes.ok);
    expect(eventsIn(store)).toBe(100);
  });
});

describe("a damaged store", () => {
  const damage: readonly (readonly [string, () => void])[] = [
    ["no database", () => writeFileSync(store, "this is no database, and long enough to be looked at. ".repeat(200))],
    ["cut short", () => truncateSync(store, 8192 + 100)],
    ["overwritten in the middle", () => overwrite(4096, 20_000)],
  ];
  function overwrite(from: number, length: number): void {
    const bytes = readFileSync(store);
    bytes.fill(0x5a, from, from + length);
    writeFileSync(store, bytes);
  }

  it.each(damage)("that is %s is named with its remedy and exit code", async (_name, harm) => {
    for (const suffix of ["-wal", "-shm"]) rmSync(store + suffix, { force: true });
    harm();
    for (const command of [["migrate"], ["inbox", "list"], ["run"]]) {
      const ended = await bridgehead([...command, "--config", config], { ABSENT: "key" });
      expect([command, ended.code, ended.err]).toEqual([
        command,
        exitCodes.damagedStore,
        expect.stringContaining(`the store ${store} is damaged`),
      ]);
      expect(ended.err).toContain("the command restore");
    }
    expect((await bridgehead(["verify", store])).code).toBe(exitCodes.damagedStore);
  });

  it("finds flipped bits in stored bytes, which SQLite itself does not", async () => {
    const db = openSqlite(store, Date.now);
    await db.tx((q) =>
      q.run("INSERT INTO blobs (id, bytes, stored_at) VALUES ($1, $2, 1)", "a".repeat(64), Buffer.from("changed")),
    );
    await db.close();
    const ended = await bridgehead(["verify", store]);
    expect(ended.code).toBe(exitCodes.damagedStore);
    expect(ended.out).toContain("do not match their digest");
  });

  it("finds flipped bits in raw messages", async () => {
    const db = openSqlite(store, Date.now);
    const raw = { id: "a".repeat(64), bytes: Buffer.from("changed") };
    await db.tx((q) => insertEvents(q, [{ ...event("flipped"), raw }]));
    await db.close();
    const ended = await bridgehead(["verify", store]);
    expect(ended.code).toBe(exitCodes.damagedStore);
    expect(ended.out).toContain("do not match their digest");
  });
});

describe("a migration", () => {
  it("copies the store first, and keeps three copies", async () => {
    mkdirSync(join(home, "elsewhere"));
    writeFileSync(
      join(home, "store.db.before-migration-20250101T000000000-schema-2.partial"),
      "of a start that was killed",
    );
    let steps = [...migrations];
    for (let n = 0; n < 5; n++) {
      steps = [...steps, { name: `more-${n}`, sql: `CREATE TABLE more_${n} (id TEXT)` }];
      const opened = await openStore(
        { store: { kind: "sqlite", file: store } },
        systemClock,
        silentLog,
        standardTiming,
        steps,
      );
      await opened.db.close();
      opened.unlock();
    }
    const copies = folderOf("before-migration").sort();
    expect(copies.map((name) => /schema-\d+$/.exec(name)?.[0])).toEqual(
      [2, 3, 4].map((n) => `schema-${migrations.length + n}`),
    );
    expect(copies.map((name) => eventsIn(join(home, name)))).toEqual([100, 100, 100]);
    const older = join(home, copies[0] ?? "");
    copyFileSync(older, join(home, "elsewhere/copy.db"));
    expect(verifyStore(join(home, "elsewhere/copy.db"))).toMatchObject({ isBackup: true, problems: [] });
  });
});
