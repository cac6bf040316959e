// What the platform stores about conversations: scores, memories and texts, and for how long.

import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { readAgents } from "../../src/platform/index.ts";
import { receiver, saying, startByEmail, startModel, startWith } from "../support/platform/platform.ts";

const key = "support-key-1";
const day = 86_400_000;

/** A platform whose dialogs end after `endAfter`, in a time that can be moved. */
async function keeping(skills: string, more = "", endAfter = 100) {
  let ahead = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const text = `
organization: { name: Acme }
agents:
  support:
    key: ${key}
    skills: ${skills}
    ${more}
`;
  const patience = { endAfter, archiveAfter: 1_000 * day };
  const agents = readAgents(text, "a.yaml");
  const platform = await startWith({ agents, allowPrivateWebhooks: true, clock, patience });
  const say = async (id: string, message: string) =>
    (await platform.call("POST", `conversations/${id}/messages`, { message }, key)).body;
  const get = async (path: string) => (await platform.call("GET", path, undefined, key)).body;
  const post = async (path: string, body: object) => (await platform.call("POST", path, body, key)).body;
  return { ...platform, say, get, post, later: (ms: number) => void (ahead += ms) };
}

describe("a score", () => {
  const skill = `{ scoring: { scoringPrompt: "Was the person glad?" } }`;
  async function scored(verdict: string) {
    const model = await startModel();
    model.say((response) => {
      const asked = model.asked.at(-1)?.messages[0]?.content ?? "";
      return saying(asked.startsWith("You judge") ? verdict : "Hello.")(response);
    });
    const hook = await receiver();
    const more = [
      `model: { url: "${model.url}", name: tiny }`,
      `webhooks: [{ title: T, url: "${hook.url}", trigger: end_dialog }]`,
    ];
    const fixture = await keeping(skill, more.join("\n    "));
    const id = await fixture.open("jo@people.test", key);
    await fixture.say(id, "Thanks a lot!");
    await expect.poll(() => hook.got.length).toBe(1);
    return { fixture, id, model, delivered: hook.got[0]?.body };
  }

  test("is the model's, from the messages, sent with the dialog's end and with the conversation", async () => {
    const { fixture, id, model, delivered } = await scored("8");
    const judged = model.asked.filter(({ messages }) => messages[0]?.content.startsWith("You judge"));
    expect(judged).toHaveLength(1);
    expect(judged[0]?.messages[0]?.content).toContain("Was the person glad?");
    expect(judged[0]?.messages[1]?.content).toBe("Person: Thanks a lot!\nAgent: Hello.");
    expect(delivered).toMatchObject({ triggerCondition: "end_dialog", score: 8 });
    expect(await fixture.get(`conversations/${id}`)).toMatchObject({ score: 8 });
  });

  test.each([
    ["Score: 7.5/10", 7.5],
    ["0", 0],
    ["eleven", null],
    ["11", null],
    ["100", null],
  ])("%j is %j", async (verdict, score) => {
    const { fixture, id, delivered } = await scored(verdict);
    expect(delivered.score).toBe(score);
    expect((await fixture.get(`conversations/${id}`)).score).toBe(score ?? undefined);
  });

  test("that fails does not delay a dialog's end, and is absent without a model", async () => {
    const hook = await receiver();
    const webhooks = `webhooks: [{ title: T, url: "${hook.url}", trigger: end_dialog }]`;
    const fixture = await keeping(skill, webhooks);
    await fixture.say(await fixture.open("jo@people.test", key), "Hello?");
    await expect.poll(() => hook.got.length).toBe(1);
    expect(hook.got[0]?.body.score).toBeNull();
    const model = await startModel();
    const broken = await keeping(skill, `model: { url: "${model.url}", name: tiny }\n    ${webhooks}`);
    const id = await broken.open("jo@people.test", key);
    model.say((response) => {
      if (model.asked.length > 1) return void response.destroy();
      return saying("Hello.")(response);
    });
    await broken.say(id, "Hello?");
    await expect.poll(() => hook.got.length).toBe(2);
    expect(hook.got[1]?.body).toMatchObject({ conversationId: id, score: null });
  });
});

describe("a memory", () => {
  async function remembering(type: string) {
    const model = await startModel();
    const fixture = await keeping(
      `{ memory: { type: ${type}, retentionDuration: 10 } }`,
      `model: { url: "${model.url}", name: tiny }`,
      day,
    );
    const again = async (email: string) =>
      (await fixture.post("conversations/start", startByEmail(email, { resetConversation: true })))
        .conversationId as string;
    const told = () => model.asked.at(-1)?.messages[0]?.content ?? "";
    return { ...fixture, again, told };
  }

  test("by user has that person's earlier messages alone", async () => {
    const { again, say, told } = await remembering("BY_USER");
    await say(await again("jo@people.test"), "My dog is called Rex.");
    expect(told()).toBe("");
    await say(await again("al@people.test"), "My cat is called Mau.");
    expect(told()).toBe("");
    await say(await again("jo@people.test"), "What is it called?");
    expect(told()).toContain("Person: My dog is called Rex.\nYou: Hello from the model.");
    expect(told()).not.toContain("Mau");
  });

  test("by agent has everybody's", async () => {
    const { again, say, told } = await remembering("BY_AGENT");
    await say(await again("jo@people.test"), "My dog is called Rex.");
    await say(await again("al@people.test"), "What are dogs called?");
    expect(told()).toContain("My dog is called Rex.");
    expect(told()).toContain("never say what would tell who they were");
  });

  test("ends with its time", async () => {
    const { again, say, told, later } = await remembering("BY_USER");
    await say(await again("jo@people.test"), "My dog is called Rex.");
    later(11 * day);
    await say(await again("jo@people.test"), "What is it called?");
    expect(told()).toBe("");
  });
});

describe("retention", () => {
  const skill = (conversations: boolean, people: boolean) =>
    `{ data_retention: { retentionDays: 30, anonymizeConversations: ${conversations}, anonymizeConversationUsers: ${people} } }`;

  test("anonymizes messages and their authors, and keeps younger ones", async () => {
    const { open, say, get, later, post } = await keeping(skill(true, true));
    const old = await open("jo@people.test", key);
    await say(old, "My number is 12345.");
    later(20 * day);
    const young = await open("al@people.test", key);
    await say(young, "I am Al.");
    later(11 * day);
    await expect.poll(async () => (await get(`conversations/${old}`)).isAnonymized).toBe(true);
    const conversation = await get(`conversations/${old}`);
    expect(conversation.user).toMatchObject({ firstName: "", lastName: "", isAnonymized: true });
    expect(JSON.stringify(conversation)).not.toMatch(/jo@|Doe|question/);
    const { messages } = await get(`conversations/${old}/messages`);
    expect(messages).toMatchObject([
      { message: "", isAnonymized: true },
      { message: "", isAnonymized: true },
    ]);
    expect(await get(`conversations/${young}`)).toMatchObject({
      isAnonymized: false,
      user: { email: "al@people.test" },
    });
    expect((await get(`conversations/${young}/messages`)).messages[0]).toMatchObject({ message: "I am Al." });
    // A person who writes again after erasure is a new user.
    const { conversationId } = await post("conversations/start", startByEmail("jo@people.test"));
    expect(conversationId).not.toBe(old);
    expect(await get(`conversations/${conversationId}`)).toMatchObject({ user: { email: "jo@people.test" } });
  });

  test.each([
    [true, false],
    [false, true],
  ])("of conversations %s, of people %s", async (conversations, people) => {
    const { open, say, get, later } = await keeping(skill(conversations, people));
    const id = await open("jo@people.test", key);
    await say(id, "My number is 12345.");
    later(31 * day);
    const seen = async () => {
      const { isAnonymized, user } = await get(`conversations/${id}`);
      return [isAnonymized, user.isAnonymized];
    };
    await expect.poll(seen).toEqual([conversations, people]);
    expect((await get(`conversations/${id}/messages`)).messages[0].message).toBe(
      conversations ? "" : "My number is 12345.",
    );
  });

  test("leaves no delivery that mentions it", async () => {
    const hook = await receiver();
    const webhooks = `webhooks: [{ title: T, url: "${hook.url}", trigger: each_message }]`;
    const { open, say, get, later } = await keeping(skill(true, true), webhooks);
    const [webhook] = (await get("agents/webhooks")).data;
    await say(await open("jo@people.test", key), "My number is 12345.");
    const logged = async () => (await get(`agents/webhooks/${webhook.id}/deliveries`)).totalItems;
    await expect.poll(() => hook.got.length).toBe(1);
    expect(await logged()).toBe(1);
    later(31 * day);
    await expect.poll(logged).toBe(0);
  });
});
