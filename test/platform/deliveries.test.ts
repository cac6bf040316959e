// Webhook deliveries: a slow receiver does not delay others, and what is stored of a delivery.

import { createServer, type ServerResponse } from "node:http";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { readAgents } from "../../src/platform/index.ts";
import { serve } from "../support/machine/network.ts";
import {
  keys,
  receiver,
  saying,
  startModel,
  startTestPlatform,
  startWith,
  type TestPlatform,
} from "../support/platform/platform.ts";
import { newFolder } from "../support/resources.ts";

/** A receiver that reads every request and responds only on the test's signal. */
async function silent() {
  const held: ServerResponse[] = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => void held.push(response));
  });
  const url = await serve(server);
  return { url: `${url}/hook`, held };
}

async function registered(platform: TestPlatform, url: string, triggerCondition = "manual"): Promise<string> {
  const body = { title: "T", description: "", url, triggerCondition };
  return (await platform.call("POST", "agents/webhooks", body)).body.id as string;
}

test("a receiver that does not answer, with hundreds behind it, holds no other up", async () => {
  const platform = await startTestPlatform({ allowPrivateWebhooks: true });
  const [slow, quick] = [await silent(), await receiver()];
  const conversationId = await platform.open();
  const fire = (id: string) => platform.call("POST", `agents/webhooks/${id}/fire`, { conversationId });
  const stuck = await registered(platform, slow.url);
  for (let n = 0; n < 250; n++) expect(await fire(stuck)).toMatchObject({ status: 202 });
  await expect.poll(() => slow.held.length).toBeGreaterThan(0);
  const { id } = (await fire(await registered(platform, quick.url))).body;
  await expect.poll(() => quick.got.map(({ headers }) => headers["webhook-id"])).toEqual([id]);
});

test("at most sixteen deliveries run at once, and the others follow", async () => {
  const platform = await startTestPlatform({ allowPrivateWebhooks: true });
  const slow = await silent();
  const conversationId = await platform.open();
  const atOnce = 16;
  for (let n = 0; n < atOnce + 4; n++) {
    const id = await registered(platform, `${slow.url}/${n}`);
    expect(await platform.call("POST", `agents/webhooks/${id}/fire`, { conversationId })).toMatchObject({
      status: 202,
    });
  }
  await expect.poll(() => slow.held.length).toBe(atOnce);
  // One that ends makes room for exactly one.
  slow.held[0]?.end();
  await expect.poll(() => slow.held.length).toBe(atOnce + 1);
  for (const response of slow.held.slice(1)) response.end();
  await expect.poll(() => slow.held.length).toBe(atOnce + 4);
  for (const response of slow.held.slice(atOnce + 1)) response.end();
});

test("after a dialog's end the next message begins another, and both are reported each time", async () => {
  let now = Date.parse("2026-11-21T10:00:00Z");
  // Hours pass when the test says so; looks are frequent. No model is asked: its time-outs would be as short.
  const clock = {
    ...systemClock,
    now: () => now,
    sleep: (ms: number, signal: AbortSignal) => systemClock.sleep(Math.min(ms, 20), signal),
  };
  const hour = 3_600_000;
  const patience = { endAfter: hour, archiveAfter: 1_000 * hour };
  const platform = await startTestPlatform({ allowPrivateWebhooks: true, clock, patience });
  const [begun, ended] = [await receiver(), await receiver()];
  await registered(platform, begun.url, "start_dialog");
  await registered(platform, ended.url, "end_dialog");
  const id = await platform.open();
  const say = () => platform.call("POST", `conversations/${id}/messages`, { message: "refund" });
  for (const dialog of [1, 2, 3]) {
    await say();
    await say();
    await expect.poll(() => begun.got.length).toBe(dialog);
    now += 2 * hour;
    await expect.poll(() => ended.got.length).toBe(dialog);
  }
  expect(begun.got.map(({ body }) => [body.conversationId, body.messages.length])).toEqual([
    [id, 0],
    [id, 5],
    [id, 9],
  ]);
  expect(ended.got.map(({ body }) => body.messages.length)).toEqual([4, 8, 12]);
});

test("a dialog does not end while its question is being answered", async () => {
  const [model, ended, seen] = [await startModel(), await receiver(), await receiver()];
  const asked = Promise.withResolvers<void>();
  const thought = Promise.withResolvers<void>();
  model.say((response) => {
    asked.resolve();
    void thought.promise.then(() => saying("At last.")(response));
  });
  const text = `
organization: { name: A }
agents:
  a: { key: ${keys.support}, model: { url: "${model.url}", name: m, timeout: 600 } }
  b: { key: ${keys.sales} }`;
  const patience = { endAfter: 100, archiveAfter: 3_600_000 };
  const agents = readAgents(text, "a.yaml");
  const platform = await startWith({ allowPrivateWebhooks: true, patience, agents });
  await registered(platform, ended.url, "end_dialog");
  const id = await platform.open();
  const answered = platform.call("POST", `conversations/${id}/messages`, { message: "hi" });
  await asked.promise;
  // Another dialog that is younger ends: so this one was looked at as well.
  const body = { title: "T", description: "", url: seen.url, triggerCondition: "end_dialog" };
  await platform.call("POST", "agents/webhooks", body, keys.sales);
  const other = await platform.open("al@people.test", keys.sales);
  await platform.call("POST", `conversations/${other}/messages`, { message: "hi" }, keys.sales);
  await expect.poll(() => seen.got.length).toBeGreaterThan(0);
  thought.resolve();
  expect((await answered).body.message).toBe("At last.");
  await expect.poll(() => ended.got.map(({ body: { messages } }) => messages.length)).toEqual([2]);
});

test("a stored delivery has no copy of the messages, and is sent again with those of its time", async () => {
  const folder = newFolder();
  const [file, hook] = [join(folder, "platform.db"), await receiver()];
  const platform = await startTestPlatform({ file, allowPrivateWebhooks: true });
  const { call } = platform;
  const id = await platform.open();
  const say = (message: string) => call("POST", `conversations/${id}/messages`, { message });
  const webhook = await registered(platform, hook.url, "each_message");
  const log = async () => (await call("GET", `agents/webhooks/${webhook}/deliveries`)).body.data;
  await say("My number is 12345.");
  await expect.poll(async () => (await log())[0]?.state).toBe("delivered");
  const db = new Database(file, { readonly: true });
  expect(JSON.stringify(db.prepare("SELECT * FROM delivery").all())).not.toMatch(/12345|I do not know/);
  db.close();
  const [first] = await log();
  await say("And now?");
  await expect.poll(() => hook.got.length).toBe(2);
  await call("POST", `agents/webhooks/deliveries/${first.id}/resend`);
  await expect.poll(() => hook.got.length).toBe(3);
  expect(hook.got[2]?.body).toEqual(hook.got[0]?.body);
  expect(hook.got[2]?.body.messages).toMatchObject([{ message: "My number is 12345." }, {}]);
});

test("a delivery whose outcome cannot be recorded is repeated after a pause, and not at once", async () => {
  const folder = newFolder();
  const [file, hook] = [join(folder, "platform.db"), await receiver()];
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const sleep = async (ms: number, signal: AbortSignal) => {
    if (ms !== 5_000) return systemClock.sleep(ms, signal);
    begun.resolve();
    return ended.promise;
  };
  const clock = { ...systemClock, sleep };
  const platform = await startTestPlatform({ file, clock, allowPrivateWebhooks: true });
  const webhook = await registered(platform, hook.url, "each_message");
  const db = new Database(file);
  onTestFinished(() => void db.close());
  db.exec("CREATE TRIGGER full BEFORE UPDATE ON delivery BEGIN SELECT RAISE(FAIL, 'disk full'); END");
  const id = await platform.open();
  await platform.call("POST", `conversations/${id}/messages`, { message: "hi" });
  await begun.promise;
  expect(hook.got).toHaveLength(1);
  db.exec("DROP TRIGGER full");
  // Another event of the same webhook stays behind it.
  await platform.call("POST", `conversations/${id}/messages`, { message: "Are you there?" });
  ended.resolve();
  const states = async () =>
    (await platform.call("GET", `agents/webhooks/${webhook}/deliveries`)).body.data.map(
      (one: { state: string }) => one.state,
    );
  await expect.poll(states).toEqual(["delivered", "delivered"]);
  const [first, second, third] = hook.got.map(({ headers }) => headers["webhook-id"]);
  expect([first === second, second === third, hook.got.length]).toEqual([true, false, 3]);
});

test.each(["while it runs", "before it starts again"])("a clock that goes back %s delays no delivery", async (when) => {
  const [file, hook] = [join(newFolder(), "platform.db"), await receiver()];
  let ahead = 40 * 86_400_000;
  const options = { file, clock: { ...systemClock, now: () => Date.now() + ahead }, allowPrivateWebhooks: true };
  const before = await startTestPlatform(options);
  const webhook = await registered(before, hook.url);
  const conversationId = await before.open();
  hook.answer(500);
  await before.call("POST", `agents/webhooks/${webhook}/fire`, { conversationId });
  const attempts = async () =>
    (await before.call("GET", `agents/webhooks/${webhook}/deliveries`)).body.data.map(
      (one: { attempts: number }) => one.attempts,
    );
  await expect.poll(attempts).toEqual([1]);
  hook.answer(204);
  if (when !== "while it runs") await before.platform.close();
  ahead = 0;
  if (when !== "while it runs") await startTestPlatform(options);
  await expect.poll(() => hook.got.length).toBe(2);
});
