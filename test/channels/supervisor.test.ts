// A supervisor among several nodes: what it reports while another one reads.

import { join } from "node:path";
import { expect, it } from "vitest";
import { supervise } from "../../src/channels/supervisor.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { standardTiming, timingWith } from "../../src/ops/timing.ts";
import { dropLease, takeLease } from "../../src/store/leases.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { newFolder, silentLog } from "../support/resources.ts";

it("stands by while another node reads the channel, and says so; then it reads, until its lease is lost", async ({
  onTestFinished,
}) => {
  const folder = newFolder();
  const db = openSqlite(join(folder, "store.db"), () => systemClock.now());
  onTestFinished(() => db.close());
  await migrate(db);
  await db.tx((q) => takeLease(q, "channel:c", "other", 3_600_000));
  const abort = new AbortController();
  const stoodBy = Promise.withResolvers<void>();
  const reading = Promise.withResolvers<void>();
  const fallen = Promise.withResolvers<unknown>();
  const life = supervise(
    {
      channel: "c",
      inbound: {
        run: (_cursor, signal) => {
          reading.resolve();
          return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
        },
      },
      db,
      clock: systemClock,
      timing: timingWith({ channels: { renewal: 20 } }),
      log: silentLog,
      node: "own",
      setReader: () => undefined,
      hasWorked: () => false,
      tick: () => undefined,
      standby: () => stoodBy.resolve(),
      fell: fallen.resolve,
    },
    abort.signal,
  );
  await stoodBy.promise;
  await db.tx((q) => dropLease(q, "channel:c", "other"));
  await reading.promise;
  // As if its lease had expired while the process was frozen.
  await db.tx((q) => dropLease(q, "channel:c", "own"));
  await db.tx((q) => takeLease(q, "channel:c", "other", 3_600_000));
  expect(await fallen.promise).toMatchObject({ message: "the channel's lease was lost" });
  abort.abort();
  await expect(life).resolves.toBeUndefined();
});

it("waits longer after each run that fails as soon as it is ready", async ({ onTestFinished }) => {
  const db = openSqlite(join(newFolder(), "store.db"), () => systemClock.now());
  onTestFinished(() => db.close());
  await migrate(db);
  const abort = new AbortController();
  const pauses: number[] = [];
  await supervise(
    {
      channel: "c",
      inbound: { run: () => Promise.reject(new Error("the server closed the connection")) },
      db,
      clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 1), signal) },
      timing: timingWith({ channels: { renewal: 3_600_000 } }),
      log: silentLog,
      node: "own",
      setReader: () => undefined,
      hasWorked: () => true,
      tick: () => undefined,
      standby: () => undefined,
      fell: (_error, pause) => {
        if (pauses.push(pause) === 4) abort.abort();
      },
    },
    abort.signal,
  );
  expect(pauses[3]).toBeGreaterThan(4 * standardTiming.channels.restart);
});
