// When the running daemon erases what is old.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { configureIdle, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";

it("begins some minutes after the start, because the clock may be ahead until it is synchronized", async () => {
  const folder = newFolder();
  const config = configureIdle(folder);
  const copy = join(folder, "store.db.before-migration-20200101T000000000-schema-1");
  writeFileSync(copy, "");
  const start = async (plant: readonly string[]) => {
    const daemon = startDaemon({ config, plant });
    onTestFinished(() => daemon.send("SIGKILL"));
    expect(await daemon.ready).toBe(true);
    return daemon;
  };
  const says = (daemon: Awaited<ReturnType<typeof start>>, text: string) =>
    expect.poll(() => daemon.lines.map(({ message }) => message)).toContain(text);
  const waiting = await start([]);
  waiting.send("SIGHUP");
  await says(waiting, "configuration reloaded");
  await waiting.stop();
  expect(existsSync(copy)).toBe(true);
  const erasing = await start(["quick-retention"]);
  await says(erasing, "old copy of the store deleted");
  await erasing.stop();
  expect(existsSync(copy)).toBe(false);
});
