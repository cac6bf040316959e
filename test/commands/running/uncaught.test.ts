// Errors that a third-party adapter catches nowhere: they end no other channel.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { configureIdle, startDaemon } from "../../support/process/daemon.ts";
import { newFolder } from "../../support/resources.ts";

/** The flaw occurs in the first run only. */
const adapter = (flaw: string) => `
import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
let runs = 0;
export default {
  name: "probe",
  contract: 1,
  config: z.strictObject({}),
  traits: { attachments: false, conversations: "person", platform: "live_chat" },
  create: (channel) => ({ inbound: { run: async (_cursor, signal) => {
    runs += 1;
    channel.log.info({ runs }, "probe runs");
    channel.report({ state: "ready" });
    if (runs === 1) { ${flaw} }
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  } } }),
};`;

/** Starts a daemon with this adapter. `add` adds a channel of another one at a reload. */
function startWith(flaw: string) {
  const folder = newFolder();
  mkdirSync(join(folder, "an adapter"));
  writeFileSync(join(folder, "an adapter", "index.mjs"), adapter(flaw));
  const office = { adapter: "./an adapter", agent: "support" };
  const configure = (channels: object) =>
    configureIdle(folder, { agents: { support: { key: "${env:KEY}" } }, channels });
  const config = configure({ office });
  const daemon = startDaemon({ config, env: { KEY: "k-12345" } });
  onTestFinished(() => daemon.send("SIGKILL"));
  const add = (source: string) => {
    writeFileSync(join(folder, "other.mjs"), source);
    configure({ office, other: { adapter: "./other.mjs", agent: "support" } });
    daemon.send("SIGHUP");
  };
  return { ...daemon, add };
}

const flaws: readonly (readonly [what: string, flaw: string])[] = [
  ["a promise without await", 'void (async () => { await channel.identity(); throw new Error("flaw"); })();'],
  ["a rejection of accept", "void channel.accept([{}]);"],
  ["a throw in a timer", 'setTimeout(() => { throw new Error("flaw"); });'],
  ["an error event without a listener", '(await import("node:net")).connect({ path: "/nonexistent/socket" });'],
  ["a failure of Node without await", 'void (await import("node:fs/promises")).readFile("/nonexistent/file");'],
];

it.for(flaws)("starts the channel again after %s", async ([, flaw]) => {
  const daemon = startWith(flaw);
  await expect.poll(() => daemon.lines.filter(({ message }) => message === "probe runs")).toHaveLength(2);

  expect(await daemon.stop()).toEqual({ code: 0, signal: null });

  const found = daemon.lines.filter(({ message }) => message === "adapter left an error uncaught");
  expect(found).toMatchObject([{ level: "error", channel: "office", adapter: "probe" }]);
  expect(daemon.lines).toContainEqual(
    expect.objectContaining({ message: "channel warning", channel: "office", code: "uncaught-error" }),
  );
});

it("continues after a reload with an adapter that leaves an error uncaught", async () => {
  const daemon = startWith("");
  expect(await daemon.ready).toBe(true);
  const failing = 'create: () => { void (async () => { throw new Error("flaw"); })(); }, rest: (channel) =>';
  daemon.add(adapter("").replace('"probe"', '"other"').replace("create: (channel) =>", failing));
  const texts = () => daemon.lines.map(({ message }) => message);
  await expect.poll(texts).toContain("reloading the configuration failed, the old one stays in use");

  expect(await daemon.stop()).toEqual({ code: 0, signal: null });

  const found = daemon.lines.find(({ message }) => message === "adapter left an error uncaught");
  expect(found).toMatchObject({ level: "error", adapter: "other" });
});

it("ends the process after an error of unknown origin", async () => {
  const daemon = startWith("void Promise.reject(null);");
  expect(await daemon.ended).toEqual({ code: exitCodes.crashed, signal: null });
});
