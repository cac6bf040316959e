// An adapter that quotes the secret of its block wherever it can: the secret is masked where it enters the daemon, so no exit
// shows it (/readyz, the console, commands, notifications, the store).

import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { startPhoneDaemon } from "../support/daemon/phone-daemon.ts";

const secret = "s3cret/of the bot";

const source = `
import * as z from "zod";
const received = Promise.withResolvers();
export default {
  name: "leaky",
  contract: 1,
  config: z.strictObject({ token: z.string().meta({ secret: true }) }),
  traits: { attachments: false, conversations: "person", platform: "live_chat" },
  create: (channel, { token }) => ({
    inbound: {
      async run() {
        if (!received.isOver) channel.report({ state: "ready" });
        channel.warn("quota", "the quota of " + token + " is used up");
        await received.promise;
        throw new Error("GET https://api.example/bot" + encodeURIComponent(token) + "/getUpdates");
      },
    },
    async *open() {
      throw new Error("GET https://files.example/bot" + token);
    },
    routes: [{
      kind: "http", method: "POST", path: "/message",
      async handle() {
        await channel.accept([{
          kind: "message", id: "m1", from: { address: "visitor-7" }, to: [], thread: { answers: [] },
          sentAt: new Date(), text: "Where is my lamp?",
          attachments: [{ name: "a.png", mediaType: "image/png", ref: "1" }],
        }]);
        received.isOver = true;
        received.resolve();
        return new Response(null, { status: 204 });
      },
    }],
    outbound: {
      compose: ({ to, text }) => [{ to: to[0].address, text }],
      async send(draft, attempt) {
        await attempt.crossing();
        return { kind: "refused", code: "no", reason: "POST https://api.example/bot" + token + "/send".padEnd(1e6, "?") };
      },
    },
  }),
};`;

it("shows no secret and no page that an adapter quotes in a status, a warning, an outcome or an error", async ({
  onTestFinished,
}) => {
  const channels = { leaky: { adapter: "./leaky.mjs", agent: "support", token: "${env:LEAKY_TOKEN}" } };
  const daemon = await startPhoneDaemon(onTestFinished, { channels, stopped: true, env: { LEAKY_TOKEN: secret } });
  const modules = join(dirname(daemon.file), "node_modules");
  mkdirSync(modules);
  symlinkSync(fileURLToPath(new URL("../../node_modules/zod", import.meta.url)), join(modules, "zod"));
  writeFileSync(join(dirname(daemon.file), "leaky.mjs"), source);
  await daemon.start();
  const mask = "********";
  const { status } = await fetch(`${daemon.node().url}/channels/leaky/message`, { method: "POST" });
  expect(status).toBe(204);
  await expect.poll(() => daemon.channel("leaky").reason).toBe(`GET https://api.example/bot${mask}/getUpdates`);
  expect(daemon.channel("leaky").warnings).toEqual([`the quota of ${mask} is used up`]);
  const states = () => daemon.rows<{ state: string; reason: string }>("SELECT state, reason FROM drafts");
  await expect
    .poll(states)
    .toEqual([{ state: "failed", reason: `no: ${`POST https://api.example/bot${mask}/send`.padEnd(2000, "?")}` }]);
  const tables = await daemon.rows<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'");
  const rows = await Promise.all(tables.map(({ name }) => daemon.rows(`SELECT * FROM ${name}`)));
  const texts = JSON.stringify(rows);
  expect(texts).toContain(`GET https://files.example/bot${mask}`);
  for (const text of [secret, encodeURIComponent(secret)]) expect(texts).not.toContain(text);
});
