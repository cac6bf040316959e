// The progress of long operations, in a pseudo-terminal. Another program locks the store, so that each operation takes
// longer than a second and continues when the test has seen its progress.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { expect, it } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { ProgressBar, withProgress } from "../../../src/commands/store/progress.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { openTerminal } from "../../support/machine/command.ts";
import { newFolder } from "../../support/resources.ts";

async function setUp() {
  const folder = newFolder();
  const store = join(folder, "store.db");
  const db = openSqlite(store, Date.now);
  await migrate(db);
  await db.close();
  const config = join(folder, "bridgehead.yaml");
  writeFileSync(config, `store: sqlite:${store}\n`);
  const lock = (file = store) => {
    const other = new Sqlite(file);
    other.pragma("locking_mode = EXCLUSIVE");
    other.exec("BEGIN IMMEDIATE; UPDATE meta SET value = value; COMMIT");
    return () => other.close();
  };
  return { folder, store, config, lock };
}

it("shows a bar for backup and verify, and removes it before the result", async () => {
  const { folder, store, config, lock } = await setUp();
  for (const [args, bar, result] of [
    [["backup", "copy.db", "--config", config], "backing up [", "backed up to"],
    [["verify", store], "verifying checking pages [", "no problems found"],
    [["verify", store, "--json"], "verifying checking pages [", '"problems":[]'],
  ] as const) {
    const unlock = lock();
    const terminal = openTerminal(folder, args, { NO_COLOR: "1" });
    await terminal.sees(bar);
    unlock();
    await terminal.sees(result);
    expect(await terminal.ended).toBe(exitCodes.ok);
    const lines = terminal.screen().trimEnd().split(/\r*\n/);
    expect(lines.slice(1).join(""), "the bar is one line that was removed").not.toContain("verifying");
  }
  expect(existsSync(join(folder, "copy.db"))).toBe(true);
});

it("shows a bar for restore, which verifies the backup first", async () => {
  const { folder, config, lock } = await setUp();
  const backup = openTerminal(folder, ["backup", "copy.db", "--config", config]);
  expect(await backup.ended).toBe(exitCodes.ok);
  const unlock = lock(join(folder, "copy.db"));
  const restore = openTerminal(folder, ["restore", "copy.db", "--config", config]);
  await restore.sees("verifying checking pages [");
  unlock();
  await restore.sees("restored to");
  expect(await restore.ended).toBe(exitCodes.ok);
});

it("counts units and names parts, and shows nothing without a terminal", async () => {
  const drawn: string[] = [];
  const draw = (line: string) => void drawn.push(line);
  const elsewhere: string[] = [];
  const redirected = new ProgressBar(
    { timing: standardTiming, terminal: false, draw: (line) => void elsewhere.push(line) },
    "copying",
    4,
  );
  await withProgress({ timing: standardTiming, terminal: true, draw }, "copying", 4, async (progress) => {
    progress.part("events");
    progress.add(1);
    await expect.poll(() => drawn.at(-1)).toMatch(/^copying events \[#{6}\.{18}\] 25% \d/);
    progress.measure(() => 3);
    await expect.poll(() => drawn.at(-1)).toContain("] 75% ");
  });
  expect(drawn.at(-1)).toBe("");
  redirected.end();
  expect(elsewhere, "without a terminal").toEqual([]);
});
