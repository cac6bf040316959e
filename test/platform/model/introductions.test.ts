// A text or call that the agent opens: its introduction is its first message.

import { expect, it } from "vitest";
import { readAgents } from "../../../src/platform/index.ts";
import { message } from "../../../src/wire/conversation.ts";
import { startByEmail, startTestPlatform, startWith } from "../../support/platform/platform.ts";

const person = { firstName: "Ann", lastName: "Berg", phoneNumber: "+15550111" };
const starts = {
  sms: { ...person, channel: "sms", smsIntroduction: "Hello from Acme." },
  voice: { ...person, channel: "voice", firstMessage: "Hello, this is Acme." },
};

it.each(Object.entries(starts))("by %s is stored as the agent's message", async (channel, start) => {
  const { call } = await startTestPlatform();
  const { body } = await call("POST", "conversations/start", start);
  const said = await call("GET", `conversations/${body.conversationId}/messages`);
  const words = channel === "sms" ? "Hello from Acme." : "Hello, this is Acme.";
  expect(said.body.messages).toEqual([expect.objectContaining({ senderRole: "assistant", message: words })]);
  expect(message.exact.safeParse(said.body.messages[0]).error).toBeUndefined();
  await call("POST", `conversations/${body.conversationId}/messages`, { message: "I want a refund" });
  const after = await call("GET", `conversations/${body.conversationId}/messages?orderDirection=ASC`);
  expect(after.body.messages.map((one: { senderRole: string }) => one.senderRole)).toEqual([
    "assistant",
    "conversation_user",
    "assistant",
  ]);
});

it("says nothing where there is nothing to say, and nothing twice", async () => {
  const { call } = await startTestPlatform();
  const mute = await call("POST", "conversations/start", { ...starts.sms, smsIntroduction: "" });
  const again = await call("POST", "conversations/start", starts.sms);
  expect(again.body).toEqual(mute.body);
  const said = await call("GET", `conversations/${mute.body.conversationId}/messages`);
  expect(said.body.messages).toEqual([]);
  const anew = await call("POST", "conversations/start", { ...starts.sms, resetConversation: true });
  const first = await call("GET", `conversations/${anew.body.conversationId}/messages`);
  expect(first.body.messages).toHaveLength(1);
});

it("leaves a mail's introduction to its first answer", async () => {
  const { call } = await startTestPlatform();
  const { body } = await call("POST", "conversations/start", startByEmail("ann@example.test"));
  expect((await call("GET", `conversations/${body.conversationId}/messages`)).body.messages).toEqual([]);
});

it("reads skills for texts and calls from the agents' file", async () => {
  const key = "phone-key-1";
  const agents = readAgents(
    `
organization: { name: Acme }
agents:
  phone:
    key: ${key}
    skills:
      sms: { phoneNumber: "+15550100", defaultSmsIntroduction: { en: Hello }, smsSignature: "- Ada" }
      voice: { firstMessage: { en: Good day } }
`,
    "agents.yaml",
  );
  const { call } = await startWith({ agents });
  const { body } = await call("GET", "agents/by-api-key", undefined, key);
  expect(body.skills).toMatchObject([
    { systemName: "SMS", defaultSmsIntroduction: { en: "Hello" }, smsSignature: { text: "- Ada" } },
    { systemName: "VOICE", status: "active", firstMessage: { en: "Good day" } },
    { systemName: "API" },
  ]);
});
