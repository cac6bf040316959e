// A start that takes longer than systemd waits: the daemon requests more time while SQLite blocks its thread.

import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { whileStarting } from "../../../src/commands/running/start-timeout.ts";
import { pause } from "../../../src/ops/clock.ts";
import { standardTiming, timingWith } from "../../../src/ops/timing.ts";
import { migrate, migrations } from "../../../src/store/migrate.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { configureIdle, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";

/** A systemd-notify that writes down what it is to send. With `slowReady` READY takes until the file `sent` exists. */
function systemd(slowReady = false) {
  const folder = newFolder();
  const [told, sent] = [join(folder, "told"), join(folder, "sent")];
  const wait = `case "$1" in READY=1) until [ -e ${sent} ]; do sleep 0.02; done ;; esac`;
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "bin/systemd-notify"), `#!/bin/sh\necho "$1" >> ${told}\n${slowReady ? wait : ""}\n`);
  chmodSync(join(folder, "bin/systemd-notify"), 0o755);
  return {
    folder,
    sent,
    env: { NOTIFY_SOCKET: join(folder, "notify"), PATH: `${join(folder, "bin")}:${process.env["PATH"] ?? ""}` },
    told: () => (existsSync(told) ? readFileSync(told, "utf8").trimEnd().split("\n") : []),
  };
}

const request = `EXTEND_TIMEOUT_USEC=${standardTiming.startup.extension * 1000}`;

it("is extended again and again while the thread is blocked", async () => {
  const { env, told } = systemd();
  const blocked = async () => {
    while (told().length < 3) pause(10);
    return "open";
  };
  expect(await whileStarting(env, timingWith({ startup: { extensionEvery: 10 } }), blocked)).toBe("open");
  expect(new Set(told())).toEqual(new Set([request]));
});

it("is not extended without systemd, and fails with its own error", async () => {
  const failing = () => Promise.reject(new Error("no store"));
  await expect(whileStarting({}, standardTiming, failing)).rejects.toThrow("no store");
  await expect(whileStarting(systemd().env, standardTiming, failing)).rejects.toThrow("no store");
});

it("is extended while the store is copied before a migration", async () => {
  const { env, told, folder } = systemd();
  const older = openSqlite(join(folder, "store.db"), Date.now);
  await migrate(older, migrations.slice(0, 1));
  await older.close();
  const hold = { at: "backup.copy:after:1", until: join(folder, "copied") };
  const daemon = startDaemon({ config: configureIdle(folder), env, hold, plant: ["quick-start-timeout"] });
  onTestFinished(() => daemon.send("SIGKILL"));
  const messages = () => daemon.lines.map(({ message }) => message);
  await expect.poll(() => [...messages(), ...daemon.complaints]).toContain("held");
  const before = told().length;
  await expect.poll(() => told().length).toBeGreaterThan(before + 2);
  expect(new Set(told())).toEqual(new Set([request]));
  writeFileSync(hold.until, "");
  expect(await daemon.ready).toBe(true);
  expect(messages()).toContain("store copied before migration");
});

it("ends cleanly at SIGTERM while READY is sent", async () => {
  const { env, told, folder, sent } = systemd(true);
  const daemon = startDaemon({ config: configureIdle(folder), env });
  onTestFinished(() => daemon.send("SIGKILL"));
  await expect.poll(() => [...told(), ...daemon.complaints]).toContain("READY=1");
  daemon.send("SIGTERM");
  // The signal is handled before the end of the child process is.
  writeFileSync(sent, "");
  expect([(await daemon.ended).code, daemon.complaints]).toEqual([exitCodes.ok, []]);
});
