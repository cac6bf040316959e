// A daemon whose log cannot be written, because its disk is full, continues.

import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { childEnv, root } from "../../support/machine/command.ts";
import { configureIdle } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";

it("and reloads: an error of the configuration does not end it", async () => {
  const folder = newFolder();
  const config = configureIdle(folder);
  const full = openSync("/dev/full", "w");
  onTestFinished(() => closeSync(full));
  const child = spawn(process.execPath, ["--conditions=source", `${root}src/main.ts`, "run", "--config", config], {
    env: { ...childEnv, RUNTIME_DIRECTORY: folder },
    stdio: ["ignore", "ignore", full],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const reported = join(folder, "reload.json");
  const outcome = () =>
    existsSync(reported) ? (JSON.parse(readFileSync(reported, "utf8")) as { readonly result: string }).result : null;
  await expect.poll(outcome).toBe("applied");
  const valid = readFileSync(config);
  writeFileSync(config, "nonsense: 1\n");
  child.kill("SIGHUP");
  await expect.poll(outcome).toBe("rejected");
  writeFileSync(config, valid);
  child.kill("SIGHUP");
  await expect.poll(outcome).toBe("applied");
  expect(child.exitCode).toBe(null);
});
