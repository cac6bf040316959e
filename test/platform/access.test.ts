// Keys, tenants and the rate limit.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readAgents } from "../../src/platform/index.ts";
import { Limiter } from "../../src/platform/routes/exchange.ts";
import { keys, startTestPlatform, startWith } from "../support/platform/platform.ts";

const forbidden = {
  status: 403,
  body: { status: 403, name: "FORBIDDEN_ERROR", message: "INVALID_CREDENTIALS", details: [] },
};

describe("a key", () => {
  test.each(["", "wrong-key", "acme-organization-key"])("%j opens nothing", async (key) => {
    const { call } = await startTestPlatform();
    expect(await call("GET", "agents/by-api-key", undefined, key)).toMatchObject(forbidden);
    expect(await call("POST", "conversations/start", {}, key)).toMatchObject(forbidden);
    expect(await call("GET", "nothing-here", undefined, key)).toMatchObject(forbidden);
  });

  test("opens nothing while the API skill is off", async () => {
    const text = "organization: { name: A }\nagents: { a: { key: some-key-1, skills: { api: { status: inactive } } } }";
    const { call } = await startWith({ agents: readAgents(text, "a.yaml") });
    expect(await call("GET", "agents/by-api-key", undefined, "some-key-1")).toMatchObject(forbidden);
  });

  test("of an inactive agent reads, and gets its questions stored unanswered", async () => {
    const text = "organization: { name: A }\nagents: { a: { key: some-key-1, status: inactive } }";
    const { call, open } = await startWith({ agents: readAgents(text, "a.yaml") });
    const id = await open("jo@example.test", "some-key-1");
    const asked = await call("POST", `conversations/${id}/messages`, { message: "hi" }, "some-key-1");
    expect(asked).toMatchObject({ status: 201, body: { senderRole: "conversation_user" } });
  });
});

test.each([keys.sales, keys.other])("another agent (%s) sees nothing of a conversation", async (key) => {
  const { call, open } = await startTestPlatform();
  const id = await open("jo@example.test");
  const at = `conversations/${id}`;
  const userId = (await call("GET", at)).body.conversationUserId;
  const attempts = [
    call("GET", at, undefined, key),
    call("GET", `${at}/messages`, undefined, key),
    call("POST", `${at}/messages`, { message: "hi" }, key),
    call("POST", `${at}/send-manual-message`, { message: "hi" }, key),
    call("PUT", `${at}/mode`, { mode: "manual" }, key),
    call("POST", "conversations", { conversationUserId: userId }, key),
    call("GET", `users/${userId}`, undefined, key),
    call("GET", "users/search?email=jo%40example.test", undefined, key),
    call("GET", "nothing-here", undefined, key),
  ];
  for (const attempt of attempts)
    expect(await attempt).toMatchObject({ status: 404, body: { message: "ENTITY_NOT_FOUND" } });
  expect((await call("GET", "conversations", undefined, key)).body).toMatchObject({
    totalItems: 0,
    data: [],
  });
  expect(await open("jo@example.test", key)).not.toBe(id);
  expect((await call("GET", at)).body).toMatchObject({ mode: "ai" });
});

describe("the rate", () => {
  test("is one per organization, and says when to come back", async () => {
    const { call } = await startTestPlatform({ rate: { requests: 5, perSeconds: 60 } });
    const results = [];
    for (let n = 0; n < 7; n++)
      results.push(await call("GET", "agents/by-api-key", undefined, n % 2 ? keys.sales : keys.support));
    expect(results.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 429, 429]);
    const wait = Number(results[5]?.headers.get("retry-after"));
    expect(wait).toBeGreaterThan(50);
    expect(wait).toBeLessThanOrEqual(60);
    expect(results[5]?.body).toMatchObject({ status: 429, message: expect.any(String) });
    expect((await call("GET", "agents/by-api-key", undefined, keys.other)).status).toBe(200);
    expect((await call("GET", "agents/by-api-key", undefined, "wrong-key")).status).toBe(403);
  });

  test("admits the default 1000 at once, and not one more", async () => {
    const limiter = new Limiter({ requests: 1000, perSeconds: 60 });
    const admitted = Array.from({ length: 1500 }, () => limiter.admit("a", 1_000).admitted).filter(Boolean);
    expect(admitted).toHaveLength(1000);
    expect(limiter.admit("a", 61_000)).toEqual({ admitted: false, waitMs: 0 });
    expect(limiter.admit("a", 61_001)).toEqual({ admitted: true });
  });

  test("is never exceeded in any window, and never refuses without need", () => {
    const property = fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 1, maxLength: 300 }),
      (requests, gaps) => {
        const limiter = new Limiter({ requests, perSeconds: 10 });
        const admitted: number[] = [];
        let now = 0;
        for (const gap of gaps) {
          now += gap;
          const inWindow = admitted.filter((at) => at >= now - 10_000).length;
          const admission = limiter.admit("a", now);
          expect(admission.admitted).toBe(inWindow < requests);
          if (admission.admitted) admitted.push(now);
          else expect(admission.waitMs).toBeLessThanOrEqual(10_000);
        }
        for (const [index, at] of admitted.entries())
          expect(admitted.slice(index).filter((later) => later <= at + 10_000).length).toBeLessThanOrEqual(requests);
      },
    );
    fc.assert(property, { numRuns: 300 });
  });
});
