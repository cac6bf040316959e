// Every fault of the platform, over real sockets, and the one result each of them must have.

import { type AddressInfo, createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { messageRecord, startAgentClient, startClient } from "../support/client/client.ts";
import {
  entityNotFound,
  type Fault,
  freePort,
  hang,
  json,
  reset,
  status,
  text,
  truncated,
} from "../support/machine/network.ts";

const answer = messageRecord("a-1", "assistant", "It ships today.", { conversationMessageId: "q-1" });
const padding = "x".repeat(11 * 1024 * 1024);
const wrongTypes = { ...answer, message: 42 };

const faults: readonly (readonly [string, Fault, object])[] = [
  ["401", status(401), { kind: "unauthorized" }],
  ["403", status(403), { kind: "unauthorized", reason: "HTTP 403: SOME_ERROR: SOME_MESSAGE" }],
  ["404 of the interface", entityNotFound, { kind: "missing", reason: expect.stringContaining("ENTITY_") }],
  ["404 of anybody else", status(404), { kind: "deferred" }],
  ["404 in HTML", text("<p>default backend</p>", "text/html", 404), { kind: "deferred", reason: "HTTP 404" }],
  ["410", status(410), { kind: "missing", reason: expect.stringContaining("410") }],
  ["410 in HTML", text("<p>gone</p>", "text/html", 410), { kind: "missing", reason: "HTTP 410" }],
  ["405", status(405), { kind: "deferred" }],
  ["407", status(407), { kind: "deferred" }],
  ["408", status(408), { kind: "deferred" }],
  ["421", status(421), { kind: "deferred" }],
  ["425", status(425), { kind: "deferred" }],
  ["400", status(400), { kind: "refused", status: 400 }],
  ["409", status(409), { kind: "refused", status: 409 }],
  ["413", status(413), { kind: "refused", status: 413 }],
  ["422 in HTML", text("<p>no</p>", "text/html", 422), { kind: "refused", status: 422, reason: "HTTP 422" }],
  [
    "a redirect",
    status(302, { location: "http://127.0.0.1:1/" }),
    { kind: "deferred", reason: expect.stringContaining("302") },
  ],
  ["a permanent redirect", status(308, { location: "/login" }), { kind: "deferred" }],
  ["429 with a cut body", truncated("{", 429), { kind: "deferred", limited: true }],
  ["500", status(500), { kind: "unknown" }],
  ["503", status(503), { kind: "unknown" }],
  ["a reset after the request", reset, { kind: "unknown" }],
  ["truncated JSON", truncated(JSON.stringify(answer).slice(0, 40), 201), { kind: "unknown" }],
  ["half a JSON text", text('{"id":"a-1","mess', "application/json", 201), { kind: "unknown" }],
  ["HTML with 200", text("<html>login</html>"), { kind: "unknown", reason: "HTTP 200, answer is not JSON" }],
  [
    "a compressed 200",
    (_request, response) => void response.writeHead(200, { "content-encoding": "gzip" }).end("\u001f"),
    { kind: "unknown", reason: "HTTP 200, answer is not JSON (content-encoding: gzip)" },
  ],
  ["an empty 200", text("", "application/json"), { kind: "unknown" }],
  ["null", json(null, 201), { kind: "unknown" }],
  ["wrong types", json(wrongTypes, 201), { kind: "unknown", reason: expect.stringContaining("message: ") }],
  ["a huge body", json({ ...answer, padding }, 201), { kind: "unknown", reason: expect.stringContaining("exceeds") }],
  [
    "a byte order mark",
    text(`\ufeff${JSON.stringify(answer)}`, "application/json", 201),
    { kind: "ok", value: { questionId: "q-1", replyId: "a-1" } },
  ],
  ["a normal answer", json(answer, 201), { kind: "ok", value: { questionId: "q-1", replyId: "a-1" } }],
];

test.each(faults)("%s", async (_name, fault, expected) => {
  const { client, server, effect } = await startAgentClient();
  server.script(fault);
  const call = effect();
  expect(await client.ask("c-1", { text: "Where is my order?" }, call)).toMatchObject(expected);
  expect(call.crossings()).toBe(1);
  expect(server.received).toHaveLength(1);
});

describe("429", () => {
  const inTenMinutes = new Date(Date.now() + 600_000).toUTCString();
  test.each([
    ["no header", undefined, undefined, undefined],
    ["seconds", "7", 7_000, 7_000],
    ["a date", inTenMinutes, 590_000, 600_000],
    ["a date gone by", "Wed, 21 Oct 2015 07:28:00 GMT", undefined, undefined],
    ["zero", "0", undefined, undefined],
    ["absurdly long", "99999999999", 900_000, 900_000],
    ["an absurd date", "Fri, 01 Jan 2999 00:00:00 GMT", 900_000, 900_000],
    ["negative", "-5", undefined, undefined],
    ["words", "soon", undefined, undefined],
  ])("Retry-After: %s", async (_name, header, least, most) => {
    const { client, server, effect } = await startAgentClient();
    server.script(status(429, header === undefined ? {} : { "retry-after": header }));
    const result = await client.ask("c-1", { text: "hi" }, effect());
    expect(result).toMatchObject({ kind: "deferred", limited: true });
    const { retryAfterMs } = result as { retryAfterMs?: number };
    if (least === undefined) return expect(result).not.toHaveProperty("retryAfterMs");
    expect(retryAfterMs).toBeGreaterThanOrEqual(least);
    expect(retryAfterMs).toBeLessThanOrEqual(most ?? 0);
  });
});

test("429: the longest Retry-After is the daemon's own", async () => {
  const { server } = await startAgentClient();
  const timing = { rate: { longestPenalty: 30_000 } };
  const { client, effect } = startClient(server.url, 60_000, "agent-key", { timing });
  server.script(status(429, { "retry-after": "300" }));
  expect(await client.ask("c-1", { text: "hi" }, effect())).toMatchObject({ limited: true, retryAfterMs: 30_000 });
});

describe("no answer", () => {
  test("a hang is unknown after the time-out", async () => {
    const { client, server, effect } = await startAgentClient(2000);
    server.script(hang);
    const call = effect();
    expect(await client.ask("c-1", { text: "hi" }, call)).toEqual({
      kind: "unknown",
      reason: "no answer within 2000 ms",
    });
    expect(call.crossings()).toBe(1);
  });

  test("an abort after the crossing is unknown", async () => {
    const { client, server, effect } = await startAgentClient();
    const stop = new AbortController();
    server.script(() => stop.abort());
    expect(await client.ask("c-1", { text: "hi" }, effect(stop.signal))).toMatchObject({ kind: "unknown" });
  });

  test("an abort before the crossing is deferred and sends nothing", async () => {
    const { client, server, effect } = await startAgentClient();
    const call = effect(AbortSignal.abort());
    expect(await client.ask("c-1", { text: "hi" }, call)).toMatchObject({ kind: "deferred" });
    expect([call.crossings(), server.received.length]).toEqual([0, 0]);
  });

  test("a crossing that throws keeps the request from leaving", async () => {
    const { client, server, signal, effect } = await startAgentClient();
    const refuse = {
      signal,
      crossing: () => {
        throw new Error("the lease is gone");
      },
    };
    expect(await client.ask("c-1", { text: "hi" }, refuse)).toEqual({
      kind: "deferred",
      reason: "the lease is gone",
    });
    server.script(json(answer, 201));
    expect(await client.ask("c-1", { text: "hi" }, effect())).toMatchObject({ kind: "ok" });
    expect(server.received).toHaveLength(1);
  });

  test("a refused connection is deferred before any crossing", async () => {
    const port = await freePort();
    const { client, effect } = startClient(`http://127.0.0.1:${port}`);
    const call = effect();
    expect(await client.ask("c-1", { text: "hi" }, call)).toMatchObject({
      kind: "deferred",
      reason: expect.stringContaining("ECONNREFUSED"),
    });
    expect(call.crossings()).toBe(0);
  });

  test("a server that does not speak TLS is deferred before any crossing", async () => {
    const { server } = await startAgentClient();
    const { client, effect } = startClient(server.url.replace("http:", "https:"));
    const call = effect();
    expect(await client.ask("c-1", { text: "hi" }, call)).toMatchObject({ kind: "deferred" });
    expect(call.crossings()).toBe(0);
  });

  test("a reset before the request was read is unknown once the bytes were handed over", async () => {
    const rude = createServer((socket) => socket.resetAndDestroy()).listen(0, "127.0.0.1");
    await new Promise((resolve) => rude.once("listening", resolve));
    const { client, effect } = startClient(`http://127.0.0.1:${(rude.address() as AddressInfo).port}`);
    const call = effect();
    const { kind } = await client.ask("c-1", { text: "hi" }, call);
    expect(kind).toBe(call.crossings() === 1 ? "unknown" : "deferred");
    await new Promise((resolve) => rude.close(resolve));
  });
});
