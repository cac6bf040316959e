// When a request is sent again, and when it must not be.

import { createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { conversationRecord, messageRecord, startPacedClient } from "../support/client/client.ts";
import { type Fault, freePort, json, reset, status, text } from "../support/machine/network.ts";

const read = json(conversationRecord());
const reply = json(messageRecord("a-1", "assistant", "Yes."), 201);
const proxy404 = text("<p>nothing</p>", "text/html", 404);

describe("a read is repeated after", () => {
  test.each<[string, Fault]>([
    ["500", status(500)],
    ["a reset", reset],
    ["429", status(429)],
    ["a proxy's 404", proxy404],
    ["half an answer", text('{"id":', "application/json")],
  ])("%s", async (_name, fault) => {
    const { client, server, pauses } = await startPacedClient();
    server.script(fault, fault, read);
    expect(await client.conversations.get("c-1")).toMatchObject({ kind: "ok" });
    expect(server.received).toHaveLength(3);
    expect(pauses).toHaveLength(2);
    expect(pauses[0]).toBeGreaterThanOrEqual(200);
    expect(pauses[1]).toBeGreaterThan(pauses[0] ?? Infinity);
  });

  test("but only a limited number of times", async () => {
    const { client, server } = await startPacedClient({ tries: 2 });
    server.script(status(500));
    expect(await client.conversations.get("c-1")).toMatchObject({ kind: "unknown" });
    expect(server.received).toHaveLength(2);
  });
});

describe("what has an effect is sent once when it may have been done, or was not admitted by anybody we know:", () => {
  test.each<[string, Fault, string]>([
    ["500", status(500), "unknown"],
    ["a reset", reset, "unknown"],
    ["a proxy's 404", proxy404, "deferred"],
    ["half an answer", text('{"id":', "application/json", 201), "unknown"],
    ["400", status(400), "refused"],
    ["403", status(403), "unauthorized"],
  ])("%s", async (_name, fault, kind) => {
    const { client, server, pauses } = await startPacedClient();
    server.script(fault, reply);
    expect(await client.conversations.send("c-1", { message: "hi" })).toMatchObject({ kind });
    expect(server.received).toHaveLength(1);
    expect(pauses).toEqual([]);
  });
});

describe("429", () => {
  test("repeats a message, when the platform says", async () => {
    const { client, server, pauses } = await startPacedClient();
    server.script(status(429, { "retry-after": "7" }), reply);
    expect(await client.conversations.send("c-1", { message: "hi" })).toMatchObject({ kind: "ok" });
    expect(server.received).toHaveLength(2);
    expect(pauses).toEqual([7_000]);
  });

  test("is handed on when it says to come back much later", async () => {
    const { client, server, pauses } = await startPacedClient();
    server.script(status(429, { "retry-after": "300" }), reply);
    const result = await client.conversations.send("c-1", { message: "hi" });
    expect(result).toMatchObject({ kind: "deferred", limited: true, retryAfterMs: 300_000 });
    expect([server.received.length, pauses]).toEqual([1, []]);
  });

  test("is repeated after the pauses that the client was given", async () => {
    const { client, server, pauses } = await startPacedClient({
      pauses: { first: 4000, longest: 6000, longestRetryAfter: 400_000 },
      tries: 5,
    });
    server.script(status(429), status(429), status(429), status(429, { "retry-after": "300" }), reply);
    expect(await client.conversations.send("c-1", { message: "hi" })).toMatchObject({ kind: "ok" });
    expect(pauses).toHaveLength(4);
    for (const [at, pause] of [4000, 6000, 6000].entries()) {
      expect(pauses[at]).toBeGreaterThan(pause * 0.7);
      expect(pauses[at]).toBeLessThan(pause * 1.3);
    }
    expect(pauses[3]).toBe(300_000);
  });

  test("is not repeated where the caller writes crossings down", async () => {
    const { client, server } = await startPacedClient();
    server.script(status(429), reply);
    let crossings = 0;
    const result = await client.conversations.send("c-1", { message: "hi" }, { crossing: () => void crossings++ });
    expect(result).toMatchObject({ kind: "deferred" });
    expect([server.received.length, crossings]).toEqual([1, 1]);
  });
});

test("a message that found no connection is sent when there is one", async () => {
  const port = await freePort();
  const { server } = await startPacedClient();
  server.script(reply);
  const front = createServer((socket) => {
    const { port: to } = new URL(server.url);
    void import("node:net").then(({ connect }) => {
      const other = connect(Number(to), "127.0.0.1");
      socket.pipe(other).pipe(socket);
      for (const each of [socket, other]) each.on("error", () => {});
    });
  });
  let opened = 0;
  const sleep = async () => {
    opened++;
    await new Promise<void>((resolve) => front.listen(port, "127.0.0.1", resolve));
  };
  const clock = { ...systemClock, sleep };
  const client = createClient({ url: `http://127.0.0.1:${port}`, agentKey: "k", timeoutMs: 60_000, clock });
  expect(await client.conversations.send("c-1", { message: "hi" })).toMatchObject({ kind: "ok" });
  await client.close();
  await new Promise((resolve) => front.close(resolve));
  expect([opened, server.received.length]).toEqual([1, 1]);
});

test("a signal that aborts in a pause ends it with what was last known", async () => {
  const { server } = await startPacedClient();
  server.script(status(503));
  const stop = new AbortController();
  const clock = { ...systemClock, sleep: async () => stop.abort() };
  const client = createClient({ url: server.url, agentKey: "k", timeoutMs: 60_000, clock });
  const result = await client.conversations.get("c-1", { signal: stop.signal });
  await client.close();
  expect(result).toMatchObject({ kind: "unknown", reason: expect.stringContaining("503") });
  expect(server.received).toHaveLength(1);
});

test("one call may have a deadline of its own", async () => {
  const { client, server } = await startPacedClient({ tries: 1 });
  server.script(() => {});
  expect(await client.conversations.get("c-1", { timeoutMs: 2000 })).toEqual({
    kind: "unknown",
    reason: "no answer within 2000 ms",
  });
});
