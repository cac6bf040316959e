// Escalations: what triggers them, their effect on the turn and the conversation, and their recipients.

import { describe, expect, test } from "vitest";
import type { EscalationDefinition } from "../../src/platform/agents/definition.ts";
import { speaksOf } from "../../src/platform/conversations/escalations.ts";
import { readAgents } from "../../src/platform/index.ts";
import { webhookDelivery } from "../../src/wire/webhook.ts";
import { receiver, saying, startModel, startWith } from "../support/platform/platform.ts";

const key = "support-key-1";

async function escalating(recipients: string, more = "") {
  const text = `
organization: { name: Acme }
agents:
  support:
    key: ${key}
    rules: [{ when: "lawyer|lamp", answer: "By rule." }]
    skills:
      escalation:
        escalations:
          - topic: lawyer
            escalationPrompt: The person wants to speak to a human or a manager.
            autoChangeConversationMode: true
            response: A colleague will answer you.
            recipients: ${recipients}
          - topic: "/order \\\\d+ is (late|lost)/"
            escalationPrompt: ""
            autoChangeConversationMode: false
            response: We look for it.
            recipients: []
    ${more}
`;
  const platform = await startWith({ agents: readAgents(text, "a.yaml"), allowPrivateWebhooks: true });
  const id = await platform.open("jo@people.test", key);
  const say = async (message: string) =>
    (await platform.call("POST", `conversations/${id}/messages`, { message }, key)).body;
  const get = async (path: string) => (await platform.call("GET", path, undefined, key)).body;
  return { ...platform, id, say, get };
}

describe("a message calls for one", () => {
  const escalation = (topic: string, prompt: string): EscalationDefinition => ({
    topic,
    prompt,
    toManual: false,
    response: "",
    recipients: [],
  });
  const human = "The customer asks to speak to a human or a manager.";

  test.each([
    ["refund|money back", "", "I want my MONEY  back", true],
    ["refund", "", "a refundable ticket", false],
    ["/order \\d+/", "", "order 12 is late", true],
    ["human", human, "can I speak to your manager", true],
    ["anger", human, "what does it cost", false],
    ["anger", human, "my manager said so", false],
    ["anger", "lawyer|court", "I will see you in court", true],
    ["anger", "", "", false],
  ])("%s, %j: %j is %s", (topic, prompt, text, expected) => {
    expect(speaksOf(escalation(topic, prompt), text)).toBe(expected);
  });
});

test("the turn is answered with the response, and the conversation is a human's from then on", async () => {
  const { id, say, get } = await escalating("[]");
  expect(await say("my lawyer will write")).toMatchObject({
    senderRole: "assistant",
    message: "A colleague will answer you.",
  });
  expect(await get(`conversations/${id}`)).toMatchObject({ mode: "manual" });
  // The next one waits for the human, and is no second escalation.
  expect(await say("my lawyer, I said")).toMatchObject({ senderRole: "conversation_user" });
  expect((await get("agents/escalations")).totalItems).toBe(1);
});

test("one that leaves the mode alone may happen again", async () => {
  const { id, say, get } = await escalating("[]");
  expect((await say("order 12 is late")).message).toBe("We look for it.");
  expect((await say("a lamp")).message).toBe("By rule.");
  expect((await say("order 12 is lost")).message).toBe("We look for it.");
  expect(await get(`conversations/${id}`)).toMatchObject({ mode: "ai" });
  expect((await get("agents/escalations")).totalItems).toBe(2);
});

test("every recipient is recorded, and a webhook is sent at once, signed, with its headers", async () => {
  const hook = await receiver();
  const webhook = `{ channel: webhook, value: "${hook.url}", headers: { Authorization: Bearer token } }`;
  const people = `{ channel: email, value: boss@acme.test }, { channel: sms, value: "+15550109" }`;
  const { id, say, get } = await escalating(`[${webhook}, ${people}]`);
  const answer = await say("I want to speak to a human");
  await expect.poll(() => hook.got.length).toBe(1);
  const [told] = hook.got;
  expect(webhookDelivery.exact.safeParse(told?.body).error).toBeUndefined();
  expect(told?.body).toMatchObject({
    triggerCondition: "escalation",
    conversationId: id,
    message: "A colleague will answer you.",
    conversation: { mode: "manual" },
    user: { email: "jo@people.test" },
    escalation: { topic: "lawyer", messageId: answer.conversationMessageId },
  });
  expect(told?.body.messages).toHaveLength(2);
  expect(told?.headers).toMatchObject({
    authorization: "Bearer token",
    "webhook-signature": expect.stringMatching(/^v1,/),
  });
  const state = async () => (await get("agents/escalations")).data[0];
  await expect.poll(async () => (await state()).notifications[0].state).toBe("delivered");
  expect(await state()).toMatchObject({
    conversationId: id,
    messageId: answer.conversationMessageId,
    topic: "lawyer",
    notifications: [
      { channel: "webhook", value: hook.url },
      { channel: "email", value: "boss@acme.test", state: "stored" },
      { channel: "sms", value: "+15550109", state: "stored" },
    ],
  });
  // A recipient is no webhook that lists show.
  expect((await get("agents/webhooks")).data).toEqual([]);
});

test("what is forgotten with a person leaves no escalation behind", async () => {
  const { id, say, get, call } = await escalating("[]");
  await say("a lawyer");
  const { conversationUserId } = await get(`conversations/${id}`);
  expect((await call("DELETE", "conversations", { conversationUserId }, key)).status).toBe(204);
  expect((await get("agents/escalations")).totalItems).toBe(0);
});

describe("a model", () => {
  const answer = '{"text":"From the model."}';
  /** Says `verdict` when asked for one, and `answer` otherwise. */
  async function judging(verdict: string) {
    const model = await startModel();
    model.say((response) => {
      const asked = model.asked.at(-1)?.messages[0]?.content ?? "";
      return saying(/one word: yes or no/.test(asked) ? verdict : answer)(response);
    });
    const block = `model: { url: "${model.url}", name: tiny, output_json_schema: { type: object } }`;
    return { model, ...(await escalating("[]", block)) };
  }
  const verdicts = (asked: readonly { messages: readonly { content: string }[] }[]) =>
    asked.filter(({ messages }) => messages[0]?.content.includes("yes or no"));

  test("that returns yes escalates, with any text", async () => {
    const { say, model } = await judging("Yes.");
    expect((await say("hm")).message).toBe("A colleague will answer you.");
    const asked = verdicts(model.asked);
    expect(asked).toHaveLength(2);
    expect(asked[0]?.messages[0]?.content).toContain("speak to a human or a manager");
    expect(asked[0]?.messages[1]?.content).toBe("hm");
    // The schema of its answers is not one of verdicts.
    expect(asked[0]).not.toHaveProperty("response_format");
  });

  test("that returns no does not, with any text", async () => {
    const { say, get } = await judging("no");
    expect((await say("what does a manager and a human cost?")).message).toBe(answer);
    expect((await get("agents/escalations")).totalItems).toBe(0);
  });

  test("that returns neither leaves the decision to the keywords", async () => {
    const { say } = await judging("perhaps");
    expect((await say("my lawyer")).message).toBe("A colleague will answer you.");
  });

  test("reads a bounded part of the message", async () => {
    const { say, model } = await judging("no");
    await say("x".repeat(100_000));
    expect(verdicts(model.asked)[0]?.messages[1]?.content).toHaveLength(4_000);
  });
});
