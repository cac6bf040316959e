// The output of backup, verify, restore and migrate. backup.long.test.ts runs them with a running daemon, kills them
// and damages files.

import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes, runCommand } from "../../../src/commands/io.ts";
import { backup, migrateStore, restore, verify } from "../../../src/commands/store/backup.ts";
import { openDatabase } from "../../../src/platform/store/store.ts";
import { verifyStore } from "../../../src/store/backup.ts";
import { migrations } from "../../../src/store/migrate.ts";
import { lockStore } from "../../../src/store/sqlite/lock.ts";
import { commandIo } from "../../support/machine/command.ts";
import { newerPlatform } from "../../support/platform/platform.ts";
import { newFolder } from "../../support/resources.ts";
import { fresh, sqliteDatabase, storeEvent } from "../../support/store/databases.ts";

const commands = { backup, verify, restore, migrate: migrateStore };

function setUp(store = "sqlite:store.db", more = "") {
  const folder = newFolder();
  const config = join(folder, "bridgehead.yaml");
  writeFileSync(config, `store: ${store}\n${more}`);
  /** The exit code, then each line, without the name of the folder. */
  const run = async (command: keyof typeof commands, file = "", json = false): Promise<readonly unknown[]> => {
    const lines: string[] = [];
    const say = (text: string) => void lines.push(text.replaceAll(`${folder}/`, ""));
    const io = commandIo({ out: say, err: say, cwd: folder });
    const code = await runCommand(commands[command], { config, file, json }, io);
    return [code, ...lines];
  };
  return { folder, run };
}

const schema = migrations.length;
const size = expect.stringMatching(new RegExp(`: schema ${schema}, \\d+ bytes, no events$`)) as unknown;
const counts = expect.stringMatching(/^(\w+: \d+, )*events: 0, (\w+: \d+, )*\w+: \d+$/) as unknown;

it("names the file, its schema and its rows, and refuses to overwrite a file", async () => {
  const { run } = setUp();
  expect(await run("backup", "copy.db")).toEqual([exitCodes.failed, "there is no store store.db"]);
  expect((await run("migrate"))[0]).toBe(exitCodes.ok);
  const done = await run("backup", "copy.db");
  expect(done).toEqual([exitCodes.ok, size, counts]);
  expect(done[1]).toMatch(/^backed up to copy\.db: /);
  expect(await run("backup", "copy.db")).toEqual([
    exitCodes.failed,
    expect.stringContaining("copy.db exists; name another one"),
  ]);
  expect(await run("backup", "absent/copy.db")).toEqual([
    exitCodes.failed,
    "the folder absent does not exist: install -d -m 700 -o bridgehead absent",
  ]);
  const sound = await run("verify", "copy.db");
  expect(sound).toEqual([exitCodes.ok, size, counts, "no problems found"]);
  expect(JSON.parse(String((await run("verify", "copy.db", true))[1]))).toMatchObject({
    file: "copy.db",
    schema,
    problems: [],
    counts: { events: 0 },
  });
});

it("counts the rows of every table that holds data of customers", async () => {
  const database = await sqliteDatabase();
  const db = await fresh(async () => database);
  const attachment = { name: "a.txt", mediaType: "text/plain", size: 1, ref: null, named: true };
  const blob = { id: "file", bytes: Buffer.from("a") };
  await db.tx((q) =>
    storeEvent(q, "e", {
      raw: { id: "raw", bytes: Buffer.from("raw") },
      attachments: [{ ...attachment, blob }],
    }),
  );
  const { counts } = verifyStore(database.file ?? "");
  expect(counts).toMatchObject({ events: 1, raw_messages: 1, attachments: 1, blobs: 1 });
  const tables = await db.read((q) => q.all<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'"));
  // A new table is counted, or it is named here.
  expect(tables.map(({ name }) => name).filter((name) => !(name in counts))).toEqual([
    "meta",
    "leases",
    "installations",
    "secrets",
    "logins",
    "send_pauses",
    "channel_pauses",
    "own_addresses",
    "agents",
    "rates",
    "lanes",
    "webhook_registrations",
  ]);
});

it("says what a restore has put where, and what is held then", async () => {
  const { folder, run } = setUp();
  await run("migrate");
  await run("backup", "copy.db");
  const [code, done, , kept, held] = await run("restore", "copy.db");
  expect([code, done]).toEqual([exitCodes.ok, size]);
  expect(done).toMatch(/^restored to store\.db: /);
  expect(kept).toMatch(/^the former file is kept as store\.db\.before-restore/);
  expect(held).toContain("bridgehead inbox list --code ");
  expect(existsSync(join(folder, String(kept).replace(/^.* as /, "")))).toBe(true);
  expect(await run("restore", "store.db")).toEqual([exitCodes.failed, "store.db is the store itself; name a backup"]);
  expect(await run("restore", "absent.db")).toEqual([exitCodes.failed, "there is no file absent.db"]);
  truncateSync(join(folder, "copy.db"), 8192);
  expect((await run("restore", "copy.db"))[0]).toBe(exitCodes.damagedStore);
});

it("names the programs that copy a PostgreSQL store", async () => {
  const { run } = setUp("postgres://nobody@127.0.0.1/none");
  expect(String(await run("backup", "copy"))).toContain("pg_dump --format=custom");
  expect(String(await run("restore", "copy"))).toContain("pg_restore --clean");
  const embedded = setUp("postgres://nobody@127.0.0.1/none", "platform: embedded\n");
  expect(String(await embedded.run("backup", "copy"))).toMatch(/copy \S*platform\.db, too/);
});

it("copies, verifies and restores the database of the embedded platform with the store", async () => {
  const { folder, run } = setUp("sqlite:store.db", "platform: embedded\n");
  const agents = (): unknown[] => {
    const db = openDatabase(join(folder, "platform.db"), "normal");
    try {
      return db.prepare("SELECT id FROM agent ORDER BY id").pluck().all();
    } finally {
      db.close();
    }
  };
  const define = (id: string) => {
    const db = openDatabase(join(folder, "platform.db"), "normal");
    db.prepare("INSERT INTO agent (id, organization_id, name) VALUES (?, 'o', ?)").run(id, id);
    db.close();
  };
  await run("migrate");
  expect(await run("backup", "early.db"), "no platform yet").toEqual([exitCodes.ok, size, counts]);
  define("before");
  const platform = expect.stringMatching(/^embedded platform: copy\.db-platform, \d+ bytes$/) as unknown;
  expect(await run("backup", "copy.db")).toEqual([exitCodes.ok, size, counts, platform]);
  expect(await run("verify", "copy.db")).toEqual([exitCodes.ok, size, counts, platform, "no problems found"]);
  define("later");
  expect(agents()).toEqual(["before", "later"]);

  const restored = await run("restore", "copy.db");
  expect(restored[0]).toBe(exitCodes.ok);
  expect(restored).toContain("restored the embedded platform to platform.db");
  expect(restored.filter((line) => String(line).startsWith("the former file is kept as"))).toHaveLength(2);
  expect(agents()).toEqual(["before"]);

  expect(await run("restore", "early.db")).toContain(
    "the backup has no copy of the embedded platform: platform.db is unchanged",
  );
  rmSync(join(folder, "copy.db"));
  expect((await run("backup", "copy.db"))[1], "another backup's copy stays").toContain("copy.db-platform exists");
  const damagedFile = openSync(join(folder, "copy.db-platform"), "r+");
  writeSync(damagedFile, Buffer.alloc(4096, 0x55), 0, 4096, 8192);
  closeSync(damagedFile);
  await run("backup", "other.db");
  renameSync(join(folder, "copy.db-platform"), join(folder, "other.db-platform"));
  const found = await run("restore", "other.db");
  expect(found[0]).toBe(exitCodes.damagedStore);
  expect(agents()).toEqual(["before"]);
});

it("refuses a copy of the embedded platform that a newer version has written, before anything is replaced", async () => {
  const { folder, run } = setUp("sqlite:store.db", "platform: embedded\n");
  await run("migrate");
  openDatabase(join(folder, "platform.db"), "normal").close();
  await run("backup", "copy.db");
  newerPlatform(join(folder, "copy.db-platform"));
  const problem = "copy.db-platform: it was written by a newer version (9999)";
  expect(await run("restore", "copy.db")).toEqual([exitCodes.newerSchema, problem]);
  expect(readdirSync(folder).filter((name) => name.includes("before-restore"))).toEqual([]);
  const [code, ...lines] = await run("verify", "copy.db");
  expect([code, lines.at(-1)]).toEqual([exitCodes.newerSchema, `problem: ${problem}`]);
});

it("reports the copy of the embedded platform that a backup was made with and that is gone; the store can be restored", async () => {
  const { folder, run } = setUp("sqlite:store.db", "platform: embedded\n");
  await run("migrate");
  openDatabase(join(folder, "platform.db"), "normal").close();
  await run("backup", "copy.db");
  rmSync(join(folder, "copy.db-platform"));
  const problem =
    "the copy of the embedded platform is missing: move copy.db-platform back to its place beside copy.db";
  expect(await run("verify", "copy.db")).toEqual([exitCodes.damagedStore, size, counts, `problem: ${problem}`]);
  expect(JSON.parse(String((await run("verify", "copy.db", true))[1]))).toMatchObject({ problems: [problem] });
  const restored = await run("restore", "copy.db");
  expect(restored[0]).toBe(exitCodes.ok);
  expect(restored).toContain("copy.db-platform is missing, with which the backup was made: platform.db is unchanged");
  expect((await run("verify", "store.db"))[0], "the restored store was not made with a copy").toBe(exitCodes.ok);
});

it("does not replace the database of a platform that runs", async () => {
  const { folder, run } = setUp("sqlite:store.db", "platform: embedded\n");
  await run("migrate");
  openDatabase(join(folder, "platform.db"), "normal").close();
  await run("backup", "copy.db");
  const release = lockStore(join(folder, "platform.db"));
  onTestFinished(release);
  const [code, line] = await run("restore", "copy.db");
  expect([code, line]).toEqual([exitCodes.failed, expect.stringContaining("another Bridgehead process")]);
});
