// What a restore takes over from the store that it replaces: opt-outs, pauses of channels and the record of erasures.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { readMeta, writeMeta } from "../../../src/store/tables/meta.ts";
import { channelPauses, pauseChannel, resumeChannel } from "../../../src/store/tables/pauses.ts";
import { lift, suppress, suppressionOrHash } from "../../../src/store/tables/suppressions.ts";
import { inProcess } from "../../support/machine/command.ts";
import { newFolder } from "../../support/resources.ts";
import { conversation } from "../../support/store/databases.ts";

const erased = "+15550111";

async function setUp() {
  const folder = newFolder();
  const config = join(folder, "bridgehead.yaml");
  const store = join(folder, "store.db");
  const copy = join(folder, "copy.db");
  writeFileSync(config, "platform: { url: https://p.example.com }\nagents: {}\nchannels: {}\nstore: sqlite:store.db\n");
  const run = (...args: string[]) => inProcess([...args, "--config", config]);
  const use = async <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    const db = openSqlite(store, Date.now);
    try {
      return await work(db);
    } finally {
      await db.close();
    }
  };
  const change = (work: (q: Query) => Promise<unknown>) => use((db) => db.tx(work));
  const active = (address: string) => use((db) => db.read((q) => suppressionOrHash(q, "c", address)));
  const paused = () =>
    use(async (db) => (await db.read(channelPauses)).map(({ channel, event }) => ({ channel, event })));
  expect((await run("migrate")).code).toBe(exitCodes.ok);
  await change(async (q) => {
    await ensureChannel(q, "c");
    await conversation(q, "c1", "c", erased);
    await suppress(q, "c", "+15550001", "STOP");
    await suppress(q, "c", "+15550002", "STOP");
    await pauseChannel(q, { channel: "resumed", code: "operator", reason: "", event: null, forMs: null });
  });
  const inUse = () => use((db) => db.read((q) => readMeta(q, "in_use")));
  return { store, copy, run, change, active, paused, inUse };
}

it("restores the backup of a store in use as one that was closed cleanly", async () => {
  const { run, copy, change, inUse } = await setUp();
  await change((q) => writeMeta(q, "in_use", 1));
  expect(await inUse()).toBe(1);
  await run("backup", copy);
  expect((await run("restore", copy)).code).toBe(exitCodes.ok);
  expect(await inUse()).toBe(0);
});

/** What happens between the backup and its restore. */
async function live({ change, run }: Awaited<ReturnType<typeof setUp>>): Promise<void> {
  await change(async (q) => {
    await suppress(q, "c", "+15550999", "STOP");
    await suppress(q, "c", erased, "STOP");
    await lift(q, "c", "+15550002");
    await pauseChannel(q, { channel: "c", code: "loops", reason: "", event: 77, forMs: null });
    await resumeChannel(q, "resumed");
  });
  expect((await run("erase", "--person", erased)).code).toBe(exitCodes.ok);
}

it("keeps opt-outs and pauses made since the backup, and names the erasures to repeat", async () => {
  const here = await setUp();
  const { run, copy, active, paused } = here;
  await run("backup", copy);
  await live(here);
  const restored = await run("restore", copy);
  expect(restored.code).toBe(exitCodes.ok);
  expect(restored.out).toContain(
    "taken over from the former store: 2 opt-outs and 1 pause made since the backup, 1 opt-out lifted or erased since",
  );
  expect(restored.err).toMatch(/^erased since the backup, and in the store again \(erased 20\S+ \S+ UTC by [^)]+\): /);
  expect(restored.err).toContain(`bridgehead erase --person ${erased} --config `);
  expect(await active("+15550001")).not.toBeNull();
  expect(await active("+15550002")).toBeNull();
  expect(await active("+15550999")).not.toBeNull();
  expect(await active(erased)).not.toBeNull();
  // The message of the pause is not in the backup.
  expect(await paused()).toEqual([{ channel: "c", event: null }]);

  // The record is in the restored store, so that a second restore knows it; once repeated, it is in the next backup.
  const again = await run("restore", copy, "--json");
  expect(JSON.parse(again.out)).toMatchObject({
    carried: { erasures: [{ addresses: [erased] }], lost: [], optOuts: 2, pauses: 1 },
  });
  await run("erase", "--person", erased);
  await run("backup", `${copy}2`);
  const clean = await run("restore", `${copy}2`);
  expect([clean.err, clean.out.includes("taken over")]).toEqual(["", false]);
});

it("takes over opt-outs of single numbers of ours", async () => {
  const { run, copy, change } = await setUp();
  const [one, two] = ["+15550100", "+15550200"];
  await change((q) => suppress(q, "c", "+15550003", "STOP", { own: one }));
  await run("backup", copy);
  await change(async (q) => {
    await lift(q, "c", "+15550003", one);
    await suppress(q, "c", "+15550003", "STOP", { own: two });
  });
  expect((await run("restore", copy)).out).toContain("1 opt-out and 0 pauses made since the backup, 1 opt-out lifted");
  const left = JSON.parse((await run("opt-out", "list", "--json")).out) as { address: string; own_address: string }[];
  expect(left.flatMap((row) => (row.address === "+15550003" ? row.own_address : []))).toEqual([two]);
});

it("keeps the opt-outs of the backup when the former store is another one", async () => {
  const here = await setUp();
  const { run, copy, store, change, active, paused } = here;
  await run("backup", copy);
  for (const suffix of ["", "-wal", "-shm", "-installation"]) rmSync(store + suffix, { force: true });
  expect((await run("migrate")).code).toBe(exitCodes.ok);
  await change((q) => suppress(q, "c", "+15550999", "STOP"));
  const restored = await run("restore", copy);
  expect(restored.out).toContain("1 opt-out and 0 pauses made since the backup, 0 opt-outs lifted or erased since");
  for (const address of ["+15550001", "+15550002", "+15550999"]) expect(await active(address)).not.toBeNull();
  expect(await paused()).toEqual([{ channel: "resumed", event: null }]);
});

it.each(["damaged", "missing"])("says what is lost when the former store is %s", async (state) => {
  const here = await setUp();
  const { run, copy, store, active } = here;
  await run("backup", copy);
  await live(here);
  for (const suffix of ["-wal", "-shm"]) rmSync(store + suffix, { force: true });
  if (state === "missing") rmSync(store);
  else writeFileSync(store, readFileSync(store).fill(0x5a, 0, 200_000));
  const restored = await run("restore", copy);
  expect(restored.code).toBe(exitCodes.ok);
  expect(restored.err).toContain(
    `${state === "missing" ? "there was no former store" : "the former store cannot be read"}: opt-outs, pauses, erasures made since the backup are lost`,
  );
  expect(await active("+15550002")).not.toBeNull();
});
