// bridgehead log-level at a running daemon.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { LogLevels, logLevel } from "../../../src/commands/running/log-level.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { timingWith } from "../../../src/ops/timing.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { readLogLevelRequest, requestLogLevel } from "../../../src/store/operators/log-level.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { commandIo, inProcess } from "../../support/machine/command.ts";
import { startDaemon } from "../../support/process/daemon.ts";
import { newFolder, silentLog } from "../../support/resources.ts";

function configured(): string {
  const file = join(newFolder(), "bridgehead.yaml");
  const text = {
    platform: { url: "http://127.0.0.1:9" },
    agents: { support: { key: "${env:KEY}" } },
    channels: {},
    http: { listen: "127.0.0.1:0" },
    store: "sqlite:store.db",
    log: { format: "json" },
  };
  writeFileSync(file, JSON.stringify(text));
  return file;
}

it("changes the level of the running daemon for a limited time, and reports it", async () => {
  const file = configured();
  const daemon = startDaemon({ config: file, env: { KEY: "k-12345" }, plant: ["quick-log-level"] });
  onTestFinished(async () => void (await daemon.stop()));
  expect(await daemon.ready).toBe(true);
  const logged = (line: object) => expect.poll(() => daemon.lines).toContainEqual(expect.objectContaining(line));
  const level = (...args: string[]) => inProcess(["log-level", ...args, "-c", file]);

  expect(await level()).toMatchObject({ code: exitCodes.ok, out: "the daemon logs at level info\n" });
  const changed = await level("debug", "--for", "1s");
  expect(changed.err).toBe("");
  expect(changed.out).toMatch(/^the daemon logs at level debug until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n$/);
  await logged({ wanted: "debug", message: "log level changed by an operator" });
  await logged({ message: "log level restored: its time is over" });
  expect((await level("error")).out).toBe("the daemon logs at level error\n");
  expect((await level()).out).toBe("the daemon logs at level error\n");
  daemon.send("SIGHUP");
  await expect.poll(async () => (await level()).out).toBe("the daemon logs at level info\n");
  expect(await daemon.stop()).toEqual({ code: exitCodes.ok, signal: null });
  const asked = { config: file, level: "debug" } as const;
  const timing = timingWith({ commands: { logLevel: 200 } });
  const io = commandIo({ out: () => undefined, err: () => undefined, timing });
  await expect(logLevel(asked, io)).rejects.toThrow("no daemon answered");
});

it("ends the limited time also when the clock goes back", async () => {
  const db = openSqlite(":memory:", Date.now);
  onTestFinished(() => db.close());
  await migrate(db);
  let ahead = 0;
  const set = Promise.withResolvers<void>();
  const levels: string[] = [];
  const log = {
    ...silentLog,
    setLevel: (level: string) => void levels.push(level),
    setMask: () => undefined,
    warn: () => {
      ahead = -86_400_000;
      set.resolve();
    },
  };
  const ended = new AbortController();
  const clock = { ...systemClock, now: () => Date.now() + ahead };
  const following = new LogLevels(log, () => "info", clock).follow(
    db,
    timingWith({ upkeep: { logLevelCheck: 1 } }).upkeep,
    ended.signal,
  );
  onTestFinished(async () => {
    ended.abort();
    await following;
  });
  // What was requested before it has read the last request does not count.
  await db.read(readLogLevelRequest);
  await db.tx((q) => requestLogLevel(q, { level: 0, forMs: 50 }));
  await set.promise;
  await expect.poll(() => levels).toEqual(["debug", "info"]);
});

it("rejects a wrong level and a wrong time", async () => {
  const file = configured();
  expect((await inProcess(["log-level", "loud", "-c", file])).code).toBe(exitCodes.usage);
  expect((await inProcess(["log-level", "debug", "--for", "soon", "-c", file])).code).toBe(exitCodes.usage);
  expect((await inProcess(["log-level", "--for", "1m", "-c", file])).code).toBe(exitCodes.usage);
});
