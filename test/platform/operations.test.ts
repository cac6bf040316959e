// Every operation over real HTTP, its record checked against the interface's, and each of its errors.

import { describe, expect, test } from "vitest";
import { agent } from "../../src/wire/agent.ts";
import { conversation, message, user } from "../../src/wire/conversation.ts";
import { apiSkill, emailSkill, smsSkill } from "../../src/wire/skill.ts";
import { keys, startByEmail, startTestPlatform } from "../support/platform/platform.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const badRequest = (details: unknown = expect.any(Array)) => ({
  status: 400,
  body: { status: 400, name: "BAD_REQUEST", message: "INVALID_REQUEST", details },
});
const notFound = {
  status: 404,
  body: { status: 404, name: "ENTITY_NOT_FOUND_ERROR", message: "ENTITY_NOT_FOUND", details: [] },
};

test("GET agents/by-api-key shows the agent as defined", async () => {
  const { call } = await startTestPlatform();
  const { status, body } = await call("GET", "agents/by-api-key");
  expect(status).toBe(200);
  expect(agent.exact.safeParse(body).error).toBeUndefined();
  expect(body).toMatchObject({ organizationName: "Acme", publicName: "Acme Support", status: "active" });
  expect(body.id).toMatch(uuid);
  const [email, sms, api] = body.skills;
  expect(emailSkill.exact.safeParse(email).error).toBeUndefined();
  expect(email).toMatchObject({ senderName: "Ada from Acme", responseDelaySeconds: 5, status: "active" });
  expect(smsSkill.exact.safeParse(sms).error).toBeUndefined();
  expect(sms).toMatchObject({ phoneNumber: "+15550100", responseDelaySeconds: null });
  expect(apiSkill.exact.safeParse(api).error).toBeUndefined();
  expect(api).toEqual({ systemName: "API", status: "active", apiKey: keys.support });
});

describe("POST conversations/start", () => {
  test("continues the person's current conversation over that channel", async () => {
    const { call, open } = await startTestPlatform();
    const first = await open();
    expect(first).toMatch(uuid);
    expect(await open("JO@example.test")).toBe(first);
    const sms = {
      firstName: "Jo",
      lastName: "Doe",
      channel: "sms",
      phoneNumber: "+15550111",
      smsIntroduction: "Hi",
    };
    const bySms = await call("POST", "conversations/start", { ...sms, email: "jo@example.test" });
    expect(bySms).toMatchObject({
      status: 201,
      body: { conversationId: expect.not.stringContaining(first) },
    });
    const again = await call("POST", "conversations/start", sms);
    expect(again.body).toEqual(bySms.body);
  });

  test("resets it when asked to, and makes each call anew", async () => {
    const { call, open } = await startTestPlatform();
    const first = await open();
    const reset = startByEmail("jo@example.test", { resetConversation: true });
    const second = (await call("POST", "conversations/start", reset)).body.conversationId;
    expect(second).not.toBe(first);
    expect(await open()).toBe(second);
    const voice = {
      firstName: "Jo",
      lastName: "Doe",
      channel: "voice",
      phoneNumber: "+15550111",
      firstMessage: "Hi",
    };
    const calls = [];
    while (calls.length < 2) calls.push((await call("POST", "conversations/start", voice)).body.conversationId);
    expect(new Set(calls).size).toBe(2);
  });

  test("keeps the details of the person and the conversation", async () => {
    const { call } = await startTestPlatform();
    const request = startByEmail("kim@example.test", {
      fkId: "crm-7",
      context: "gold customer",
      source: "crm",
      customData: { tier: 3 },
      neverHeardOf: { of: "it" },
    });
    const { body } = await call("POST", "conversations/start", request);
    const found = await call("GET", `conversations/${body.conversationId}`);
    expect(found.body).toMatchObject({
      title: "A question",
      mode: "ai",
      metadata: { customData: { tier: 3 } },
      user: { fkId: "crm-7", context: "gold customer", source: "crm", email: "kim@example.test" },
      feedbacks: [],
    });
    expect(conversation.exact.safeParse(found.body).error).toBeUndefined();
  });

  test.each([
    ["no body", {}, "channel"],
    ["another channel", startByEmail("a@b.test", { channel: "api" }), "channel"],
    ["no name", startByEmail("a@b.test", { firstName: undefined }), "firstName"],
    ["no subject", startByEmail("a@b.test", { emailSubject: undefined }), "emailSubject"],
    ["a wrong type", startByEmail("a@b.test", { resetConversation: "yes" }), "resetConversation"],
    ["no address", startByEmail("nobody"), "email"],
    ["a number without prefix", startByEmail("a@b.test", { phoneNumber: "0123" }), "phoneNumber"],
  ])("refuses %s", async (_name, body, path) => {
    const { call } = await startTestPlatform();
    const details = expect.arrayContaining([{ path, message: expect.any(String) }]);
    expect(await call("POST", "conversations/start", body)).toMatchObject(badRequest(details));
  });

  test("looks at addresses only when it is to", async () => {
    const { call } = await startTestPlatform();
    const odd = startByEmail("nobody", { skipEmailValidation: true });
    expect((await call("POST", "conversations/start", odd)).status).toBe(201);
  });
});

describe("users", () => {
  const jo = {
    firstName: "Jo",
    lastName: "Doe",
    fkId: "7",
    email: "jo@example.test",
    phoneNumber: "+15550111",
  };

  test("are made once and found by each identifier", async () => {
    const { call } = await startTestPlatform();
    const made = await call("POST", "users", jo);
    expect(made.status).toBe(201);
    expect(user.exact.safeParse(made.body).error).toBeUndefined();
    for (const again of [jo, { ...jo, fkId: undefined }, { ...jo, fkId: undefined, email: "else@example.test" }])
      expect(await call("POST", "users", again)).toMatchObject(badRequest());
    for (const query of ["fkId=7", "email=Jo%40example.test", "phoneNumber=%2B15550111", "phoneNumber=+15550111"])
      expect(await call("GET", `users/search?${query}`)).toMatchObject({
        status: 200,
        body: { user: { id: made.body.id }, conversationIds: [] },
      });
    expect((await call("GET", `users/${made.body.id}`)).body).toEqual(made.body);
  });

  test("with another foreign key are other people", async () => {
    const { call } = await startTestPlatform();
    await call("POST", "users", jo);
    expect((await call("POST", "users", { ...jo, fkId: "8" })).status).toBe(201);
  });

  test("are not found, not made without an identifier", async () => {
    const { call } = await startTestPlatform();
    expect(await call("GET", "users/search?fkId=none")).toMatchObject(notFound);
    expect(await call("GET", "users/search")).toMatchObject(badRequest());
    expect(await call("GET", "users/none")).toMatchObject(notFound);
    expect(await call("POST", "users", { firstName: "Jo", lastName: "Doe" })).toMatchObject(badRequest());
  });

  test("have the conversations opened for them", async () => {
    const { call } = await startTestPlatform();
    const { id } = (await call("POST", "users", jo)).body;
    const opened = await call("POST", "conversations", { conversationUserId: id, title: "T" });
    expect(opened).toMatchObject({ status: 201, body: { conversationUserId: id, title: "T", mode: "ai" } });
    expect(conversation.exact.safeParse(opened.body).error).toBeUndefined();
    expect((await call("GET", "users/search?fkId=7")).body.conversationIds).toEqual([opened.body.id]);
    expect(await call("POST", "conversations", { conversationUserId: "none" })).toMatchObject(notFound);
    const long = { conversationUserId: id, title: "t".repeat(256) };
    expect(await call("POST", "conversations", long)).toMatchObject(badRequest());
  });
});

describe("messages", () => {
  test("are answered in the same call, and listed in order with ever later times", async () => {
    const { call, open } = await startTestPlatform();
    const id = await open();
    const asked = await Promise.all(
      Array.from({ length: 20 }, (_, n) => call("POST", `conversations/${id}/messages`, { message: `refund ${n}` })),
    );
    for (const { status, body } of asked) {
      expect(status).toBe(201);
      expect(message.exact.safeParse(body).error).toBeUndefined();
      expect(body).toMatchObject({
        senderRole: "assistant",
        message: "Refunds take five days.",
        source: "api",
      });
    }
    const { body } = await call("GET", `conversations/${id}/messages`);
    expect(body).toMatchObject({ totalItems: 40, totalPages: 1, hasNextPage: false, data: body.messages });
    const times = body.messages.map((each: { createdAt: string }) => Date.parse(each.createdAt));
    expect(times).toEqual([...new Set<number>(times)].toSorted((a, b) => a - b));
    for (const [n, { body: reply }] of asked.entries()) {
      const question = body.messages.find((each: { id: string }) => each.id === reply.conversationMessageId);
      expect(question).toMatchObject({
        senderRole: "conversation_user",
        message: `refund ${n}`,
        conversationMessageId: question.id,
      });
    }
    const reversed = await call("GET", `conversations/${id}/messages?orderDirection=DESC`);
    expect(reversed.body.messages).toEqual(body.messages.toReversed());
  });

  test("need a text and a conversation", async () => {
    const { call, open } = await startTestPlatform();
    const id = await open();
    expect(await call("POST", `conversations/${id}/messages`, { text: "hi" })).toMatchObject(badRequest());
    expect(await call("POST", `conversations/${id}/messages`, "{not json")).toMatchObject(badRequest());
    expect(await call("POST", "conversations/none/messages", { message: "hi" })).toMatchObject(notFound);
    expect(await call("GET", "conversations/none/messages")).toMatchObject(notFound);
    expect(await call("GET", `conversations/${id}/messages?orderDirection=UP`)).toMatchObject(badRequest());
  });

  test("larger than anything named are refused", async () => {
    const { call, open } = await startTestPlatform();
    const huge = { message: "x".repeat(3 * 1024 * 1024) };
    expect((await call("POST", `conversations/${await open()}/messages`, huge)).status).toBe(413);
  });
});

describe("manual mode", () => {
  test("gives the question back, lets a person answer, and ends", async () => {
    const { call, open } = await startTestPlatform();
    const at = `conversations/${await open()}`;
    expect((await call("PUT", `${at}/mode`, { mode: "manual" })).body).toMatchObject({ mode: "manual" });
    const question = await call("POST", `${at}/messages`, { message: "refund" });
    expect(question).toMatchObject({
      status: 201,
      body: { senderRole: "conversation_user", message: "refund" },
    });
    const said = await call("POST", `${at}/send-manual-message`, { message: "I will see to it." });
    expect(said).toMatchObject({
      status: 200,
      body: { senderRole: "manual_assistant", conversationMessageId: question.body.id },
    });
    expect((await call("PUT", `${at}/mode`, {})).body).toMatchObject({ mode: "manual" });
    expect((await call("PUT", `${at}/mode`, { mode: "ai" })).body).toMatchObject({ mode: "ai" });
    expect((await call("POST", `${at}/messages`, { message: "refund" })).body).toMatchObject({
      senderRole: "assistant",
    });
    expect((await call("GET", `${at}/messages`)).body.messages).toHaveLength(4);
  });

  test("is required for a person's message, and a call never has one", async () => {
    const { call, open } = await startTestPlatform();
    const at = `conversations/${await open()}`;
    expect(await call("POST", `${at}/send-manual-message`, { message: "hi" })).toMatchObject(badRequest());
    const voice = {
      firstName: "Jo",
      lastName: "Doe",
      channel: "voice",
      phoneNumber: "+15550111",
      firstMessage: "Hi",
    };
    const spoken = `conversations/${(await call("POST", "conversations/start", voice)).body.conversationId}`;
    await call("PUT", `${spoken}/mode`, { mode: "manual" });
    expect(await call("POST", `${spoken}/send-manual-message`, { message: "hi" })).toMatchObject(badRequest());
    expect(await call("PUT", "conversations/none/mode", { mode: "ai" })).toMatchObject(notFound);
    expect(await call("PUT", `${at}/mode`, { mode: "robot" })).toMatchObject(badRequest());
  });
});

describe("GET conversations", () => {
  test("pages, sorts and filters", async () => {
    const { call, open } = await startTestPlatform();
    const ids = [];
    for (const name of ["ann", "bob", "cem"]) ids.push(await open(`${name}@example.test`));
    await call("POST", `conversations/${ids[0]}/messages`, { message: "hello" });
    const list = async (query: string) =>
      (await call("GET", `conversations?${query}`)).body.data.map((each: { id: string }) => each.id);
    const page = await call("GET", "conversations?pageSize=2&orderDirection=ASC");
    expect(page.body).toMatchObject({
      currentPage: 1,
      pageSize: 2,
      totalItems: 3,
      totalPages: 2,
      hasNextPage: true,
    });
    expect(page.body.data.map((each: { id: string }) => each.id)).toEqual(ids.slice(0, 2));
    expect(await list("page=2&pageSize=2&orderDirection=ASC")).toEqual([ids[2]]);
    expect(await list("orderBy=updatedAt&pageSize=1")).toEqual([ids[0]]);
    expect(await list("searchKeyword=BOB")).toEqual([ids[1]]);
    // The agent's name is looked into as well.
    expect(await list("searchKeyword=Support")).toHaveLength(3);
    expect(await list("searchKeyword=nowhere")).toEqual([]);
    expect(await list(`userId=${page.body.data[0].conversationUserId}`)).toEqual([ids[0]]);
    expect(await list("startDate=2999-01-01")).toEqual([]);
    expect(await list("endDate=2999-01-01T00:00:00Z")).toHaveLength(3);
    expect(await list("withFeedbacksOnly=true")).toEqual([]);
    for (const query of ["page=0", "pageSize=x", "orderBy=name", "startDate=tomorrow"])
      expect(await call("GET", `conversations?${query}`)).toMatchObject(badRequest());
  });
});
