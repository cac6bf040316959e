// The check of the SQLite file after an unclean end, and the mark that shows such an end.

import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { timingWith } from "../../../src/ops/timing.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { checkFile, StoreCheck } from "../../../src/store/sqlite/check.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { listen } from "../../support/pipeline/stage.ts";
import { newFolder } from "../../support/resources.ts";
import { damageTable } from "../../support/store/damage.ts";

const timing = timingWith({ upkeep: { storeCheckDelay: 1 } });
const patient = 60_000;
const never = new AbortController().signal;

/** One life of a daemon on the file. */
async function life(file: string) {
  const db = openSqlite(file, Date.now);
  const { log, lines } = listen();
  const check = new StoreCheck({ db, log, clock: systemClock, timing });
  await migrate(db);
  await check.begin();
  return {
    db,
    check,
    lines,
    /** Ends the life: cleanly, or without the mark. */
    end: async ({ clean = true } = {}): Promise<void> => {
      if (clean) await check.end();
      await db.close();
    },
  };
}

const unclean = "store was not closed cleanly: its file is checked in the background";

it("is not due on a new store, and after a clean end", async () => {
  const file = join(newFolder(), "store.db");
  for (let n = 0; n < 2; n += 1) {
    const { check, lines, end } = await life(file);
    await check.run(never);
    await end();
    expect(lines).toEqual([]);
  }
});

it("is due after an unclean end, also when a command has used the store since, until it has passed", async () => {
  const file = join(newFolder(), "store.db");
  await (await life(file)).end({ clean: false });
  const command = openSqlite(file, Date.now);
  await command.read((q) => q.all("SELECT * FROM meta"));
  await command.close();
  const cancelled = await life(file);
  const abort = new AbortController();
  const running = cancelled.check.run(abort.signal);
  abort.abort();
  await running;
  await cancelled.end();
  expect(cancelled.lines).toEqual([unclean]);
  const checked = await life(file);
  await checked.check.run(never);
  await checked.end();
  expect(checked.lines).toEqual([unclean, "store check passed"]);
  const last = await life(file);
  await last.end();
  expect(last.lines).toEqual([]);
});

it("reports damage that no statement has met, at every start", async () => {
  const file = join(newFolder(), "store.db");
  await (await life(file)).end({ clean: false });
  damageTable(file, "blobs");
  for (let n = 0; n < 2; n += 1) {
    const { db, check, lines, end } = await life(file);
    expect(db.damage()).toBeNull();
    await check.run(never);
    expect(db.damage()).toMatch(/^the store .+store\.db is damaged \(\d+ bytes\): .+ Remedy: /);
    expect(lines).toEqual([unclean, "store damaged"]);
    await end();
  }
});

it("ends with the signal and with its time, and is then not finished", async () => {
  const file = join(newFolder(), "store.db");
  await (await life(file)).end();
  const abort = new AbortController();
  const aborted = checkFile(file, patient, abort.signal);
  abort.abort();
  expect(await aborted).toEqual({ kind: "unfinished", reason: "the daemon is stopping" });
  expect(await checkFile(file, patient, abort.signal)).toMatchObject({ kind: "unfinished" });
  // A process cannot start in a millisecond.
  expect(await checkFile(file, 1, never)).toEqual({ kind: "unfinished", reason: "it takes longer than 0.001 s" });
  expect(await checkFile(join(newFolder(), "absent.db"), patient, never)).toMatchObject({ kind: "unfinished" });
  expect(await checkFile(file, patient, never)).toEqual({ kind: "sound" });
});
