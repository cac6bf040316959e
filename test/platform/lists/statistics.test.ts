// The statistic counts what really happened, in any period and with any person (External API 2.7, 4.2 rule 4).

import type { Clock } from "bridgehead/contract";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { readAgents } from "../../../src/platform/index.ts";
import { openPlatformStore } from "../../../src/platform/store/store.ts";
import { statistic } from "../../../src/wire/agent.ts";
import { keys, startByEmail, startModel, startTestPlatform, startWith } from "../../support/platform/platform.ts";

/** A clock whose wall time stands where it was put. */
function handClock(at: string): Clock & { set(at: string): void } {
  let now = Date.parse(at);
  return {
    now: () => now,
    monotonic: () => systemClock.monotonic(),
    sleep: (ms, signal) => systemClock.sleep(ms, signal),
    set: (next) => void (now = Date.parse(next)),
  };
}

const none = {
  tokensUsed: 0,
  tokensPerConversation: 0,
  vapiSecondsUsed: 0,
  averageCallDuration: 0,
  smsUsed: 0,
  smsPerConversation: 0,
  emailsUsed: 0,
  emailsPerConversation: 0,
};

const byPhone = (channel: "sms" | "voice", phoneNumber: string, over: object = {}) => ({
  firstName: "Jo",
  lastName: "Doe",
  channel,
  phoneNumber,
  ...(channel === "sms" ? { smsIntroduction: "Hi" } : { firstMessage: "Hello" }),
  ...over,
});

async function days() {
  const clock = handClock("2026-11-01T10:00:00Z");
  const platform = await startTestPlatform({ clock });
  const start = async (body: object) =>
    (await platform.call("POST", "conversations/start", body)).body.conversationId as string;
  const say = (id: string) => platform.call("POST", `conversations/${id}/messages`, { message: "refund" });
  const get = async (query = "") => (await platform.call("GET", `agents/statistic?${query}`)).body;

  const mail = await start(startByEmail("jo@people.test", { fkId: "jo", fkUserId: "family" }));
  await say(mail);
  await say(mail);
  clock.set("2026-11-02T10:00:00Z");
  await say(await start(byPhone("sms", "+15550101", { fkId: "max", fkUserId: "family" })));
  clock.set("2026-11-03T10:00:00Z");
  const call = await start(byPhone("voice", "+15550102", { fkId: "ann" }));
  clock.set("2026-11-03T10:01:30Z");
  await say(call);
  return { ...platform, get, clock };
}

describe("the statistic", () => {
  test("of an unused agent is all zeros, in the record's own form", async () => {
    const { call } = await startTestPlatform();
    const { status, body } = await call("GET", "agents/statistic");
    expect({ status, body }).toEqual({ status: 200, body: none });
    expect(statistic.exact.safeParse(body).success).toBe(true);
  });

  test("counts answers by channel, and calls by their length", async () => {
    const { get } = await days();
    expect(await get()).toEqual({
      ...none,
      emailsUsed: 2,
      emailsPerConversation: 2,
      smsUsed: 1,
      smsPerConversation: 1,
      vapiSecondsUsed: expect.closeTo(90, 1),
      averageCallDuration: expect.closeTo(90, 1),
    });
  });

  test("of a period counts nothing before and nothing after it", async () => {
    const { get } = await days();
    expect(await get("startDate=2026-11-02T00:00:00Z&endDate=2026-11-02T23:59:59Z")).toEqual({
      ...none,
      smsUsed: 1,
      smsPerConversation: 1,
    });
    expect(await get("endDate=2026-11-01T09:59:59Z")).toEqual(none);
    expect(await get("startDate=2026-11-04T00:00:00Z")).toEqual(none);
    expect(await get("startDate=2026-11-01T10:00:00Z&endDate=2026-11-01T12:00:00Z")).toMatchObject({
      emailsUsed: 2,
      smsUsed: 0,
    });
  });

  test("of one person, by each of the four names", async () => {
    const { get, call } = await days();
    const id = (await call("GET", "users/search?fkId=jo")).body.user.id as string;
    for (const query of ["fkId=jo", `userId=${id}`, `conversationUserId=${id}`, `userId=${id}&fkUserId=family`])
      expect([query, await get(query)]).toEqual([query, { ...none, emailsUsed: 2, emailsPerConversation: 2 }]);
    expect(await get("fkUserId=family")).toMatchObject({ emailsUsed: 2, smsUsed: 1, vapiSecondsUsed: 0 });
    expect(await get(`fkId=max&userId=${id}`)).toEqual(none);
    expect(await get("fkId=nobody")).toEqual(none);
    expect(await get("fkUserId=family&startDate=2026-11-02T00:00:00Z")).toMatchObject({
      emailsUsed: 0,
      smsUsed: 1,
    });
  });

  test("counts the tokens its model says it took", async () => {
    const model = await startModel();
    model.say((response) =>
      response.writeHead(200, { "content-type": "application/json" }).end(
        JSON.stringify({
          choices: [{ message: { role: "assistant", content: "Hello" } }],
          usage: { total_tokens: 321 },
        }),
      ),
    );
    const text = `organization: { name: A }\nagents: { a: { key: some-key-1, model: { url: "${model.url}", name: m } } }`;
    const { call, open } = await startWith({ agents: readAgents(text, "a.yaml") });
    const id = await open("jo@people.test", "some-key-1");
    for (const message of ["one", "two"]) await call("POST", `conversations/${id}/messages`, { message }, "some-key-1");
    expect((await call("GET", "agents/statistic", undefined, "some-key-1")).body).toMatchObject({
      tokensUsed: 642,
      tokensPerConversation: 642,
      emailsUsed: 2,
    });
  });

  test("counts the tokens that judging a dialog took", async () => {
    const model = await startModel();
    const choices = [{ message: { role: "assistant", content: "8" } }];
    model.say((response) =>
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ choices, usage: { total_tokens: 100 } })),
    );
    const text = `
organization: { name: A }
agents: { a: { key: ${keys.support}, model: { url: "${model.url}", name: m }, skills: { scoring: {} } } }`;
    const { call, open } = await startWith({
      agents: readAgents(text, "a.yaml"),
      patience: { endAfter: 100, archiveAfter: 86_400_000 },
    });
    const id = await open();
    await call("POST", `conversations/${id}/messages`, { message: "hi" });
    // The answer's, and then the verdict's.
    await expect.poll(async () => (await call("GET", "agents/statistic")).body.tokensUsed).toBe(200);
    expect((await call("GET", `conversations/${id}`)).body.score).toBe(8);
  });

  test("is each agent's own", async () => {
    const { call } = await days();
    expect((await call("GET", "agents/statistic", undefined, keys.sales)).body).toEqual(none);
    expect((await call("GET", "agents/statistic?fkId=jo", undefined, keys.sales)).body).toEqual(none);
  });

  test.each([
    "startDate=yesterday",
    "startDate=2026-02-30",
    "endDate=2025-02-29T10:00:00+01:00",
    "userId=17",
    "conversationUserId=x",
  ])("refuses %s", async (query) => {
    const { call } = await startTestPlatform();
    expect(await call("GET", `agents/statistic?${query}`)).toMatchObject({ status: 400 });
  });
});

test("running totals give the same sums as counting, in any period", () => {
  const event = fc.record({ at: fc.integer({ min: 0, max: 50 }), tokens: fc.integer({ min: 0, max: 9 }) });
  fc.assert(
    fc.property(
      fc.array(event, { maxLength: 30 }),
      fc.integer({ min: 0, max: 50 }),
      fc.integer({ min: 0, max: 50 }),
      (unsorted, from, until) => {
        const store = openPlatformStore(":memory:", "normal");
        try {
          const events = unsorted.toSorted((a, b) => a.at - b.at);
          for (const { at, tokens } of events) store.usage.add("agent", "person", at, { tokens });
          const counted = events
            .filter(({ at }) => at >= from && at <= until)
            .reduce((total, { tokens }) => total + tokens, 0);
          expect(store.usage.within("agent", from, until).tokens).toBe(counted);
          expect(store.usage.within("person", from, until).tokens).toBe(counted);
        } finally {
          store.close();
        }
      },
    ),
    { numRuns: 60 },
  );
});
