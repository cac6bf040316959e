// What is too much or not readable at all (External API 7, 8), and what the description says of itself (9).

import { describe, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import {
  drivers,
  embedded,
  type OperationName,
  operations,
  problems,
  startTarget,
} from "../support/external-api/target.ts";

const target = await startTarget({ rate: { requests: 100_000, perSeconds: 60 } });
const { url, agentKey } = target;
const writes = Object.entries(operations).filter(
  ([name, [method]]) => (method === "POST" || method === "PUT") && !name.startsWith("files."),
) as [OperationName, (typeof operations)[OperationName]][];

const send = async (path: string, method: string, body: string, type = "application/json") => {
  const headers = { "Agent-Secret-Key": agentKey, "content-type": type };
  const response = await fetch(`${url}/external/${path}`, { method, headers, body });
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : (JSON.parse(text) as unknown) };
};

describe.each(writes)("%s", (_name, [method, path]) => {
  const address = path.replaceAll(/\{\w+\}/g, "0f6c3c1e-0000-4e0b-9c39-0d3f5c1b2a10");

  test.each([
    ["half a JSON text", '{"message":'],
    ["a list", "[]"],
    ["a text", '"hello"'],
    ["nothing at all in JSON", "null"],
  ])("refuses %s", async (_what, given) => {
    const { status, body } = await send(address, method, given);
    expect([status, problems("error", body)]).toEqual([400, []]);
    expect(body).toMatchObject({ status: 400, name: "BAD_REQUEST", message: "INVALID_REQUEST" });
  });

  test("refuses a body of many megabytes, and is still there", async () => {
    const { status } = await send(address, method, JSON.stringify({ message: "x".repeat(5 * 1024 * 1024) }));
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
    expect(await drivers["plain requests"](target)("agents.get")).toMatchObject({ status: 200 });
  });
});

test.each([
  "../agents/by-api-key",
  "%2e%2e%2fagents",
  "a%00b",
  "a%0d%0aX-Injected: 1",
  "' OR 1=1 --",
  "x".repeat(5_000),
])("an id such as %j names nothing", async (id) => {
  const response = await fetch(`${url}/external/conversations/${id}/messages`, {
    headers: { "Agent-Secret-Key": agentKey },
  });
  const body: unknown = await response.json();
  expect([response.status, problems("error", body)]).toEqual([404, []]);
  expect(response.headers.get("x-injected")).toBeNull();
});

test("an unknown operation is not found", async () => {
  expect(await send("nothing-here", "POST", "{}")).toMatchObject({
    status: 404,
    body: { message: "ENTITY_NOT_FOUND" },
  });
  expect(await send("agents/by-api-key", "PATCH", "{}")).toMatchObject({ status: 404 });
});

describe.runIf(embedded)("the rate of 1000 requests in 60 seconds", () => {
  test("is the organization's: its next request of any kind is 429, and other organizations continue", async () => {
    const limited = await startTarget();
    const { foreign } = limited;
    const client = createClient({ ...limited, timeoutMs: 30_000, tries: 1 });
    const one = () => client.agents.get();
    for (let n = 0; n < 1000; n += 20) {
      const results = await Promise.all(Array.from({ length: 20 }, one));
      expect(results.every(({ kind }) => kind === "ok")).toBe(true);
    }
    const refused = await one();
    expect(refused).toMatchObject({ kind: "deferred", limited: true });
    expect(await client.conversations.list()).toMatchObject({ kind: "deferred", limited: true });
    const others = createClient({ url: limited.url, agentKey: foreign?.agentKey ?? "", timeoutMs: 30_000 });
    expect(await others.agents.get()).toMatchObject({ kind: "ok" });
    const response = await fetch(`${limited.url}/external/agents/by-api-key`, {
      headers: { "Agent-Secret-Key": limited.agentKey },
    });
    const body: unknown = await response.json();
    expect([response.status, problems("error", body)]).toEqual([429, []]);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
    await client.close();
    await others.close();
  });
});

test("the description has the interface's title and version, no version in its paths, and all operations", async () => {
  const page = await fetch(`${url}/api/external/docs/`);
  expect([page.status, page.headers.get("content-type")?.split(";")[0]]).toEqual([200, "text/html"]);
  const response = await fetch(`${url}/api/external/docs/openapi.json`);
  const description = (await response.json()) as {
    info: object;
    paths: { [path: string]: { [method: string]: object } };
  };
  expect(description.info).toMatchObject({ title: "AI Agent API", version: "1.0.0" });
  expect(Object.keys(description.paths).filter((path) => /\/v\d/.test(path))).toEqual([]);
  for (const [name, [method, path]] of Object.entries(operations))
    expect([name, description.paths[`/external/${path}`]?.[method.toLowerCase()]]).toEqual([name, expect.any(Object)]);
});
