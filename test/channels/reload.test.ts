// A reload exchanges what differs, and only when everything that is new could be built.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AdapterDefinition, type Channel, type ChannelStatus, defineAdapter } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { startApp } from "../../src/app.ts";
import { type Config, loadConfig } from "../../src/config/index.ts";
import { systemClock } from "../../src/ops/clock.ts";
import type { TimingOverrides } from "../../src/ops/timing.ts";
import { newFolder, silentLog } from "../support/resources.ts";

/** An adapter whose readers say when they begin and end, and end when they are let. */
function recorder() {
  const events: string[] = [];
  const timings: Channel["timing"][] = [];
  const channels: Channel[] = [];
  let leave: () => Promise<void> = async () => undefined;
  let status: ChannelStatus = { state: "ready" };
  const definition = defineAdapter({
    name: "probe",
    contract: 1,
    config: z.strictObject({ version: z.int().default(1), broken: z.boolean().default(false) }),
    traits: {
      attachments: false,
      conversations: "person",
      platform: "sms",
    },
    create(channel: Channel, { version, broken }) {
      if (broken) throw new Error("no paper");
      const name = `${channel.id}@${version}`;
      timings.push(channel.timing);
      channels.push(channel);
      return {
        inbound: {
          async run(_cursor, signal) {
            events.push(`${name} begins`);
            channel.report(status);
            await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
            await leave();
            events.push(`${name} ends`);
          },
        },
        close: async () => void events.push(`${name} closed`),
      };
    },
  });
  return {
    definition: definition as unknown as AdapterDefinition,
    events,
    timings,
    channels,
    reports: (next: ChannelStatus) => void (status = next),
    holdUntil: (all: () => Promise<void>) => (leave = all),
  };
}

type Text = { key?: string; raw?: string; url?: string; channels: Record<string, object> };

async function setUp(first: Text, timing: TimingOverrides = {}) {
  const folder = newFolder();
  const probe = recorder();
  const read = async ({ key = "k-1", raw = "1d", url = "http://127.0.0.1:9", channels }: Text) => {
    const blocks = Object.entries(channels).map(([id, own]) => [id, { adapter: "probe", agent: "support", ...own }]);
    const text = {
      platform: { url },
      agents: { support: { key: "${env:KEY}" } },
      channels: Object.fromEntries(blocks) as object,
      retention: { raw },
      store: "sqlite:store.db",
      node: "n",
    };
    const file = join(folder, "bridgehead.yaml");
    writeFileSync(file, JSON.stringify(text));
    const loaded = await loadConfig(file, { env: { KEY: key }, adapters: async () => probe.definition });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    return loaded.config;
  };
  const start = async (config: Config) =>
    startApp({
      config,
      platformUrl: "http://127.0.0.1:9",
      clock: systemClock,
      log: silentLog,
      publicUrl: () => "http://127.0.0.1",
      timing,
    });
  const app = await start(await read(first));
  let stopped = false;
  const stop = async () => {
    if (!stopped) await app.stop(1000);
    stopped = true;
  };
  onTestFinished(stop);
  const reload = async (text: Text) => app.reload(await read(text));
  const shown = () => app.host.running().map(({ config }) => config.id as string);
  return { app, probe, reload, shown, stop };
}

it("changes nothing when one of the new channels cannot be built", async () => {
  const { app, probe, reload, shown } = await setUp({ channels: { a: {}, b: {}, c: {} } });
  await expect.poll(() => probe.events).toHaveLength(3);
  const [agent, lines] = [app.agents.get("support"), [...app.host.lines.values()]];
  const broken = { key: "k-2", channels: { a: { version: 2 }, b: { version: 2, broken: true } } };
  await expect(reload(broken)).rejects.toThrow("no paper");
  expect(shown()).toEqual(["a", "b", "c"]);
  expect([...app.host.lines.values()]).toEqual(lines);
  expect(app.agents.get("support")).toBe(agent);
  // What was built in vain is closed; nothing that runs was touched.
  expect(probe.events.slice(3)).toEqual(["a@2 closed"]);
  await reload({ channels: { a: { version: 3 }, b: {}, c: {} } });
  await expect.poll(() => probe.events).toContain("a@3 begins");
});

it("stores no secret that is no text, and names the adapter", async () => {
  const { probe } = await setUp({ channels: { a: {} } });
  const secrets = probe.channels[0]?.secrets;
  const five = 5 as unknown as string;
  await expect(secrets?.write("token", five)).rejects.toThrow(
    "storing secret probe/token: its value must be a text, not a number",
  );
  expect(await secrets?.read("token")).toBeNull();
});

it("exchanges channels side by side, each reader after the one it replaces, in the file's order", async () => {
  const { probe, reload, shown, stop } = await setUp({ channels: { a: {}, b: {}, gone: {} } });
  await expect.poll(() => probe.events).toHaveLength(3);
  let waiting = 0;
  const all = Promise.withResolvers<void>();
  probe.holdUntil(() => {
    if (++waiting === 3) all.resolve(); // one after the other they would wait for ever
    return all.promise;
  });
  await reload({ channels: { b: { version: 2 }, fresh: {}, a: { version: 2 } } });
  expect(shown()).toEqual(["b", "fresh", "a"]);
  await expect.poll(() => probe.events.filter((one) => one.endsWith("begins"))).toHaveLength(6);
  for (const id of ["a", "b"]) {
    const own = probe.events.filter((one) => one.startsWith(`${id}@`) && !one.endsWith("closed"));
    expect(own).toEqual([`${id}@1 begins`, `${id}@1 ends`, `${id}@2 begins`]);
  }
  await expect.poll(() => probe.events).toContain("gone@1 closed");
  probe.holdUntil(async () => undefined);
  await stop();
  expect(probe.events.filter((one) => one.endsWith("closed"))).toHaveLength(6);
});

it("replaces an unchanged channel only when its login is rejected: the account may have been corrected", async () => {
  const { probe, reload } = await setUp({ channels: { a: {} } });
  await expect.poll(() => probe.events).toEqual(["a@1 begins"]);
  await reload({ channels: { a: {} } });
  probe.reports({ state: "unauthorized", code: "login", reason: "no" });
  await reload({ channels: { a: { version: 2 } } });
  await expect.poll(() => probe.events).toContain("a@2 begins");
  probe.reports({ state: "ready" });
  for (let reloads = 0; reloads < 2; reloads += 1) await reload({ channels: { a: { version: 2 } } });
  const runs = ["a@1 begins", "a@1 ends", "a@2 begins", "a@2 ends", "a@2 begins"];
  await expect.poll(() => probe.events.filter((one) => !one.endsWith("closed"))).toEqual(runs);
});

it("keeps a replaced agent's late refusal from the one that took its place", async () => {
  const { app, reload } = await setUp({ channels: { a: {} } });
  const before = app.host.lines.get("a");
  await reload({ key: "k-2", channels: { a: {} } });
  const after = app.host.lines.get("a");
  before?.report({ kind: "unauthorized", reason: "HTTP 401" }, true);
  expect([before?.problem(), before?.refusal()]).toEqual(Array(2).fill("the platform rejects its key: HTTP 401"));
  // Its settings may not have been read by now, which is a problem of another kind.
  for (const state of [{ problem: after?.problem(), refusal: after?.refusal() }, app.agents.get("support")?.state]) {
    expect(state?.refusal).toBeNull();
    expect(state?.problem ?? "").not.toContain("rejects its key");
  }
});

it("names the keys that need a restart, and not those it takes over", async () => {
  const { reload } = await setUp({ channels: { a: {} } });
  expect(await reload({ raw: "2d", channels: { a: {} } })).toEqual([]);
  expect(await reload({ raw: "2d", url: "http://127.0.0.1:8", channels: { a: {} } })).toEqual(["platform"]);
});

it("rejects notifications through a channel that cannot send", async () => {
  const { reload, shown } = await setUp({ channels: { a: {}, b: {} } });
  const told = { a: { notify: { channel: "b", to: ["ops"] } }, b: {} };
  await expect(reload({ channels: told })).rejects.toThrow("through b, which cannot send");
  expect(shown()).toEqual(["a", "b"]);
});

it("passes an adapter the overrides of its own durations", async () => {
  const { probe, reload } = await setUp(
    { channels: { a: {} } },
    { adapters: { probe: { idle: 5 }, other: { idle: 7 } } },
  );
  await reload({ channels: { a: { version: 2 } } });
  expect(probe.timings).toEqual([{ idle: 5 }, { idle: 5 }]);
});

it("does not wait for an adapter that ignores its signal, and reports its channel", async () => {
  const channels = { a: {}, b: {} };
  const { app, probe, reload } = await setUp({ channels }, { channels: { close: 10 } });
  await expect.poll(() => probe.events).toHaveLength(2);
  const left = Promise.withResolvers<void>();
  onTestFinished(() => left.resolve());
  probe.holdUntil(() => left.promise);
  await reload({ channels: { a: { version: 2 }, b: {} } });
  expect(app.host.running().map(({ state }) => state.status.state)).toEqual(["degraded", "ready"]);
  await reload({ channels: { a: { version: 2 }, b: {}, c: {} } });
  await expect.poll(() => probe.events).toContain("c@1 begins");
  expect(probe.events).not.toContain("a@2 begins");
  left.resolve();
  await expect.poll(() => probe.events).toContain("a@2 begins");
  await expect.poll(() => app.host.running()[0]?.state.status.state).toBe("ready");
});

it("takes nothing of an adapter that it could not show or read again", async () => {
  const { app, probe } = await setUp({ channels: { a: {} } });
  await expect.poll(() => probe.channels).toHaveLength(1);
  const [channel] = probe.channels as unknown as [
    Record<"report" | "warn" | "accept", (...given: unknown[]) => unknown>,
  ];
  const state = () => app.host.running()[0]?.state;
  const wrong = (reason: string) => ({ state: "degraded", code: "wrong-report", reason });
  channel.report("ready");
  expect(state()?.status).toEqual(wrong("its adapter reported it as string, expected an object"));
  channel.report({ state: "degraded", code: "x", reason: { deep: 1 } });
  expect(state()?.status).toEqual(wrong("its adapter reported reason as object, expected a string"));
  channel.warn("quota", { left: 0 });
  channel.warn("gone", undefined);
  expect([...(state()?.warnings ?? [])]).toEqual([["quota", "its adapter gave object, expected a sentence"]]);
  await expect(channel.accept({ kind: "message" })).rejects.toThrow(
    "its adapter gave object, expected an array of events",
  );
  for (const cursor of [null, 5])
    await expect(channel.accept([], cursor)).rejects.toThrow(
      `its adapter gave the cursor as ${typeof cursor}, expected a string`,
    );
});
