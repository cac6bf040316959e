// The daemon's own client against the embedded platform: the two ends of one interface.

import { describe, expect, test } from "vitest";
import { startClient } from "../support/client/client.ts";
import { keys, startTestPlatform } from "../support/platform/platform.ts";

const noIds = new Set<string>();
const request = {
  firstName: "Jo",
  lastName: "Doe",
  channel: "email",
  email: "jo@example.test",
  fkId: "jo@example.test",
  emailSubject: "S",
  emailIntroduction: "I",
} as const;

async function connected(over: Parameters<typeof startTestPlatform>[0] = {}, key: string = keys.support) {
  const fixture = await startTestPlatform(over);
  return { ...fixture, ...startClient(fixture.platform.url, 5_000, key) };
}

test("describe reads the settings, with nothing to complain about", async () => {
  const { client, signal, warnings } = await connected();
  expect(await client.describe(signal)).toMatchObject({
    kind: "ok",
    value: {
      name: "Acme Support",
      status: "active",
      email: {
        status: "active",
        responseDelaySeconds: 5,
        signature: "Ada\nAcme",
        senderName: "Ada from Acme",
        defaultSubject: null,
        address: "support@acme.test",
      },
      sms: { signature: "- Ada", address: "+15550100" },
      voice: null,
    },
  });
  expect(warnings).toEqual([]);
});

const more = async () => true;

test("start, ask, look up", async () => {
  const { client, signal, effect, warnings } = await connected();
  const started = await client.start(request, effect());
  if (started.kind !== "ok") return expect.fail(started.reason);
  const id = started.value.conversationId;
  const answer = await client.ask(id, { text: "A refund,\nplease" }, effect());
  if (answer.kind !== "ok") return expect.fail(answer.reason);
  expect(answer.value).toMatchObject({ text: "Refunds take five days.", questionId: expect.any(String) });
  expect(await client.lookUp(id, { text: "A refund, please", knownIds: noIds }, { signal, more })).toEqual({
    kind: "ok",
    value: { state: "answered", answer: answer.value },
  });
  const earlier = new Set([answer.value.questionId ?? "", answer.value.replyId ?? ""]);
  const absent = { kind: "ok", value: { state: "absent" } };
  expect(await client.lookUp(id, { text: "A refund, please", knownIds: earlier }, { signal, more })).toEqual(absent);
  expect(await client.findConversations("jo@example.test", signal)).toEqual({ kind: "ok", value: [id] });
  expect(warnings).toEqual([]);
});

describe("create", () => {
  const { channel: _channel, emailSubject: _subject, emailIntroduction: _introduction, ...person } = request;

  test("opens a conversation of its own each time, with one person", async () => {
    const { client, signal, effect } = await connected();
    const first = await client.create(person, effect());
    const second = await client.create(person, effect());
    if (first.kind !== "ok" || second.kind !== "ok") return expect.fail("not created");
    expect(await client.findConversations("jo@example.test", signal)).toEqual({
      kind: "ok",
      value: [first.value.conversationId, second.value.conversationId],
    });
  });

  test("says why not", async () => {
    const { client, effect } = await connected();
    expect(await client.create({ ...person, email: "nobody" }, effect())).toMatchObject({
      kind: "refused",
      status: 400,
    });
  });
});

test("manual mode: the question comes back, then is pending, then answered by a person", async () => {
  const { client, signal, effect, call, open } = await connected();
  const id = await open();
  expect(await client.mode(id, signal)).toEqual({ kind: "ok", value: "ai" });
  await call("PUT", `conversations/${id}/mode`, { mode: "manual" });
  expect(await client.mode(id, signal)).toEqual({ kind: "ok", value: "manual" });
  const asked = await client.ask(id, { text: "refund" }, effect());
  expect(asked).toMatchObject({ kind: "ok", value: { text: null, replyId: null } });
  const past = { text: "refund", knownIds: noIds };
  expect(await client.lookUp(id, past, { signal, more })).toMatchObject({ value: { state: "pending" } });
  await call("POST", `conversations/${id}/send-manual-message`, { message: "From a person." });
  expect(await client.lookUp(id, past, { signal, more })).toMatchObject({
    value: { state: "answered", answer: { text: "From a person." } },
  });
});

test("refusals come back as what they are", async () => {
  const wrong = await connected({}, "wrong-key");
  expect(await wrong.client.describe(wrong.signal)).toMatchObject({ kind: "unauthorized" });
  const { client, signal, effect } = await connected({ rate: { requests: 1, perSeconds: 60 } });
  expect(await client.ask("none", { text: "hi" }, effect())).toMatchObject({ kind: "missing" });
  const limited = await client.mode("none", signal);
  expect(limited).toMatchObject({ kind: "deferred", limited: true });
  expect((limited as { retryAfterMs?: number }).retryAfterMs).toBeGreaterThan(50_000);
});
