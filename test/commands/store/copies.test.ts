// The copies that migrations and restores leave beside the databases: deleted by age, and named after an erasure.

import { existsSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { migrate } from "../../../src/store/migrate.ts";
import { deleteOldCopies, migrationCopy, restoreCopy, stampOf } from "../../../src/store/sqlite/copies.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { bridgehead } from "../../support/machine/command.ts";
import { configureIdle, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";

const day = 86_400_000;

/** Writes a file of that age; its name tells it, or the time of its last change does. */
function write(path: string, ageMs = 0): string {
  writeFileSync(path, "anna@example.com");
  const changed = (Date.now() - ageMs) / 1000;
  utimesSync(path, changed, changed);
  return path;
}

it("are deleted at their age, with what belongs to them; other files and younger ones stay", async () => {
  const file = join(newFolder(), "store.db");
  const now = Date.now();
  const [old, young] = [stampOf(now - 30 * day), stampOf(now - 29 * day)];
  const expected = [
    write(migrationCopy(file, old, 2)),
    write(`${migrationCopy(file, old, 2)}.partial`),
    write(restoreCopy(file, old)),
    write(`${restoreCopy(file, old)}-wal`),
    write(`${file}.restoring`, 31 * day),
  ];
  const kept = [
    write(file, 31 * day),
    write(`${file}-wal`, 31 * day),
    write(migrationCopy(file, young, 2)),
    write(restoreCopy(file, young)),
    write(`${file}.before-restore-mine`, 31 * day),
    write(`${restoreCopy(file, old)}.gz`, 31 * day),
    write(restoreCopy(`${file}.old`, old)),
    write(join(file, "..", `other.db.before-restore-${old}`)),
  ];
  expect(await deleteOldCopies(file, 30 * day, now)).toEqual(expected.toSorted());
  expect(readdirSync(join(file, "..")).map((name) => join(file, "..", name))).toEqual(kept.toSorted());
});

it("are deleted by the daemon after retention.raw, at the earliest after a day, and named by erase until then", async () => {
  const folder = newFolder();
  const store = join(folder, "store.db");
  const db = openSqlite(store, Date.now);
  await migrate(db);
  await db.close();
  const config = configureIdle(folder, { retention: { raw: "1h" } });
  const old = write(migrationCopy(store, stampOf(Date.now() - day), 1));
  const young = write(restoreCopy(store, stampOf(Date.now() - day / 2)));
  const other = restoreCopy(store, stampOf(Date.now()));
  writeFileSync(other, "bob@example.com");

  const erased = await bridgehead(["erase", "--person", "anna@example.com", "--config", config]);
  expect(erased.code).toBe(0);
  for (const path of [old, young]) expect(erased.out).toContain(`a backup still contains the address: ${path}`);
  expect(erased.out).toContain(`a copy of the store remains, in which the address is not found: ${other}`);
  expect(erased.out).toContain("delete them, or the daemon does it after retention.raw");

  const daemon = startDaemon({ config, plant: ["quick-retention"] });
  onTestFinished(() => daemon.send("SIGKILL"));
  const deleted = expect.objectContaining({ message: "old copy of the store deleted", copy: old });
  await expect.poll(() => daemon.lines).toContainEqual(deleted);
  expect([old, young, other].map((path) => existsSync(path))).toEqual([false, true, true]);
});
