// The listener under a whole app: a reload ends the sockets of the channels that it exchanges or removes, and no others.

import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AdapterDefinition, defineAdapter } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import * as z from "zod";
import { type App, startApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/index.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { startTestListener } from "../support/http/listener.ts";
import { newFolder, silentLog } from "../support/resources.ts";

const traits = {
  attachments: false,
  conversations: "person",
  platform: "voice",
} as const;

/** Sends its name and version on each connection, and is slow to stop. */
function talker(events: string[]): AdapterDefinition {
  const definition = defineAdapter({
    name: "talker",
    contract: 1,
    config: z.strictObject({ version: z.int().default(1) }),
    traits,
    create(channel, { version }) {
      const name = `${channel.id}@${version}`;
      return {
        routes: [
          {
            kind: "socket",
            path: "/talk",
            authorize: async () => null,
            async serve(socket) {
              await socket.send(name);
              await new Promise((resolve) => socket.draining.addEventListener("abort", resolve));
              await socket.send("one more word");
              await channel.clock.sleep(50);
              events.push(`${name} finished`);
            },
          },
        ],
        close: async () => void events.push(`${name} closed`),
      };
    },
  });
  return definition;
}

it("ends the sockets of what it exchanges, before the adapter is closed, and leaves the others alone", async () => {
  const folder = newFolder();
  const events: string[] = [];
  const read = async (channels: Record<string, object>) => {
    const blocks = Object.entries(channels).map(([id, own]) => [id, { adapter: "talker", agent: "support", ...own }]);
    const text = {
      platform: { url: "http://127.0.0.1:9" },
      agents: { support: { key: "${env:KEY}" } },
      channels: Object.fromEntries(blocks) as object,
      store: "sqlite:store.db",
    };
    const file = join(folder, "bridgehead.yaml");
    writeFileSync(file, JSON.stringify(text));
    const loaded = await loadConfig(file, { env: { KEY: "k" }, adapters: async () => talker(events) });
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    return loaded.config;
  };
  let app: App | null = null;
  const listener = await startTestListener({
    routes: (id) => app?.host.running().find(({ config }) => config.id === id)?.adapter.routes ?? null,
  });
  onTestFinished(() => listener.close(100));
  app = await startApp({
    config: await read({ gone: {}, changed: {}, stays: {} }),
    platformUrl: "http://127.0.0.1:9",
    clock: systemClock,
    log: silentLog,
    publicUrl: () => listener.publicUrl,
    retire: (routes) => listener.retire(routes),
  });
  const dial = async (id: string) => {
    const ws = new WebSocket(`${listener.url.replace("http", "ws")}/channels/${id}/talk`);
    const heard: string[] = [];
    ws.on("message", (data: Buffer) => void heard.push(data.toString()));
    const closed = once(ws, "close").then(([code]) => code as number);
    await expect.poll(() => heard).toHaveLength(1);
    return { heard, closed };
  };
  const [gone, changed, stays] = [await dial("gone"), await dial("changed"), await dial("stays")];

  await app.reload(await read({ changed: { version: 2 }, stays: {} }));
  expect(await Promise.all([gone.closed, changed.closed])).toEqual([1012, 1012]);
  expect([gone.heard, changed.heard]).toEqual([
    ["gone@1", "one more word"],
    ["changed@1", "one more word"],
  ]);
  await expect.poll(() => events.filter((one) => one.endsWith("closed"))).toHaveLength(2);
  for (const name of ["gone@1", "changed@1"])
    expect(events.filter((one) => one.startsWith(name))).toEqual([`${name} finished`, `${name} closed`]);
  expect((await dial("changed")).heard).toEqual(["changed@2"]);
  expect(stays.heard).toEqual(["stays@1"]);
  expect(listener.sockets()).toBe(2);

  await listener.drain();
  await app.stop(1000);
  expect(events.slice(4).toSorted()).toEqual([
    "changed@2 closed",
    "changed@2 finished",
    "stays@1 closed",
    "stays@1 finished",
  ]);
});
