// bridgehead log-level at a running daemon.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../src/commands/io.ts";
import { bridgehead, childEnv, root } from "../support/machine/command.ts";

function configured(): string {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-level-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "bridgehead.yaml");
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
  const child = spawn(process.execPath, ["--conditions=source", `${root}src/main.ts`, "run", "-c", file], {
    env: { ...childEnv, KEY: "k-12345" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const heard = (text: string) => expect.poll(() => said).toContain(text);
  await heard('"message":"ready"');
  const level = (...args: string[]) => bridgehead(["log-level", ...args, "-c", file]);

  expect(await level()).toMatchObject({ code: exitCodes.ok, out: "the daemon logs at level info\n" });
  const changed = await level("debug", "--for", "3s");
  expect(changed.err).toBe("");
  expect(changed.out).toMatch(/^the daemon logs at level debug until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n$/);
  await heard('"wanted":"debug","message":"log level changed by an operator"');
  await heard("log level restored: its time is over");
  expect((await level("error")).out).toBe("the daemon logs at level error\n");
  expect((await level()).out).toBe("the daemon logs at level error\n");
  child.kill("SIGHUP");
  await expect.poll(async () => (await level()).out).toBe("the daemon logs at level info\n");
  child.kill("SIGTERM");
  expect(await ended).toEqual([exitCodes.ok, null]);
  expect(await level("debug")).toMatchObject({
    code: exitCodes.failed,
    err: expect.stringContaining("no daemon answered"),
  });
});

it("rejects a wrong level and a wrong time", async () => {
  const file = configured();
  expect((await bridgehead(["log-level", "loud", "-c", file])).code).toBe(exitCodes.usage);
  expect((await bridgehead(["log-level", "debug", "--for", "soon", "-c", file])).code).toBe(exitCodes.usage);
  expect((await bridgehead(["log-level", "--for", "1m", "-c", file])).code).toBe(exitCodes.usage);
});
