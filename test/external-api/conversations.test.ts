// Conversations, their messages and their people (External API 4.3, and what the public description adds).

import { describe, expect, test } from "vitest";
import { type Driver, drivers, problems, startTarget } from "../support/external-api/target.ts";

const target = await startTarget();
const run = Math.random().toString(36).slice(2, 8);
let people = 0;
/** A person without earlier conversations. */
const somebody = () => ({
  firstName: "Jo",
  lastName: "Doe",
  email: `conformance-${run}-${people++}@example.com`,
});
const starts = {
  email: () => ({ ...somebody(), channel: "email", emailSubject: "S", emailIntroduction: "Hello" }),
  sms: () => ({
    ...somebody(),
    channel: "sms",
    phoneNumber: `+1555010${String(10 + people)}`,
    smsIntroduction: "Hi",
  }),
  voice: () => ({
    ...somebody(),
    channel: "voice",
    phoneNumber: `+1555010${String(10 + people)}`,
    firstMessage: "Hi",
  }),
};

async function opened(call: Driver): Promise<string> {
  const { status, body } = await call("conversations.start", { body: starts.email() });
  expect([status, problems("conversation start", body)]).toEqual([200, []]);
  return body.conversationId as string;
}

describe.each(Object.entries(drivers))("through %s:", (_name, driver) => {
  const call = driver(target);

  test.each(Object.entries(starts))("a conversation starts by %s, with all fields", async (channel, make) => {
    const body = {
      ...make(),
      context: "A customer",
      conversationContext: "About lamps",
      source: "crm",
      fkId: `conformance-${run}-${channel}-${people}`,
      fkUserId: "family",
      customData: { plan: "gold" },
      skipPhoneNumberValidation: true,
      skipEmailValidation: true,
    };
    const started = await call("conversations.start", { body });
    expect([started.status, problems("conversation start", started.body)]).toEqual([200, []]);
    const got = await call("conversations.get", { id: started.body.conversationId });
    expect([got.status, problems("conversation", got.body)]).toEqual([200, []]);
    expect(got.body.user).toMatchObject({
      firstName: "Jo",
      lastName: "Doe",
      context: "A customer",
      source: "crm",
      fkId: body.fkId,
      fkUserId: "family",
      metadata: { customData: { plan: "gold" } },
    });
  });

  test.each([
    ["no channel", { channel: undefined }],
    ["a channel that starts nothing", { channel: "api" }],
    ["no first name", { firstName: undefined }],
    ["no last name", { lastName: undefined }],
    ["a name of another type", { firstName: 7 }],
    ["no address", { email: undefined }],
    ["no subject", { emailSubject: undefined }],
    ["no introduction", { emailIntroduction: undefined }],
  ])("does not start with %s", async (_what, over) => {
    expect(await call("conversations.start", { body: { ...starts.email(), ...over } })).toMatchObject({
      status: 400,
    });
  });

  test("a reset opens a new one, in place of the current one", async () => {
    const body = starts.email();
    const first = (await call("conversations.start", { body })).body.conversationId;
    expect((await call("conversations.start", { body })).body.conversationId).toBe(first);
    const reset = await call("conversations.start", { body: { ...body, resetConversation: true } });
    expect(reset.body.conversationId).not.toBe(first);
  });

  test("a message is answered in the same call, and both are listed in order", async () => {
    const id = await opened(call);
    const reply = await call("conversations.send", {
      id,
      body: { message: "Are you open?", context: "At night" },
    });
    expect([reply.status, problems("message", reply.body)]).toEqual([200, []]);
    expect(reply.body).toMatchObject({ conversationId: id, senderRole: "assistant", source: "api" });
    expect(reply.body.message).not.toBe("");
    const listed = await call("conversations.messages", { id });
    const { messages } = listed.body;
    expect([listed.status, messages.flatMap((each: unknown) => problems("message", each))]).toEqual([200, []]);
    const question = messages.find(({ message }: { message: string }) => message === "Are you open?");
    expect(question).toMatchObject({ senderRole: "conversation_user", conversationMessageId: question.id });
    expect(reply.body.conversationMessageId).toBe(question.id);
    expect(messages.at(-1).id).toBe(reply.body.id);
    const backwards = await call("conversations.messages", { id, query: { orderDirection: "DESC" } });
    const ids = (list: { id: string }[]) => list.map((each) => each.id);
    expect(ids(backwards.body.messages)).toEqual(ids(messages).toReversed());
    const judged = await call("conversations.messages", { id, query: { shouldIncludeFeedbacks: "true" } });
    expect(judged.body.messages.flatMap((each: unknown) => problems("message", each))).toEqual([]);
    for (const each of judged.body.messages) expect(each).toHaveProperty("conversationMessageFeedbacks");
  });

  test("in manual mode a person answers, and only then", async () => {
    const id = await opened(call);
    const body = { message: "From a colleague." };
    expect(await call("conversations.sendManual", { id, body })).toMatchObject({ status: 400 });
    const manual = await call("conversations.setMode", { id, body: { mode: "manual" } });
    expect([manual.status, problems("conversation", manual.body), manual.body.mode]).toEqual([200, [], "manual"]);
    const asked = await call("conversations.send", { id, body: { message: "Hello?" } });
    expect([asked.status, problems("message", asked.body)]).toEqual([200, []]);
    expect(asked.body.senderRole).toBe("conversation_user");
    const said = await call("conversations.sendManual", { id, body });
    expect([said.status, problems("message", said.body)]).toEqual([200, []]);
    expect(said.body).toMatchObject({ ...body, senderRole: "manual_assistant" });
    expect((await call("conversations.setMode", { id, body: { mode: "ai" } })).body.mode).toBe("ai");
    expect((await call("conversations.send", { id, body: { message: "And now?" } })).body.senderRole).toBe("assistant");
  });

  test("a message without a waiting request is answered soon", async () => {
    const id = await opened(call);
    const asked = await call("conversations.sendAsync", { id, body: { message: "Later?" } });
    expect([asked.status, problems("message", asked.body)]).toEqual([200, []]);
    expect(asked.body.senderRole).toBe("conversation_user");
    const ask = { id, messageId: asked.body.id as string };
    await expect.poll(async () => (await call("conversations.response", ask)).body.status).toBe("completed");
    const { body } = await call("conversations.response", ask);
    expect(problems("response on", body)).toEqual([]);
    expect(body.message).toMatchObject({ senderRole: "assistant", conversationMessageId: ask.messageId });
  });

  test("a message carries a file that went up and comes down by signed addresses", async () => {
    const id = await opened(call);
    const announced = { fileName: "lamp.txt", contentType: "text/plain" };
    const up = await call("conversations.uploadUrl", { id, body: announced });
    expect([up.status, problems("upload address", up.body)]).toEqual([200, []]);
    const put = await fetch(up.body.signedUrl, { method: "PUT", body: "Seven kilograms." });
    expect(put.ok).toBe(true);
    const files = [{ fileName: "lamp.txt", storagePath: up.body.storagePath as string }];
    await call("conversations.send", { id, body: { message: "What does it weigh?", files } });
    const { messages } = (await call("conversations.messages", { id })).body;
    const question = messages.find((each: { files?: object[] }) => each.files?.length === 1);
    expect(problems("message", question)).toEqual([]);
    const down = await call("conversations.fileUrl", { id, fileId: question.files[0].id });
    expect([down.status, problems("download address", down.body)]).toEqual([200, []]);
    expect(await (await fetch(down.body.signedUrl)).text()).toBe("Seven kilograms.");
  });

  test("a conversation is opened for a person, changed, listed and found", async () => {
    const user = (await call("users.create", { body: somebody() })).body;
    const given = { conversationUserId: user.id, context: "c".repeat(256_000), customData: { a: 1 } };
    const made = await call("conversations.create", { body: { ...given, title: "t".repeat(255) } });
    expect([made.status, problems("conversation", made.body)]).toEqual([200, []]);
    expect(made.body).toMatchObject({
      title: "t".repeat(255),
      user: { id: user.id },
      metadata: { customData: { a: 1 } },
    });
    const { id } = made.body;
    const changed = await call("conversations.update", {
      id,
      body: { title: `Lamps ${run}`, status: "inactive" },
    });
    expect([changed.status, problems("conversation", changed.body)]).toEqual([200, []]);
    expect(changed.body).toMatchObject({ id, title: `Lamps ${run}` });
    for (const query of [
      { userId: user.id as string },
      {
        searchKeyword: `lamps ${run}`,
        userId: user.id as string,
        orderBy: "updatedAt",
        orderDirection: "DESC",
      },
      { userId: user.id as string, startDate: "2020-01-01T00:00:00Z", endDate: "2999-01-01T00:00:00Z" },
    ]) {
      const { status, body } = await call("conversations.list", { query });
      expect([status, problems("page", body), body.data.length]).toEqual([200, [], 1]);
      expect(problems("conversation", body.data[0])).toEqual([]);
      expect(body.data[0].id).toBe(id);
    }
    for (const query of [
      { userId: user.id as string, endDate: "2020-01-01T00:00:00Z" },
      { userId: user.id as string, searchKeyword: "chairs" },
      { userId: user.id as string, withFeedbacksOnly: "true" },
    ])
      expect([query, (await call("conversations.list", { query })).body.totalItems]).toEqual([query, 0]);
  });

  test.each([
    ["a title beyond 255", { title: "t".repeat(256) }],
    ["a context beyond 256,000", { context: "c".repeat(256_001) }],
    ["no such status", { status: "sleeping" }],
  ])("%s is refused", async (_what, body) => {
    const id = await opened(call);
    expect(await call("conversations.update", { id, body })).toMatchObject({ status: 400 });
  });

  test("states are the organization's", async () => {
    const { status, body } = await call("conversations.states");
    expect([status, problems("page", body)]).toEqual([200, []]);
    expect(body.data.flatMap((each: unknown) => problems("conversation state", each))).toEqual([]);
    const [state] = body.data;
    if (!state) return;
    const id = await opened(call);
    const marked = await call("conversations.update", { id, body: { conversationStateId: state.id } });
    expect(marked.body.conversationStateId).toBe(state.id);
  });

  test("a person is known once, found by each of three names, and forgotten with everything", async () => {
    const by = { fkId: `conformance-${run}-${people}`, phoneNumber: `+15550${1000 + people}`, ...somebody() };
    const made = await call("users.create", {
      body: { ...by, context: "VIP", source: "crm", fkUserId: "f" },
    });
    expect([made.status, problems("agent user", made.body)]).toEqual([200, []]);
    expect(made.body).toMatchObject({
      ...by,
      context: "VIP",
      source: "crm",
      fkUserId: "f",
      isAnonymized: false,
    });
    expect(await call("users.create", { body: by })).toMatchObject({ status: 400 });
    const { id } = made.body;
    const conversation = await call("conversations.create", { body: { conversationUserId: id } });
    for (const name of ["fkId", "email", "phoneNumber"] as const) {
      const { status, body } = await call("users.search", { query: { [name]: by[name] } });
      expect([status, problems("user search", body)]).toEqual([200, []]);
      expect(body).toMatchObject({ user: { id }, conversationIds: [conversation.body.id] });
    }
    expect((await call("users.get", { id })).body).toEqual(made.body);
    expect(await call("users.delete", { id })).toMatchObject({ status: 200 });
    expect(await call("users.get", { id })).toMatchObject({ status: 404 });
    expect(await call("users.search", { query: { fkId: by.fkId } })).toMatchObject({ status: 404 });
    expect(await call("conversations.get", { id: conversation.body.id })).toMatchObject({ status: 404 });
  });

  test.each([
    ["no identifier", { firstName: "Jo", lastName: "Doe" }],
    ["no name", { fkId: "conformance-nameless" }],
    ["an identifier of another type", { firstName: "Jo", lastName: "Doe", fkId: 7 }],
  ])("a person with %s is refused", async (_what, body) => {
    expect(await call("users.create", { body })).toMatchObject({ status: 400 });
  });

  test("all conversations of a person can be removed", async () => {
    const id = await opened(call);
    const { conversationUserId } = (await call("conversations.get", { id })).body;
    expect(await call("conversations.deleteAll", { body: { conversationUserId } })).toMatchObject({
      status: 200,
    });
    expect(await call("conversations.get", { id })).toMatchObject({ status: 404 });
    expect(await call("users.get", { id: conversationUserId })).toMatchObject({ status: 200 });
    expect(await call("conversations.deleteAll", { body: {} })).toMatchObject({ status: 400 });
  });
});

test("the list of messages is a page as well, for those who expect every list to be one", async () => {
  const call = drivers["plain requests"](target);
  const { body } = await call("conversations.messages", { id: await opened(call) });
  expect(problems("page", body)).toEqual([]);
  expect(body.data).toEqual(body.messages);
});
