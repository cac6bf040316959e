import { describe, expect, it } from "vitest";
import { readPayload } from "../../../src/escalation/platform-webhook/decide.ts";

describe("the conversation is found wherever it is named", () => {
  const named = [
    { conversationId: "p" },
    { conversation_id: "p" },
    { "conversation-id": "p" },
    { ConversationID: "p" },
    { conversation: { id: "p" } },
    { conversation: "p" },
    { conversation: { conversationId: "p" } },
    { data: { conversationId: "p" } },
    { data: { conversation: { id: "p" } } },
    { message: { conversationId: "p", id: "m" } },
    { event: { payload: { data: { conversation_id: "p" } } } },
    [{ conversationId: "p" }],
    { conversationId: null, conversation_id: "p" },
    { conversationId: " p " },
    // The nearest to the root counts.
    { messages: [{ conversationId: "q" }], data: { conversationId: "p" } },
  ];
  for (const payload of named)
    it(JSON.stringify(payload), () => {
      expect(readPayload(JSON.stringify(payload)).conversation).toBe("p");
    });

  const forms = ["conversationId=p&a=b", "a=b&conversation_id=p", "payload=%7B%22conversationId%22%3A%22p%22%7D"];
  for (const form of forms) it(form, () => expect(readPayload(form).conversation).toBe("p"));

  it("a number is an id, too", () => {
    expect(readPayload('{"conversationId":417}').conversation).toBe("417");
  });
});

it.each(["user", "customer", "contact", "conversationUser", "person"])("finds the person in %s", (name) => {
  const payload = { conversationId: "c", target: { name: "no person" }, [name]: { name: "Anna" } };
  expect(readPayload(JSON.stringify(payload)).person).toBe("Anna");
});

it("finds topic, reason, text and person", () => {
  const own = {
    conversationId: "c",
    messageId: "m",
    message: "I want my money",
    escalation: { topic: "refund", response: "A colleague ...", reason: "angry" },
    user: { id: "u", firstName: "Anna", lastName: null, email: "anna@example.org" },
    agent: { name: "support" },
    messages: [{ message: "Hello" }],
  };
  expect(readPayload(JSON.stringify(own))).toEqual({
    conversation: "c",
    topic: "refund",
    reason: "angry",
    message: "I want my money",
    person: "Anna, anna@example.org",
  });
  const other = {
    event: { type: "escalated", escalation: "billing", text: "help", customer: { name: "Bo", phone: 4711 } },
  };
  expect(readPayload(JSON.stringify(other))).toEqual({
    conversation: null,
    topic: "billing",
    reason: null,
    message: "help",
    person: "Bo, 4711",
  });
});

it("never throws, and leaves one line of any payload", () => {
  const odd = [
    "",
    "null",
    "417",
    '"text"',
    "[]",
    "{",
    "=",
    "%%%=%%%",
    "a=%E0%A4%A",
    "\u0000\u0001",
    "[".repeat(1_000_000),
    `{"a":${"[".repeat(5000)}${"]".repeat(5000)}}`,
    '{"__proto__":{"conversationId":"p"},"constructor":1,"toString":2}',
    JSON.stringify({ conversationId: { deep: {} }, topic: [], reason: {}, message: false, user: "me" }),
    JSON.stringify({ topic: "a\u0000b\ud800\nc", reason: "x".repeat(100_000) }),
    JSON.stringify(Array.from({ length: 20_000 }, (_, i) => ({ id: i }))),
    `<xml>${"y".repeat(10_000)}</xml>`,
  ];
  for (const body of odd) {
    const payload = readPayload(body);
    for (const text of Object.values(payload)) {
      if (text === null) continue;
      expect(text.length).toBeLessThanOrEqual(500);
      expect(text).not.toMatch(/\p{Cc}/u);
      expect(text.isWellFormed()).toBe(true);
    }
  }
  expect(readPayload('{"topic":"a\\u0000b\\nc"}').topic).toBe("a b c");
  expect(readPayload("help me\nplease").message).toBe("help me please");
});
