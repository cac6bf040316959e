// SIGTERM with an adapter that ignores the signal to end.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { configureIdle, startDaemon } from "../../support/process/daemon.ts";
import { readStored } from "../../support/process/mail/invariants.ts";
import { newFolder } from "../../support/resources.ts";

/** Receives one message. With `lingers` it goes on reading. */
const adapter = `
import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "probe",
  contract: 1,
  config: z.strictObject({ lingers: z.boolean() }),
  traits: { attachments: false, conversations: "person", platform: "live_chat" },
  create: (channel, { lingers }) => ({ inbound: { run: async (_cursor, signal) => {
    channel.report({ state: "ready" });
    await channel.accept([{
      kind: "message", id: "m1", from: { address: "ada" }, to: [], thread: { answers: [] }, sentAt: new Date(), text: "Hello",
    }]);
    await new Promise((resolve) => lingers || signal.addEventListener("abort", resolve));
  } } }),
};`;

it.for([
  [false, "stopped", undefined],
  [true, "stopped without waiting for an adapter that does not end", ["office"]],
] as const)("ends on SIGTERM; an adapter goes on reading: %s", async ([lingers, last, left]) => {
  const folder = newFolder();
  writeFileSync(join(folder, "probe.mjs"), adapter);
  const channels = { office: { adapter: "./probe.mjs", agent: "support", lingers } };
  const config = configureIdle(folder, { agents: { support: { key: "${env:KEY}" } }, channels });
  const daemon = startDaemon({ config, env: { KEY: "k-12345" }, plant: ["quick-shutdown"] });
  onTestFinished(() => daemon.send("SIGKILL"));
  expect(await daemon.ready).toBe(true);
  await expect.poll(() => daemon.lines.map(({ message }) => message)).toContain("message received");

  expect(await daemon.stop()).toEqual({ code: 0, signal: null });

  expect(daemon.lines.at(-1)).toMatchObject({ message: last });
  expect(daemon.lines.at(-1)?.["channels"]).toEqual(left);
  expect(await readStored(join(folder, "store.db"), "SELECT id FROM events")).toHaveLength(1);
});
