// Changing, labelling and removing conversations and people, and questions whose answer is looked for later.

import { describe, expect, test } from "vitest";
import { readAgents } from "../../src/platform/index.ts";
import { conversation, conversationState, message, responseOn } from "../../src/wire/conversation.ts";
import {
  keys,
  saying,
  startModel,
  startTestPlatform,
  startWith,
  type TestPlatform,
} from "../support/platform/platform.ts";

const missing = { status: 404, body: { message: "ENTITY_NOT_FOUND" } };

describe("a conversation", () => {
  test("accepts a new title, state and status, each alone", async () => {
    const { call, open } = await startTestPlatform();
    const at = `conversations/${await open()}`;
    const changed = await call("PUT", at, { title: "Lamps" });
    expect(changed).toMatchObject({ status: 200, body: { title: "Lamps" } });
    expect(conversation.exact.safeParse(changed.body).success).toBe(true);
    await call("PUT", at, { conversationStateId: "state-1" });
    expect((await call("GET", at)).body).toMatchObject({ title: "Lamps", conversationStateId: "state-1" });
  });

  test("that is archived is not gone on with", async () => {
    const { call, open } = await startTestPlatform();
    const first = await open();
    await call("PUT", `conversations/${first}`, { status: "archived" });
    const second = await open();
    expect(second).not.toBe(first);
    await call("PUT", `conversations/${first}`, { status: "active" });
    expect(await open()).toBe(second);
  });

  test.each([{ title: "x".repeat(256) }, { context: "x".repeat(256_001) }, { status: "closed" }, { title: 1 }])(
    "refuses %#",
    async (body) => {
      const { call, open } = await startTestPlatform();
      const at = `conversations/${await open()}`;
      const before = (await call("GET", at)).body;
      expect(await call("PUT", at, body)).toMatchObject({ status: 400, body: { name: "BAD_REQUEST" } });
      expect((await call("GET", at)).body).toEqual(before);
    },
  );

  test("of another agent is not there", async () => {
    const { call, open } = await startTestPlatform();
    const at = `conversations/${await open()}`;
    expect(await call("PUT", at, { title: "Mine" }, keys.sales)).toMatchObject(missing);
    expect((await call("GET", at)).body.title).toBe("A question");
  });
});

describe("states", () => {
  const text = `
organization:
  name: Acme
  states: [{ name: Complete, color: "#00aa00", persistent: true }, { name: Waiting, description: for us }]
agents: { support: { key: ${keys.support} } }
`;

  test("are listed as defined, and are the only ones a conversation can have", async () => {
    const { call, open } = await startWith({ agents: readAgents(text, "a.yaml") });
    const { body } = await call("GET", "conversations/states");
    expect(body).toMatchObject({
      totalItems: 2,
      data: [
        { name: "Complete", description: null, color: "#00aa00", isPersistent: true },
        { name: "Waiting", description: "for us", color: null, isPersistent: false },
      ],
    });
    for (const state of body.data) expect(conversationState.exact.safeParse(state).success).toBe(true);
    const at = `conversations/${await open()}`;
    expect(await call("PUT", at, { conversationStateId: body.data[1].id })).toMatchObject({ status: 200 });
    expect(await call("PUT", at, { conversationStateId: "another" })).toMatchObject({
      status: 400,
      body: { details: [{ path: "conversationStateId" }] },
    });
  });
});

describe("removing", () => {
  async function twoPeople(platform: TestPlatform) {
    const [jo, max] = [await platform.open("jo@people.test"), await platform.open("max@people.test")];
    for (const id of [jo, max]) await platform.call("POST", `conversations/${id}/messages`, { message: "refund" });
    const person = async (id: string) =>
      (await platform.call("GET", `conversations/${id}`)).body.conversationUserId as string;
    return { jo, max, joId: await person(jo), maxId: await person(max) };
  }

  test("all conversations of a person leaves the person, and everybody else", async () => {
    const platform = await startTestPlatform();
    const { jo, max, joId } = await twoPeople(platform);
    expect(await platform.call("DELETE", "conversations", { conversationUserId: joId })).toMatchObject({
      status: 204,
    });
    expect(await platform.call("GET", `conversations/${jo}`)).toMatchObject(missing);
    expect(await platform.call("GET", `conversations/${jo}/messages`)).toMatchObject(missing);
    expect(await platform.call("GET", `users/${joId}`)).toMatchObject({ status: 200 });
    expect((await platform.call("GET", `conversations/${max}/messages`)).body.messages).toHaveLength(2);
  });

  test("a person removes their conversations", async () => {
    const platform = await startTestPlatform();
    const { jo, max, joId } = await twoPeople(platform);
    expect(await platform.call("DELETE", `users/${joId}`)).toMatchObject({ status: 204 });
    expect(await platform.call("DELETE", `users/${joId}`)).toMatchObject(missing);
    expect(await platform.call("GET", `conversations/${jo}`)).toMatchObject(missing);
    expect((await platform.call("GET", "agents/users")).body.totalItems).toBe(1);
    expect(await platform.call("GET", `conversations/${max}`)).toMatchObject({ status: 200 });
  });

  test("takes nothing from what the agent has used", async () => {
    const platform = await startTestPlatform();
    const { joId } = await twoPeople(platform);
    const used = (await platform.call("GET", "agents/statistic")).body;
    expect(used).toMatchObject({ emailsUsed: 2 });
    await platform.call("DELETE", "conversations", { conversationUserId: joId });
    expect((await platform.call("GET", "agents/statistic")).body).toEqual(used);
    expect((await platform.call("GET", `agents/statistic?userId=${joId}`)).body).toMatchObject({ emailsUsed: 1 });
    await platform.call("DELETE", `users/${joId}`);
    expect((await platform.call("GET", "agents/statistic")).body).toEqual(used);
    expect((await platform.call("GET", `agents/statistic?userId=${joId}`)).body).toMatchObject({ emailsUsed: 0 });
  });

  test("reaches no user of another agent", async () => {
    const platform = await startTestPlatform();
    const { jo, joId } = await twoPeople(platform);
    expect(await platform.call("DELETE", `users/${joId}`, undefined, keys.sales)).toMatchObject(missing);
    await platform.call("DELETE", "conversations", { conversationUserId: joId }, keys.sales);
    expect(await platform.call("GET", `conversations/${jo}`)).toMatchObject({ status: 200 });
  });

  test("a conversation while its question is being answered produces no answer, and is not a failure", async () => {
    const model = await startModel();
    const thinking = Promise.withResolvers<void>();
    const done = Promise.withResolvers<void>();
    model.say((response) => {
      thinking.resolve();
      void done.promise.then(() => saying("Too late")(response));
    });
    const text = `organization: { name: A }\nagents: { a: { key: ${keys.support}, model: { url: "${model.url}", name: m } } }`;
    const { call, open, errors } = await startWith({ agents: readAgents(text, "a.yaml") });
    const id = await open();
    const userId = (await call("GET", `conversations/${id}`)).body.conversationUserId as string;
    const asked = call("POST", `conversations/${id}/messages`, { message: "hi" });
    await thinking.promise;
    await call("DELETE", "conversations", { conversationUserId: userId });
    done.resolve();
    expect(await asked).toMatchObject(missing);
    expect(errors).toEqual([]);
  });
});

describe("a question put for later", () => {
  const on = (id: string, question: string) => `conversations/${id}/messages/${question}/response-on`;

  test("is answered in the background", async () => {
    const { call, open } = await startTestPlatform();
    const id = await open();
    const put = await call("POST", `conversations/${id}/messages/async`, { message: "refund" });
    expect(put).toMatchObject({ status: 201, body: { senderRole: "conversation_user", message: "refund" } });
    expect(message.exact.safeParse(put.body).success).toBe(true);
    const answered = async () => (await call("GET", on(id, put.body.id))).body;
    await expect.poll(answered).toMatchObject({
      status: "completed",
      message: { message: "Refunds take five days.", conversationMessageId: put.body.id },
      error: null,
    });
    expect(responseOn.exact.safeParse(await answered()).success).toBe(true);
  });

  test("stays, and says that it failed, when the agent fails", async () => {
    const model = await startModel();
    model.say(saying(null, 500));
    const text = `organization: { name: A }\nagents: { a: { key: ${keys.support}, model: { url: "${model.url}", name: m } } }`;
    const { call, open } = await startWith({ agents: readAgents(text, "a.yaml") });
    const id = await open();
    const put = await call("POST", `conversations/${id}/messages/async`, { message: "hi" });
    const answered = async () => (await call("GET", on(id, put.body.id))).body;
    await expect.poll(answered).toEqual({ status: "failed", message: null, error: expect.any(String) });
    expect((await call("GET", `conversations/${id}/messages`)).body.messages).toHaveLength(1);
  });

  test("waits for a person in manual mode", async () => {
    const { call, open } = await startTestPlatform();
    const id = await open();
    await call("PUT", `conversations/${id}/mode`, { mode: "manual" });
    const put = await call("POST", `conversations/${id}/messages/async`, { message: "refund" });
    expect((await call("GET", on(id, put.body.id))).body).toEqual({
      status: "pending",
      message: null,
      error: null,
    });
    await call("POST", `conversations/${id}/send-manual-message`, { message: "I look into it." });
    expect((await call("GET", on(id, put.body.id))).body).toMatchObject({
      status: "completed",
      message: { senderRole: "manual_assistant" },
    });
  });

  test("without a user, of another conversation or agent is not found", async () => {
    const { call, open } = await startTestPlatform();
    const [id, other] = [await open(), await open("max@people.test")];
    const put = await call("POST", `conversations/${id}/messages/async`, { message: "refund" });
    expect(await call("GET", on(id, "nothing"))).toMatchObject(missing);
    expect(await call("GET", on(other, put.body.id))).toMatchObject(missing);
    expect(await call("GET", on(id, put.body.id), undefined, keys.sales)).toMatchObject(missing);
    expect(await call("POST", "conversations/nothing/messages/async", { message: "hi" })).toMatchObject(missing);
  });
});
