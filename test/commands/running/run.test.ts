// Signals: at SIGHUP the running daemon applies its configuration, or logs changes that need a restart; SIGUSR1 and SIGUSR2 have
// no effect.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { childEnv, root } from "../../support/machine/command.ts";
import { newFolder } from "../../support/resources.ts";

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

/** Starts the daemon with these files in a folder of its own. `write` replaces files, `reload` sends SIGHUP. */
async function running(files: Readonly<Record<string, string | object>>) {
  const folder = newFolder();
  const write = (changed: typeof files) => {
    for (const [name, content] of Object.entries(changed))
      writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content), {
        mode: name.startsWith("open-") ? 0o644 : 0o600,
      });
  };
  write({ "probe.mjs": adapter, ...files });
  const file = join(folder, "bridgehead.yaml");
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
  return { child, ended, heard, said: () => said, write, reload: () => child.kill("SIGHUP") };
}

const rejected = "configuration rejected, the old one stays in use";
const failed = "reloading the configuration failed, the old one stays in use";

it("continues when a reload fails, applies the next valid one, and still exits cleanly", async () => {
  const configured = (channel: object, retention: object = {}, key = "${env:KEY}") => ({
    "open-key": "another-key-12345",
    "bridgehead.yaml": {
      platform: { url: "http://127.0.0.1:9" },
      agents: { support: { key } },
      channels: { office: { adapter: "./probe.mjs", agent: "support", ...channel } },
      http: { listen: "127.0.0.1:0" },
      store: "sqlite:store.db",
      log: { format: "json" },
      retention,
    },
  });
  const { child, ended, heard, said, write, reload } = await running(configured({}));

  write(configured({ broken: true }));
  reload();
  await heard(failed);
  expect(said()).toContain("no paper");

  write({ "bridgehead.yaml": "agents: {}\n" });
  reload();
  await heard(rejected);
  // The reasons come first, as docs/troubleshooting.md says.
  expect(said().indexOf("platform: is missing")).toBeGreaterThan(0);
  expect(said().indexOf("platform: is missing")).toBeLessThan(said().indexOf(rejected));

  expect(said()).not.toContain("configuration warning");
  write(configured({ broken: false }, { raw: "2d" }, "${file:open-key}"));
  reload();
  await heard('"message":"configuration reloaded"');
  expect(said()).toMatch(/"agents.support.key",.*which everybody on this machine can read.*"configuration warning"/);
  expect(said()).not.toContain("take effect at the next restart");

  child.kill("SIGTERM");
  expect(await ended).toEqual([exitCodes.ok, null]);
  expect(said()).toContain('"message":"stopped"');
  expect(said()).not.toContain("a defect");
});

it("opens no debugger at SIGUSR1, and continues after SIGUSR2", async () => {
  const { child, ended, heard, said, reload } = await running({
    "bridgehead.yaml": {
      platform: { url: "http://127.0.0.1:9" },
      agents: { support: { key: "${env:KEY}" } },
      channels: { office: { adapter: "./probe.mjs", agent: "support" } },
      http: { listen: "127.0.0.1:0" },
      store: "sqlite:store.db",
      log: { format: "json" },
    },
  });
  child.kill("SIGUSR1");
  child.kill("SIGUSR2");
  reload();
  await heard('"message":"configuration reloaded"');
  child.kill("SIGTERM");
  expect(await ended).toEqual([exitCodes.ok, null]);
  expect(said()).not.toContain("Debugger listening");
});

const model = { url: "http://127.0.0.1:9/v1", name: "some-model" };

it.each([
  ["in the configuration", { model, platform: "embedded" }],
  ["in a file of their own", { platform: { url: "embedded", embedded: { agents: "agents.yaml" } } }],
])("keeps the agents of the embedded platform, defined %s, when a reload fails", async (_where, platform) => {
  const configured = (key: string, channel: object) => ({
    key,
    "agents.yaml": { organization: { name: "Acme", key: "an-organization" }, agents: { support: { key, model } } },
    "bridgehead.yaml": {
      ...platform,
      agents: { support: { key: "${file:key}" } },
      channels: { office: { adapter: "./probe.mjs", agent: "support", ...channel } },
      http: { listen: "127.0.0.1:0" },
      store: "sqlite:store.db",
      log: { format: "json" },
    },
  });
  const [before, after] = ["first-key-12345", "second-key-12345"];
  const { heard, said, write, reload } = await running(configured(before, {}));
  const url = /"url":"([^"]+)","message":"embedded platform listening"/.exec(said())?.[1] ?? "";
  const accepts = async (key: string) =>
    (await fetch(`${url}/external/agents/by-api-key`, { headers: { "agent-secret-key": key } })).ok;
  expect([await accepts(before), await accepts(after)]).toEqual([true, false]);

  write(configured(after, { broken: true }));
  reload();
  await heard(failed);
  expect([await accepts(before), await accepts(after)]).toEqual([true, false]);

  write(configured(after, {}));
  reload();
  await heard('"message":"configuration reloaded"');
  expect([await accepts(before), await accepts(after)]).toEqual([false, true]);
});
