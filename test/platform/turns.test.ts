// Questions whose answer cannot be stored, or that a human takes over while the agent is answering.

import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { readAgents } from "../../src/platform/index.ts";
import { receiver, saying, startModel, startTestPlatform, startWith } from "../support/platform/platform.ts";
import { newFolder } from "../support/resources.ts";

const key = "support-key-1";

const newFile = (): string => join(newFolder(), "platform.db");

function change(file: string, sql: string): void {
  const db = new Database(file);
  db.exec(sql);
  db.close();
}

const openQuestions = (file: string): unknown => {
  const db = new Database(file, { readonly: true });
  const count = db.prepare("SELECT count(*) FROM message WHERE open = 1").pluck().get();
  db.close();
  return count;
};

describe("an answer that cannot be stored", () => {
  const broken = `CREATE TRIGGER broken BEFORE INSERT ON message WHEN new.sender_role = 'assistant'
    BEGIN SELECT RAISE(ABORT, 'the disk is broken'); END`;

  test("takes its question with it, so that a repeated one is the only one", async () => {
    const file = newFile();
    const { call, open } = await startTestPlatform({ file });
    const at = `conversations/${await open()}/messages`;
    change(file, broken);
    expect(await call("POST", at, { message: "refund" })).toMatchObject({ status: 500 });
    expect((await call("GET", at)).body.messages).toEqual([]);
    change(file, "DROP TRIGGER broken");
    expect((await call("POST", at, { message: "refund" })).body.message).toBe("Refunds take five days.");
    expect((await call("GET", at)).body.messages).toHaveLength(2);
    expect((await call("GET", "agents/statistic")).body.emailsUsed).toBe(1);
  });

  test("takes its question with it as soon as the store can be written again", async () => {
    const file = newFile();
    const paused = Promise.withResolvers<void>();
    const sleep = (ms: number, signal: AbortSignal) => (ms === 5_000 ? paused.promise : systemClock.sleep(ms, signal));
    const { call, open, errors } = await startTestPlatform({ file, clock: { ...systemClock, sleep } });
    const at = `conversations/${await open()}/messages`;
    change(
      file,
      `${broken}; CREATE TRIGGER kept BEFORE DELETE ON message BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
    );
    expect(await call("POST", at, { message: "refund" })).toMatchObject({ status: 500 });
    expect(errors).toContainEqual(expect.objectContaining({ question: expect.any(String) }));
    expect(openQuestions(file)).toBe(1);
    change(file, "DROP TRIGGER broken; DROP TRIGGER kept");
    paused.resolve();
    await expect.poll(() => openQuestions(file)).toBe(0);
    expect((await call("GET", at)).body.messages).toEqual([]);
  });

  test("fails its question when the answer is looked for later", async () => {
    const file = newFile();
    const { call, open } = await startTestPlatform({ file });
    const at = `conversations/${await open()}/messages`;
    change(file, broken);
    const { id } = (await call("POST", `${at}/async`, { message: "refund" })).body;
    const answered = async () => (await call("GET", `${at}/${id}/response-on`)).body.status;
    await expect.poll(answered).toBe("failed");
  });
});

test("a question whose client disconnected is known when another one is asked, and once when it is asked again", async () => {
  const model = await startModel();
  const text = `organization: { name: A }\nagents: { a: { key: ${key}, model: { url: "${model.url}", name: m } } }`;
  const { platform, call, open } = await startWith({ agents: readAgents(text, "a.yaml") });
  const at = `conversations/${await open("jo@people.test", key)}/messages`;
  const seen = () =>
    model.asked
      .at(-1)
      ?.messages.filter(({ role }) => role === "user")
      .map(({ content }) => content);
  model.say(() => {}); // it never answers
  const client = new AbortController();
  const cut = fetch(`${platform.url}/external/${at}`, {
    method: "POST",
    headers: { "agent-secret-key": key, "content-type": "application/json" },
    body: JSON.stringify({ message: "My lamp is broken." }),
    signal: client.signal,
  }).catch(() => null);
  await expect.poll(() => model.asked.length).toBe(1);
  client.abort();
  await cut;
  await expect.poll(async () => (await call("GET", at, undefined, key)).body.messages).toEqual([]);
  model.say(saying("I see."));
  await call("POST", at, { message: "The blue one." }, key);
  expect(seen()).toEqual(["My lamp is broken.", "The blue one."]);
  await call("POST", at, { message: "My lamp is broken." }, key);
  expect(seen()).toEqual(["The blue one.", "My lamp is broken."]);
});

describe("manual mode that begins while the agent is answering", () => {
  async function answering(more = "") {
    const [model, hook] = [await startModel(), await receiver()];
    const thinking = Promise.withResolvers<void>();
    const done = Promise.withResolvers<void>();
    model.say((response) => {
      thinking.resolve();
      void done.promise.then(() => saying("Too late.")(response));
    });
    const text = `
organization: { name: A }
agents:
  a:
    key: ${key}
    webhooks: [{ title: T, url: "${hook.url}", trigger: each_message }]
    model: { url: "${model.url}", name: m }
    ${more}`;
    const platform = await startWith({ agents: readAgents(text, "a.yaml"), allowPrivateWebhooks: true });
    const at = `conversations/${await platform.open("jo@people.test", key)}`;
    const manual = async () => {
      await thinking.promise;
      await platform.call("PUT", `${at}/mode`, { mode: "manual" }, key);
      done.resolve();
    };
    const messages = async () => (await platform.call("GET", `${at}/messages`, undefined, key)).body.messages;
    return { ...platform, model, hook, at, manual, messages };
  }

  test("leaves the question to the human", async () => {
    const { call, at, manual, messages, hook, errors } = await answering();
    const asked = call("POST", `${at}/messages`, { message: "Hello?" }, key);
    await manual();
    expect(await asked).toMatchObject({ status: 201, body: { senderRole: "conversation_user", message: "Hello?" } });
    expect(await messages()).toMatchObject([{ message: "Hello?" }]);
    await expect.poll(() => hook.got.map(({ body }) => body.message)).toEqual(["Hello?"]);
    expect(errors).toEqual([]);
  });

  test("leaves an asynchronous question pending until the human answers", async () => {
    const { call, at, manual, hook } = await answering();
    const { id } = (await call("POST", `${at}/messages/async`, { message: "Hello?" }, key)).body;
    await manual();
    await expect.poll(() => hook.got.length).toBe(1);
    const answered = async () => (await call("GET", `${at}/messages/${id}/response-on`, undefined, key)).body;
    expect(await answered()).toEqual({ status: "pending", message: null, error: null });
    await call("POST", `${at}/send-manual-message`, { message: "Yes?" }, key);
    expect(await answered()).toMatchObject({ status: "completed", message: { message: "Yes?" } });
  });

  test("takes nothing from the quota", async () => {
    const { call, at, manual, model } = await answering(
      "skills: { message_quota: { limit: 1, response: No more this month. } }",
    );
    const asked = call("POST", `${at}/messages`, { message: "Hello?" }, key);
    await manual();
    await asked;
    await call("PUT", `${at}/mode`, { mode: "ai" }, key);
    model.say(saying("Welcome."));
    expect((await call("POST", `${at}/messages`, { message: "And now?" }, key)).body.message).toBe("Welcome.");
  });
});

test.each([
  ["whose conversation is in manual mode", "active", "UPDATE conversation SET mode = 'manual'"],
  ["of an agent that is inactive", "inactive", ""],
])("a question cut off by a stop, %s at the next start, stays without an answer", async (_which, status, sql) => {
  const [file, model] = [newFile(), await startModel()];
  model.say(() => {});
  const agents = (state: string) =>
    readAgents(
      `organization: { name: A }\nagents: { a: { key: ${key}, status: ${state}, model: { url: "${model.url}", name: m } } }`,
      "a.yaml",
    );
  const first = await startWith({ file, agents: agents("active") });
  const at = `conversations/${await first.open("jo@people.test", key)}/messages`;
  const cut = first.call("POST", at, { message: "Hi" }, key);
  await expect.poll(() => model.asked.length).toBe(1);
  await first.platform.close();
  await cut;
  expect(openQuestions(file)).toBe(1);
  change(file, sql);

  model.say(saying("Unwanted."));
  const second = await startWith({ file, agents: agents(status) });
  await expect.poll(() => openQuestions(file)).toBe(0);
  expect((await second.call("GET", at, undefined, key)).body.messages).toMatchObject([{ message: "Hi" }]);
  expect(model.asked).toHaveLength(1);
});
