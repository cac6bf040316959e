// A reserved connection. The attempt of its call is recorded before the call begins, so other calls leave it alone.

import { createServer, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { conversationRecord, messageRecord } from "../support/client/client.ts";
import { serve } from "../support/machine/network.ts";

/** A client with one idle connection. `sockets`: those of the server; `arrived`: method and port of the client of each request; `respond` answers the
 *  oldest one, `next` waits for one more. */
async function connected(connections = 4) {
  const arrived: { readonly method: string; readonly port: number }[] = [];
  const waiting: ServerResponse[] = [];
  let announce: () => void = () => undefined;
  const server = createServer((request, response) => {
    arrived.push({ method: request.method ?? "", port: request.socket.remotePort ?? 0 });
    waiting.push(response);
    announce();
  });
  const sockets: Socket[] = [];
  server.on("connection", (socket) => void sockets.push(socket));
  const url = await serve(server);
  const client = createClient({ url, agentKey: "key", timeoutMs: 60_000, connections });
  onTestFinished(() => client.close());
  const next = async () => {
    const before = arrived.length;
    while (arrived.length === before) await new Promise<void>((resolve) => (announce = resolve));
  };
  const respond = () => {
    const response = waiting.shift();
    response?.setHeader("content-type", "application/json");
    const isRead = response?.req.method === "GET";
    response?.end(JSON.stringify(isRead ? conversationRecord() : messageRecord("a-1", "assistant", "Yes.")));
  };
  const first = client.conversations.get("c");
  await next();
  respond();
  await first;
  const isIdle = () => {
    const end = client.reserve();
    end?.();
    return end !== null;
  };
  await expect.poll(isIdle, { interval: 1 }).toBe(true);
  return { client, arrived, next, respond, sockets };
}

test("is left to the reserved call, which uses it at once", async () => {
  const { client, arrived, next, respond } = await connected();
  const end = client.reserve();
  expect(end).not.toBeNull();
  const other = client.conversations.get("c");
  const crossing = () => end?.();
  const reserved = client.conversations.send("c", { message: "hi" }, { crossing, reserved: true });
  await next();
  if (arrived.length < 3) await next();
  expect(arrived.map(({ method }) => method)).toEqual(["GET", "POST", "GET"]);
  expect(arrived[1]?.port, "no connection was opened for it").toBe(arrived[0]?.port);
  respond();
  respond();
  expect([await reserved, await other]).toMatchObject([{ kind: "ok" }, { kind: "ok" }]);
});

test("also when its place among the concurrent requests is the last", async () => {
  const { client, arrived, next, respond } = await connected(1);
  const end = client.reserve();
  const other = client.conversations.get("c");
  const reserved = client.conversations.send("c", { message: "hi" }, { crossing: () => end?.(), reserved: true });
  await next();
  respond();
  expect(await reserved).toMatchObject({ kind: "ok" });
  if (arrived.length < 3) await next();
  respond();
  expect(await other).toMatchObject({ kind: "ok" });
  expect(arrived.map(({ method }) => method)).toEqual(["GET", "POST", "GET"]);
});

test("delays another call only until it ends, or until that call is stopped", async () => {
  const { client, arrived, next, respond } = await connected();
  const ends = [client.reserve(), client.reserve()];
  expect(ends.map((end) => end !== null)).toEqual([true, false]);
  const stopped = client.conversations.send("c", { message: "hi" }, { signal: AbortSignal.abort() });
  expect(await stopped).toMatchObject({ kind: "deferred" });
  const other = client.conversations.get("c");
  ends[0]?.();
  await next();
  respond();
  expect(await other).toMatchObject({ kind: "ok" });
  expect(arrived).toHaveLength(2);
});

test("is a connected one, although an older connection has ended", async () => {
  const { client, arrived, next, respond, sockets } = await connected();
  const both = [client.conversations.get("c"), client.conversations.get("c")];
  while (arrived.length < 3) await next();
  respond();
  respond();
  await Promise.all(both);
  const [older, younger] = sockets;
  expect([sockets.length, older?.remotePort]).toEqual([2, arrived[0]?.port]);
  const isClosed = new Promise((closed) => older?.once("close", closed));
  const port = younger?.remotePort;
  older?.end();
  await isClosed;
  const ends = [client.reserve(), client.reserve()];
  expect(ends.map((end) => end !== null)).toEqual([true, false]);
  const reserved = client.conversations.send("c", { message: "hi" }, { crossing: () => ends[0]?.(), reserved: true });
  await next();
  respond();
  expect(await reserved).toMatchObject({ kind: "ok" });
  expect([arrived.at(-1)?.port, sockets.length]).toEqual([port, 2]);
});

test("stays when the number of connections changes before the call", async () => {
  const { client, arrived, next, respond, sockets } = await connected();
  const end = client.reserve();
  client.setConnections(2);
  const reserved = client.conversations.send("c", { message: "hi" }, { crossing: () => end?.(), reserved: true });
  await next();
  respond();
  expect(await reserved).toMatchObject({ kind: "ok" });
  expect([arrived.at(-1)?.port, sockets.length]).toEqual([arrived[0]?.port, 1]);
  const many = [1, 2, 3].map(() => client.conversations.get("c"));
  while (arrived.length < 4) await next();
  while (arrived.length < 5) {
    respond();
    await next();
  }
  respond();
  respond();
  await Promise.all(many);
  expect(sockets.length, "two at once since the end of the reservation").toBe(3);
});
