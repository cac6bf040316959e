import { chmodSync, fstatSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createNotifier, isJournal, withErrorPriority } from "../../src/ops/systemd.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import { newFolder } from "../support/resources.ts";

const folder = newFolder(afterAll);

const said: string[] = [];
const say = (_fields: object, message: string): void => void said.push(message);
const log = { debug: say, info: say, warn: say, error: say };

// A command that writes down how it was called, in the place of systemd's own.
const command = join(folder, "systemd-notify");
const calls = join(folder, "calls");
writeFileSync(command, `#!/bin/sh\nprintf '%s|' "$NOTIFY_SOCKET" "$@" >> ${calls}\necho >> ${calls}\n`);
chmodSync(command, 0o755);

describe("the notifier", () => {
  it("notifies systemd through its own command, one call per state", async () => {
    const notifier = createNotifier(
      { NOTIFY_SOCKET: "/run/x", PATH: process.env["PATH"] },
      log,
      standardTiming.health,
      command,
    );
    expect(notifier.isUsed).toBe(true);
    await notifier.extend(1500);
    await notifier.ready("3/4 channels ready,\n12 waiting");
    await notifier.status("4/4");
    await notifier.watchdog();
    await notifier.reloading();
    await notifier.stopping();
    expect(readFileSync(calls, "utf8").trimEnd().split("\n")).toEqual([
      "/run/x|EXTEND_TIMEOUT_USEC=1500000|",
      "/run/x|READY=1|STATUS=3/4 channels ready, 12 waiting|",
      "/run/x|STATUS=4/4|",
      "/run/x|WATCHDOG=1|",
      "/run/x|RELOADING=1|STATUS=reloading|",
      "/run/x|STOPPING=1|STATUS=stopping|",
    ]);
  });

  it("says nothing when systemd did not start us", async () => {
    const notifier = createNotifier({ WATCHDOG_USEC: "1000000" }, log, standardTiming.health, join(folder, "absent"));
    await notifier.ready("x");
    expect(notifier.watchdogMs).toBeNull();
    expect(notifier.isUsed).toBe(false);
    expect(said).toEqual([]);
  });

  it("logs once when the command is missing, and continues", async () => {
    const notifier = createNotifier({ NOTIFY_SOCKET: "/run/x" }, log, standardTiming.health, join(folder, "absent"));
    await notifier.status("a");
    await notifier.status("b");
    expect(said).toEqual(["notifying systemd failed"]);
  });

  it.each([
    ["ours", String(process.pid), 30_000],
    ["our launcher's", String(process.ppid), 30_000],
    ["absent", undefined, 30_000],
    ["another's", "1", null],
  ])("knows the watchdog's interval when WATCHDOG_PID is %s", (_whose, pid, expected) => {
    const env = { NOTIFY_SOCKET: "/run/x", WATCHDOG_USEC: "30000000", WATCHDOG_PID: pid };
    expect(createNotifier(env, log, standardTiming.health).watchdogMs).toBe(
      process.ppid === 1 && pid === "1" ? 30_000 : expected,
    );
  });
});

describe("the journal", () => {
  it("is recognized by device and inode", () => {
    const { dev, ino } = fstatSync(0);
    expect(isJournal(`${dev}:${ino}`, 0)).toBe(true);
    expect(isJournal(`${dev}:${ino + 1}`, 0)).toBe(false);
    expect(isJournal(undefined, 0)).toBe(false);
    expect(isJournal("1:2", 9999)).toBe(false);
  });

  it("gets the priority err on every line that has none", () => {
    expect(withErrorPriority("one\ntwo\n\n<6>three\n")).toBe("<3>one\n<3>two\n\n<6>three\n");
  });
});
