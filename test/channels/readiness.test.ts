// What readiness, the gauges and stage health say of a channel whose agent cannot be asked.

import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { type AdapterDefinition, type Channel, defineAdapter } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { type App, startApp } from "../../src/app.ts";
import { defineGauges } from "../../src/channels/gauges.ts";
import { isReady, pulsesOf, reportChannels, statusText, watchDisk } from "../../src/channels/readiness.ts";
import { loadConfig } from "../../src/config/index.ts";
import { Metrics } from "../../src/ops/metrics.ts";
import { Statistics } from "../../src/ops/statistics.ts";
import { agentRecord } from "../support/client/client.ts";
import { escalationsIn } from "../support/escalation/policy.ts";
import { serve } from "../support/machine/network.ts";
import { type TestClock, testClock } from "../support/pipeline/pipeline.ts";
import { newFolder, silentLog } from "../support/resources.ts";

const minute = 60_000;

const probe = (created: (channel: Channel) => void, inbound: boolean) =>
  defineAdapter({
    name: "probe",
    contract: 1,
    config: z.strictObject({}),
    traits: { attachments: false, conversations: "person", platform: "sms" },
    create: (channel) => {
      created(channel);
      return inbound ? { inbound: { run: (_cursor, signal) => once(signal, "abort").then(() => undefined) } } : {};
    },
  }) as unknown as AdapterDefinition;

/** A platform that answers with `status`, or with an agent when that is 200; and the daemon with one channel. */
async function setUp(first: number, agent: object = {}, inbound = false) {
  const platform = { status: first };
  const server = createServer((_request, response) => {
    response.writeHead(platform.status, { "content-type": "application/json" });
    response.end(JSON.stringify(platform.status === 200 ? agentRecord([], agent) : { message: "no" }));
  });
  const url = await serve(server);
  const file = join(newFolder(), "bridgehead.yaml");
  const text = {
    platform: { url },
    agents: { support: { key: "${env:KEY}", refresh: "10s" } },
    channels: { texts: { adapter: "probe", agent: "support" } },
    escalation: {
      responders: { dora: { webhook: { url: "http://127.0.0.1:9/dora" } } },
      allow_private: ["127.0.0.1"],
      fallback: { notify: ["dora"] },
      down_after: "5m",
    },
    store: "sqlite:store.db",
  };
  writeFileSync(file, JSON.stringify(text));
  const created = Promise.withResolvers<Channel>();
  const adapter = probe(created.resolve, inbound);
  const loaded = await loadConfig(file, { env: { KEY: "k-1" }, adapters: async () => adapter });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const clock = testClock(true);
  const publicUrl = () => "http://127.0.0.1";
  const app = await startApp({ config: loaded.config, platformUrl: url, clock, log: silentLog, publicUrl });
  onTestFinished(() => app.stop(1000));
  return { app, clock, platform, channel: await created.promise };
}

const texts = ({ host, agents }: App) => reportChannels(host, agents).filter(({ notices_only }) => !notices_only);
const states = async ({ db }: App) => (await escalationsIn(db)).map(({ state, reason }) => [state, reason]);

/** Time passes in steps, with a sweep at each. */
async function passes(app: App, clock: TestClock, ms: number): Promise<void> {
  for (let gone = 0; gone < ms; gone += minute / 2) {
    clock.forward(minute / 2);
    await app.scheduler.sweep();
  }
}

it("a platform that was never reached: not ready after two minutes, with the reason, and an escalation", async () => {
  const { app, clock, platform } = await setUp(500);
  await passes(app, clock, 1.5 * minute);
  expect([isReady(texts(app)), texts(app)[0]?.settings_unread]).toEqual([true, undefined]);
  await passes(app, clock, minute);
  expect(texts(app)).toMatchObject([
    { state: "ready", settings_unread: true, not_asking: expect.stringContaining("were never read: HTTP 500: no") },
  ]);
  expect([isReady(texts(app)), statusText(texts(app), 0)]).toEqual([false, "0/1 channels ready, 0 waiting"]);
  expect(await states(app)).toEqual([]);
  await passes(app, clock, 3 * minute);
  expect(await states(app)).toEqual([
    ["open", expect.stringMatching(/^agent support cannot be asked: .*never read: HTTP 500: no$/)],
  ]);
  platform.status = 200;
  const isUnread = () => {
    clock.forward(minute); // the next read of the settings, whenever the last one ends
    return texts(app)[0]?.not_asking?.includes("never read");
  };
  await expect.poll(isUnread).toBe(false);
  expect(isReady(texts(app))).toBe(true);
  await app.scheduler.sweep();
  expect(await states(app)).toEqual([["closed", expect.anything()]]);
});

it("a rejected key raises an escalation that names the agent and the cause", async () => {
  const { app, clock } = await setUp(401);
  await expect.poll(() => texts(app)[0]?.key_rejected).toBe(true);
  expect(isReady(texts(app))).toBe(false);
  await passes(app, clock, 6 * minute);
  expect(await states(app)).toEqual([["open", expect.stringMatching(/^agent support cannot be asked: .*401/)]]);
});

it("a model that rejects its key leaves the daemon ready, and raises an escalation until a question is answered", async () => {
  const { app, clock } = await setUp(200, { skills: [{ systemName: "SMS", status: "active" }] });
  await expect.poll(() => texts(app)[0]?.not_asking).toBeNull();
  const line = app.host.lines.get("texts");
  line?.report({ kind: "deferred", reason: "HTTP 503: check model.key", lasting: true }, true);
  const not_asking = "the platform's model rejects the request: HTTP 503: check model.key";
  expect(texts(app)).toMatchObject([{ not_asking, key_rejected: false }]);
  expect(isReady(texts(app))).toBe(true);
  await passes(app, clock, 6 * minute);
  expect(await states(app)).toEqual([["open", `agent support cannot be asked: ${not_asking}`]]);
  line?.report({ kind: "ok", value: null }, true);
  expect(texts(app)).toMatchObject([{ not_asking: null }]);
  const swept = async () => {
    await app.scheduler.sweep();
    return states(app);
  };
  await expect.poll(swept).toEqual([["closed", expect.anything()]]);
});

it("an inactive agent is ready, is no failure, and is marked for the alerts", async () => {
  const { app, clock } = await setUp(200, { status: "inactive" });
  await expect.poll(() => texts(app)[0]?.not_asking).toBe("the agent is inactive");
  await passes(app, clock, 6 * minute);
  expect([isReady(texts(app)), texts(app)[0]?.inactive]).toEqual([true, true]);
  expect(await states(app)).toEqual([]);
  const metrics = new Metrics(new Statistics());
  const build = { version: "1", node: "2", store: "sqlite", schema: "3" };
  defineGauges(metrics, app, clock, build, null);
  const { body } = await metrics.expose();
  expect(body).toContain('bridgehead_channel_asking{channel="texts"} 0');
  expect(body).toContain('bridgehead_channel_inactive{channel="texts"} 1');
});

it("a step of the clock is no time in which a channel has failed", async () => {
  const { app, clock, channel } = await setUp(200, {}, true);
  channel.report({ state: "degraded", code: "connection", reason: "the server is gone" });
  clock.set(60 * minute);
  await app.scheduler.sweep();
  expect(await states(app), "the clock went forward").toEqual([]);
  clock.set(-120 * minute);
  await passes(app, clock, 4 * minute);
  expect(await states(app)).toEqual([]);
  await passes(app, clock, 2 * minute);
  expect(await states(app), "the clock went back").toEqual([["open", expect.stringContaining("the server is gone")]]);
});

it("a warning that escalates opens one escalation when it lasts, and its end closes it", async () => {
  const { app, clock, channel } = await setUp(200);
  await expect.poll(() => texts(app)[0]?.not_asking).toBe("the agent has no sms skill");
  channel.warn("other", "for the operator alone");
  channel.warn("canary", "a mail did not arrive", { escalates: true });
  await passes(app, clock, 4 * minute);
  expect(await states(app)).toEqual([]);
  await passes(app, clock, 2 * minute);
  channel.warn("canary", "a mail could not be sent", { escalates: true });
  await passes(app, clock, 6 * minute);
  expect(await states(app)).toEqual([["open", "channel texts: a mail did not arrive"]]);
  channel.warn("canary", null);
  await app.scheduler.sweep();
  expect((await states(app))[0]?.[0], "an end that does not escalate").toBe("open");
  channel.warn("canary", null, { escalates: true });
  await app.scheduler.sweep();
  expect((await states(app)).map(([state]) => state)).toEqual(["closed"]);
});

it("a node that no longer reads a channel forgets which of its warnings escalate", async () => {
  const { app, clock, channel } = await setUp(200, {}, true);
  const sources = { isConfirmed: () => true, diskProblem: () => null };
  const warnings = () => pulsesOf(app.host, clock, sources).filter(({ about }) => about?.includes("warning"));
  channel.warn("canary", "a mail did not arrive", { escalates: true });
  expect(warnings()).toMatchObject([{ about: "channel:texts:warning:canary", channel: "texts", state: "degraded" }]);
  const taken = () => app.db.tx((q) => q.run("UPDATE leases SET holder = 'other' WHERE name = 'channel:texts'"));
  await expect.poll(taken).toBe(1);
  const left = () => {
    clock.forward(minute / 2); // the next renewal of the lease
    return warnings();
  };
  await expect.poll(left).toEqual([]);
  expect(texts(app)[0]?.state).toBe("standby");
});

it("a disk that is nearly full is one more subject, whatever the number of channels", async () => {
  const { app, clock } = await setUp(200);
  let free = 5 * 2 ** 20;
  const disk = watchDisk(async () => free);
  const isConfirmed = () => true;
  const stores = () => pulsesOf(app.host, clock, { isConfirmed, diskProblem: disk }).filter(({ about }) => about);
  expect(stores(), "not looked at yet").toMatchObject([{ state: "connecting" }]);
  await expect.poll(disk).toBe("its disk is nearly full: 5 MiB are free, at least 32 are needed");
  expect(stores()).toMatchObject([{ about: "store", state: "degraded", channel: "texts", agent: "support" }]);
  free = 2 ** 30;
  await expect.poll(() => stores()[0]?.state).toBe("ready");
  expect(watchDisk(null)()).toBeNull();
});
