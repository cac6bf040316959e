// After an unknown outcome the messages are read back: is the question there, and is its answer?

import { describe, expect, test } from "vitest";
import { messageRecord, startAgentClient } from "../support/client/client.ts";
import { entityNotFound, json, status } from "../support/machine/network.ts";

const asked = (id: string, text: string, over: object = {}) => messageRecord(id, "conversation_user", text, over);
const replied = (id: string, to: string, text: string, over: object = {}) =>
  messageRecord(id, "assistant", text, { conversationMessageId: to, ...over });

async function lookUp(body: unknown, text: string, known: readonly string[] = []) {
  const { client, server, reading } = await startAgentClient();
  server.script(json(body));
  const result = await client.lookUp("c-1", { text, knownIds: new Set(known) }, reading);
  expect(server.received[0]?.path).toBe("/external/conversations/c-1/messages?page=1&pageSize=64&orderDirection=ASC");
  return result.kind === "ok" ? result.value : result;
}

describe("the question", () => {
  test("is absent from an empty conversation and among others", async () => {
    expect(await lookUp({ messages: [] }, "Hello?")).toEqual({ state: "absent" });
    expect(await lookUp({ messages: [asked("q-1", "Hello!")] }, "Hello?")).toEqual({ state: "absent" });
  });

  test("is pending without an answer", async () => {
    expect(await lookUp({ messages: [asked("q-1", "Hello?")] }, "Hello?")).toEqual({
      state: "pending",
      questionId: "q-1",
    });
  });

  test("is recognised with changed white space, or in the raw message", async () => {
    const squeezed = asked("q-1", "Hello there, you?");
    expect(await lookUp({ messages: [squeezed] }, " Hello\r\nthere,   you?\n")).toMatchObject({
      questionId: "q-1",
    });
    const raw = asked("q-2", "Hi", { rawMessage: "Hello?" });
    expect(await lookUp({ messages: [raw] }, "Hello?")).toMatchObject({ questionId: "q-2" });
  });

  test("of an earlier turn does not count, nor does the agent's text", async () => {
    const messages = [asked("q-1", "Hello?"), replied("a-1", "q-1", "Hello?")];
    expect(await lookUp({ messages }, "Hello?", ["q-1", "a-1"])).toEqual({ state: "absent" });
  });

  test("is the newest of two with the same text", async () => {
    const messages = [asked("q-1", "Hello?"), replied("a-1", "q-1", "One"), asked("q-2", "Hello?")];
    expect(await lookUp({ messages }, "Hello?", ["q-1", "a-1"])).toEqual({
      state: "pending",
      questionId: "q-2",
    });
  });
});

describe("the answer", () => {
  const answered = (questionId: string, replyId: string, text: string) => ({
    state: "answered",
    answer: { questionId, replyId, text },
  });

  test("is the reply that names the question, wherever it stands", async () => {
    const messages = [
      asked("q-1", "A"),
      asked("q-2", "B"),
      replied("a-2", "q-2", "to B"),
      replied("a-1", "q-1", "to A"),
    ];
    expect(await lookUp({ messages }, "A")).toEqual(answered("q-1", "a-1", "to A"));
    expect(await lookUp({ messages: messages.toReversed() }, "A")).toEqual(answered("q-1", "a-1", "to A"));
  });

  test("may come from a person", async () => {
    const human = messageRecord("h-1", "manual_assistant", "Me here", { conversationMessageId: "q-1" });
    expect(await lookUp({ messages: [asked("q-1", "A"), human] }, "A")).toEqual(answered("q-1", "h-1", "Me here"));
  });

  test("may name nothing: then it is the next reply", async () => {
    const messages = [asked("q-1", "A"), replied("a-1", "a-1", "One"), replied("a-2", "a-2", "Two")];
    expect(await lookUp({ messages }, "A")).toEqual(answered("q-1", "a-1", "One"));
    expect(await lookUp({ messages }, "A", ["a-1"])).toEqual(answered("q-1", "a-2", "Two"));
  });

  test("of another question is not adopted", async () => {
    const messages = [asked("q-1", "A"), asked("q-2", "B"), replied("a-2", "q-2", "to B")];
    expect(await lookUp({ messages }, "A")).toEqual({ state: "pending", questionId: "q-1" });
  });
});

describe("the list", () => {
  const messages = [asked("q-1", "A"), replied("a-1", "q-1", "One")];

  test("may be a page or a bare array", async () => {
    expect(await lookUp({ currentPage: 1, data: messages }, "A")).toMatchObject({ state: "answered" });
    expect(await lookUp(messages, "A")).toMatchObject({ state: "answered" });
  });

  test("without times keeps the platform's order", async () => {
    const timeless = messages.map((message) => ({ ...message, createdAt: undefined }));
    expect(await lookUp({ messages: timeless }, "A")).toMatchObject({ state: "answered" });
  });

  test("may have messages without a text", async () => {
    const textless = [
      { ...asked("f-1", ""), message: null },
      { ...asked("f-2", ""), message: undefined },
    ];
    expect(await lookUp({ messages: [...textless, ...messages] }, "A")).toMatchObject({ state: "answered" });
  });

  test("that cannot be read is not an empty one", async () => {
    expect(await lookUp({ items: messages }, "A")).toMatchObject({ kind: "unknown" });
    expect(await lookUp({ messages: [{ id: 1 }] }, "A")).toMatchObject({
      kind: "unknown",
      reason: expect.stringContaining("data.0.id"),
    });
  });

  test("that is refused or missing says so", async () => {
    const { client, server, reading } = await startAgentClient();
    server.script(entityNotFound, status(503));
    const question = { text: "A", knownIds: new Set<string>() };
    expect(await client.lookUp("c-1", question, reading)).toMatchObject({ kind: "missing" });
    expect(await client.lookUp("c-1", question, reading)).toMatchObject({ kind: "unknown" });
  });
});
