// SIGHUP: the running daemon logs changes that need a restart, and keeps running.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { childEnv, root } from "../../support/machine/command.ts";

const adapter = `
import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "probe",
  contract: 1,
  config: z.strictObject({ broken: z.boolean().default(false), lingers: z.boolean().default(false) }),
  traits: { attachments: false, conversations: "person", platform: "sms" },
  create(channel, { broken, lingers }) {
    if (broken) throw new Error("no paper");
    return { inbound: { run: async (_cursor, signal) => {
      channel.report({ state: "ready" });
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      if (!lingers) return;
      channel.log.info({}, "lingering");
      await new Promise((resolve) => process.once("SIGHUP", resolve));
    } } };
  },
};`;

it("continues when a reload fails, applies the next valid one, and still exits cleanly", async () => {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-run-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "probe.mjs"), adapter);
  const file = join(folder, "bridgehead.yaml");
  const configure = (channel: object, retention: object = {}) =>
    writeFileSync(
      file,
      JSON.stringify({
        platform: { url: "http://127.0.0.1:9" },
        agents: { support: { key: "${env:KEY}" } },
        channels: { office: { adapter: "./probe.mjs", agent: "support", ...channel } },
        http: { listen: "127.0.0.1:0" },
        store: "sqlite:store.db",
        log: { format: "json" },
        retention,
      }),
    );
  configure({});
  const child = spawn(process.execPath, ["--conditions=source", `${root}src/main.ts`, "run", "--config", file], {
    env: { ...childEnv, KEY: "k-12345" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const heard = (text: string) => expect.poll(() => said).toContain(text);
  await heard('"message":"ready"');

  configure({ broken: true });
  child.kill("SIGHUP");
  await heard("reloading the configuration failed, the old one stays in use");
  expect(said).toContain("no paper");

  configure({ lingers: true }, { raw: "2d" });
  child.kill("SIGHUP");
  await heard('"message":"configuration reloaded"');
  expect(said).not.toContain("take effect at the next restart");

  configure({ lingers: true }, { raw: "3d" });
  child.kill("SIGTERM");
  await heard("lingering");
  child.kill("SIGHUP");
  expect(await ended).toEqual([exitCodes.ok, null]);
  expect(said).toContain('"message":"stopped"');
  expect(said.split('"message":"configuration reloaded"')).toHaveLength(2);
  expect(said).not.toContain("a defect");
});
