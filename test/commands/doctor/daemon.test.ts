// Findings of the running daemon: a real process with a channel that has failed and one that is paused.

import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { ChannelReport } from "../../../src/channels/readiness.ts";
import { daemonProblems } from "../../../src/commands/doctor/daemon.ts";
import type { Config } from "../../../src/config/index.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { insertEvents } from "../../../src/pipeline/accept/rows.ts";
import type { ChannelOverview } from "../../../src/store/operators/overview.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { env, fixture } from "../../support/commands/configuration.ts";
import { freePort, serve } from "../../support/machine/network.ts";
import { startDaemon } from "../../support/process/daemon.ts";
import { conversation, event } from "../../support/store/databases.ts";

const adapter = `
import * as z from ${JSON.stringify(import.meta.resolve("zod"))};
export default {
  name: "failing", contract: 1, config: z.strictObject({ state: z.string() }),
  traits: { attachments: false, conversations: "person", platform: "email" },
  address: (text) => text.toLowerCase(),
  create: (channel, { state }) => ({
    inbound: { run: async (_cursor, signal) => {
      channel.report(state === "ready" ? { state } : { state, code: "login", reason: "535 wrong password" });
      if (state !== "ready") channel.warn("copies", "another daemon reads this mailbox");
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    } },
    outbound: {
      compose: () => [{}],
      send: async (_draft, attempt) => {
        await attempt.crossing();
        return { kind: "refused", code: "550", reason: "550 no such mailbox" };
      },
    },
  }),
};`;

it("reports messages and replies that wait longer than ten minutes, except on a paused channel", () => {
  const config = { http: { admin_listen: { host: "127.0.0.1", port: 9025 } } } as unknown as Config;
  const minute = 60_000;
  const waits = (channel: string, oldest_turn: number | null, oldest_draft: number | null) => ({
    channel,
    oldest_turn,
    oldest_draft,
    paused_for: 0,
  });
  const state = {
    channels: [
      { id: "quiet", paused: { reason: "lunch" }, warnings: [], not_asking: null, state: "ready" },
      { id: "office", paused: null, warnings: [], not_asking: null, state: "ready" },
    ] as unknown as ChannelReport[],
    store: [
      waits("quiet", 30 * minute, null),
      waits("office", 11 * minute, 12 * minute),
      waits("sales", 10 * minute, null),
    ] as unknown as ChannelOverview[],
  };
  expect(daemonProblems(config, state, standardTiming).map(({ id, place, remedy }) => [id, place, remedy])).toEqual([
    ["messages-late", "channel office", "bridgehead conversation list --state waiting --channel office"],
    ["messages-late", "channel office", "bridgehead outbox list --state queued --channel office"],
  ]);
});

it("reports what the running daemon knows, and that none runs", async () => {
  const one = fixture();
  const platform = createServer((_request, response) => response.writeHead(401).end('{"message":"no"}'));
  const url = await serve(platform);
  writeFileSync(join(one.folder, "failing.mjs"), adapter);
  const admin = await freePort();
  writeFileSync(
    one.config,
    JSON.stringify({
      platform: { url },
      agents: { support: { key: "${env:KEY}" } },
      channels: {
        office: { adapter: "./failing.mjs", agent: "support", state: "unauthorized" },
        sales: { adapter: "./failing.mjs", agent: "support", state: "ready" },
      },
      escalation: {
        responders: { op: { email: "op@example.net" } },
        fallback: { notify: ["op"] },
        via: { email: "office" },
      },
      http: { listen: "127.0.0.1:0", admin_listen: `127.0.0.1:${admin}` },
      store: "sqlite:data/store.db",
      log: { format: "json" },
    }),
    { mode: 0o600 },
  );
  await one.stored(async (q) => {
    for (const channel of ["office", "sales"]) await ensureChannel(q, channel);
    await q.run(
      `INSERT INTO send_pauses (channel, sender, cause, failures, until, by_provider, reason)
       VALUES ('sales', '*', 'rate', 1, now_ms() + 1800000, 1, '421 try later')`,
    );
    await insertEvents(q, [event("held", { channel: "sales" })]);
    await q.run("UPDATE events SET state = 'held', code = 'answered-before-restore'");
    await conversation(q, "c1", "sales", "anna@example.net");
    await q.run(
      `INSERT INTO escalations (id, number, about, conversation, channel, agent, state, cause, reason, entered_at, due_at, opened_at)
       VALUES ('e1', 1, 'c1', 'c1', 'sales', 'support', 'open', 'topic', 'a question', 1, 1, 1)`,
    );
  });
  expect((await one.doctor()).ids).toContain("daemon-stopped");

  const daemon = startDaemon({ config: one.config, env: { KEY: env.KEY } });
  onTestFinished(async () => void (await daemon.stop()));
  expect(await daemon.ready).toBe(true);
  const expected = [
    "channel-down",
    "channel-not-asking",
    "channel-warning",
    "daemon-not-ready",
    "daemon-warning",
    "escalation-path-down",
    "escalation-unreached",
    "messages-held",
    "sending-paused",
  ];
  await expect.poll(async () => (await one.doctor()).ids).toEqual(expect.arrayContaining(expected));
  const { findings } = await one.doctor({ only: "channel-down" });
  expect(findings).toMatchObject([
    {
      place: "channel office",
      cause: expect.stringContaining("535 wrong password"),
      remedy: expect.stringContaining("sudo systemctl restart"),
    },
  ]);
});
