// What a call waits for before it leaves, and what that costs it: never a part of the time its answer has.

import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { conversationRecord, messageRecord, startAgentClient, startClient } from "../support/client/client.ts";
import { entityNotFound, type Fault, hang, json, status } from "../support/machine/network.ts";

const answer = json(messageRecord("a-1", "assistant", "Yes.", { conversationMessageId: "q-1" }), 201);
const question = { text: "hi" };

test("the time for an answer begins when the question leaves", async () => {
  const { server } = await startAgentClient();
  const { client, effect } = startClient(server.url, 3000, "key", { connections: 1 });
  server.script(hang, answer);
  // The second waits as long as the first may take for its answer, which is all the time a call has.
  const results = await Promise.all([client.ask("c-1", question, effect()), client.ask("c-2", question, effect())]);
  expect(results).toMatchObject([{ kind: "unknown", reason: "no answer within 3000 ms" }, { kind: "ok" }]);
});

test("waiting too long for a connection is deferred, unsent, and does not affect other requests", async () => {
  const { server, effect } = await startAgentClient();
  const { client, signal } = startClient(server.url, 60_000, "key", {
    connections: 2,
    timing: { agents: { connection: 2000 } },
  });
  const held: (() => void)[] = [];
  const hold: Fault = (...request) => void held.push(() => answer(...request));
  server.script(hold);
  const first = [client.ask("c-1", question, effect()), client.ask("c-2", question, effect())];
  await expect.poll(() => held.length).toBe(2);
  const late = Array.from({ length: 20 }, () => effect());
  for (const result of await Promise.all(late.map((call) => client.ask("c-3", question, call)))) {
    expect(result).toEqual({ kind: "deferred", reason: "no connection within 2000 ms" });
  }
  for (const release of held) release();
  expect(await Promise.all(first)).toMatchObject([{ kind: "ok" }, { kind: "ok" }]);
  server.script(json(conversationRecord({ mode: "manual" })));
  expect(await client.mode("c-1", signal)).toEqual({ kind: "ok", value: "manual" });
  expect(late.map((call) => call.crossings())).toEqual(late.map(() => 0));
  expect(server.received).toHaveLength(3);
  expect(server.connections(), "those who gave up broke no connection").toBe(2);
});

test("waiting requests run in order, and may be cancelled while they wait", async () => {
  const { server } = await startAgentClient();
  const { client, effect } = startClient(server.url, 60_000, "key", { connections: 1 });
  const stop = new AbortController();
  server.script((...request) => {
    stop.abort();
    answer(...request);
  }, answer);
  const calls = ["c-1", "c-2", "c-3", "c-4"].map((id) =>
    client.ask(id, question, effect(id === "c-2" ? stop.signal : undefined)),
  );
  expect(await Promise.all(calls)).toMatchObject([
    { kind: "ok" },
    { kind: "deferred", reason: "stopped by the caller" },
    { kind: "ok" },
    { kind: "ok" },
  ]);
  expect(server.received.map(({ path }) => path.split("/")[3])).toEqual(["c-1", "c-3", "c-4"]);
});

test("a hundred and more questions are under way at once by default", async () => {
  const { server, client, effect } = await startAgentClient();
  server.script(hang);
  const stop = new AbortController();
  const calls = Array.from({ length: 130 }, () => effect(stop.signal));
  const results = Promise.all(calls.map((call) => client.ask("c-1", question, call)));
  await expect.poll(() => server.received.length).toBe(128);
  stop.abort();
  const kinds = (await results).map(({ kind }) => kind);
  expect(kinds.filter((kind) => kind === "unknown")).toHaveLength(128);
  expect(kinds.filter((kind) => kind === "deferred")).toHaveLength(2);
});

test("closing defers the waiting requests", async () => {
  const { server, effect } = await startAgentClient();
  const { client } = startClient(server.url, 60_000, "key", { connections: 1 });
  server.script(hang);
  const calls = [effect(), effect(), effect()];
  const results = Promise.all(calls.map((call) => client.ask("c-1", question, call)));
  await expect.poll(() => server.received.length).toBe(1);
  await client.close();
  expect((await results).map(({ kind }) => kind)).toEqual(["unknown", "deferred", "deferred"]);
  expect(calls.map((call) => call.crossings())).toEqual([1, 0, 0]);
});

test("a line that never gets through is deferred before any crossing", async () => {
  const sockets: Socket[] = [];
  const mute = createServer((socket) => void sockets.push(socket)).listen(0, "127.0.0.1");
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => mute.close(resolve));
  });
  await new Promise((resolve) => mute.once("listening", resolve));
  const url = `https://127.0.0.1:${(mute.address() as AddressInfo).port}`;
  const { client, effect } = startClient(url, 10_000, "key", { timing: { agents: { connection: 100 } } });
  const call = effect();
  expect(await client.ask("c-1", question, call)).toEqual({
    kind: "deferred",
    reason: "no connection within 100 ms",
  });
  expect(call.crossings()).toBe(0);
});

test("finding the person to open a conversation with takes no longer than one call", async () => {
  const { server, client, effect } = await startAgentClient(300);
  // Each answer is in time, the three of them together are not.
  const slow =
    (fault: Fault): Fault =>
    (...request) =>
      void setTimeout(() => fault(...request), 200);
  server.script(slow(status(400)), slow(entityNotFound));
  const call = effect();
  const request = { firstName: "Jo", lastName: "Doe", fkId: "jo", email: "jo@acme.test" };
  expect(await client.create(request, call)).toMatchObject({ kind: "deferred" });
  expect(call.crossings()).toBe(0);
});
