// Webhooks: registered, fired by what really happens, delivered signed, tried again, logged (External API 4.3 and 6).

import { createHmac } from "node:crypto";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { isPublic, judge } from "../../src/ops/address.ts";
import { readAgents } from "../../src/platform/index.ts";
import { triggers, webhook, webhookDelivery } from "../../src/wire/webhook.ts";
import {
  type Delivered,
  keys,
  receiver,
  startTestPlatform,
  startWith,
  type TestPlatform,
} from "../support/platform/platform.ts";
import { newFolder } from "../support/resources.ts";

const registration = (url: string, triggerCondition: string, over: object = {}) => ({
  title: "Turns",
  description: "each of them",
  url,
  triggerCondition,
  ...over,
});

async function registered(fixture: TestPlatform, url: string, trigger: string, over: object = {}) {
  const answered = await fixture.call("POST", "agents/webhooks", registration(url, trigger, over));
  expect(answered.status).toBe(201);
  return answered.body as { id: string; secret: string };
}

const open = (over: object = {}) => startTestPlatform({ allowPrivateWebhooks: true, ...over });
const log = async (fixture: TestPlatform, id: string) =>
  (await fixture.call("GET", `agents/webhooks/${id}/deliveries`)).body.data;

describe("a webhook", () => {
  test("is registered, listed and removed", async () => {
    const fixture = await open();
    const headers = { Authorization: "Bearer token" };
    const { status, body } = await fixture.call(
      "POST",
      "agents/webhooks",
      registration("http://127.0.0.1:9/hook", "each_message", { headers }),
    );
    expect({ status, body }).toMatchObject({ status: 201, body: { headers, status: "active" } });
    expect(webhook.exact.safeParse(body).success).toBe(true);
    const list = (await fixture.call("GET", "agents/webhooks")).body;
    expect(list).toMatchObject({ totalItems: 1, data: [{ id: body.id }] });
    expect(list.data[0]).not.toHaveProperty("secret");
    expect(await fixture.call("DELETE", `agents/webhooks/${body.id}`, undefined, keys.sales)).toMatchObject({
      status: 404,
    });
    expect(await fixture.call("DELETE", `agents/webhooks/${body.id}`)).toMatchObject({ status: 204 });
    expect((await fixture.call("GET", "agents/webhooks")).body.totalItems).toBe(0);
  });

  test("receives each turn, with its answer, signed and with the configured headers", async () => {
    const [fixture, hook] = [await open(), await receiver()];
    const { secret } = await registered(fixture, hook.url, "each_message", { headers: { "X-Ours": "yes" } });
    const id = await fixture.open();
    const answer = (await fixture.call("POST", `conversations/${id}/messages`, { message: "refund" })).body;
    await expect.poll(() => hook.got.length).toBe(1);
    const [delivered] = hook.got as [Delivered];
    expect(webhookDelivery.exact.safeParse(delivered.body)).toMatchObject({ success: true });
    expect(delivered.body).toMatchObject({
      triggerCondition: "each_message",
      conversationId: id,
      messageId: answer.id,
      message: "Refunds take five days.",
      user: { email: "jo@example.test" },
      messages: [{ message: "refund" }, { message: "Refunds take five days." }],
    });
    expect(delivered.headers["x-ours"]).toBe("yes");
    const { "webhook-id": name, "webhook-timestamp": at } = delivered.headers;
    const signed = [name, at, delivered.text].join(".");
    const key = Buffer.from(secret.replace("whsec_", ""), "base64");
    const expected = createHmac("sha256", key).update(signed).digest("base64");
    expect(delivered.headers["webhook-signature"]).toBe(`v1,${expected}`);
  });

  test("receives the beginning, a person's messages in manual mode, and the closed chat", async () => {
    const inactive = `organization: { name: B }\nagents: { b: { key: ${keys.support}, status: inactive } }`;
    const fixture = await startWith({ agents: readAgents(inactive, "b.yaml"), allowPrivateWebhooks: true });
    const hook = await receiver();
    for (const trigger of ["start_dialog", "each_message", "chat_currently_unavailable"])
      await registered(fixture, hook.url, trigger);
    const id = await fixture.open();
    await fixture.call("PUT", `conversations/${id}/mode`, { mode: "manual" });
    await fixture.call("POST", `conversations/${id}/messages`, { message: "refund" });
    await fixture.call("POST", `conversations/${id}/send-manual-message`, { message: "I look into it." });
    await expect
      .poll(() => hook.got.map(({ body }) => body.triggerCondition as string).toSorted((a, b) => a.localeCompare(b)))
      .toEqual(["chat_currently_unavailable", "each_message", "each_message", "start_dialog"]);
  });

  test("receives the end by inactivity once, and again after another turn; the archiving too", async () => {
    const fixture = await open({ patience: { endAfter: 200, archiveAfter: 3_600_000 } });
    const hook = await receiver();
    await registered(fixture, hook.url, "end_dialog");
    const id = await fixture.open();
    const say = () => fixture.call("POST", `conversations/${id}/messages`, { message: "refund" });
    await say();
    await expect.poll(() => hook.got.length).toBe(1);
    await say();
    await expect.poll(() => hook.got.length).toBe(2);
    expect(hook.got[1]?.body.messages).toHaveLength(4);

    const quick = await open({ patience: { endAfter: 3_600_000, archiveAfter: 50 } });
    await registered(quick, hook.url, "auto_archive_conversation");
    const archived = await quick.open();
    await expect
      .poll(() => hook.got.at(-1)?.body)
      .toMatchObject({
        triggerCondition: "auto_archive_conversation",
        conversationId: archived,
      });
    expect(await quick.open()).not.toBe(archived);
  });

  test("fires by hand, and sends again what was delivered", async () => {
    const [fixture, hook] = [await open(), await receiver()];
    const { id } = await registered(fixture, hook.url, "manual");
    const conversationId = await fixture.open();
    const fired = await fixture.call("POST", `agents/webhooks/${id}/fire`, { conversationId });
    expect(fired).toMatchObject({ status: 202 });
    await expect.poll(() => hook.got.length).toBe(1);
    await expect.poll(async () => (await log(fixture, id))[0].state).toBe("delivered");
    await fixture.call("POST", `agents/webhooks/deliveries/${fired.body.id}/resend`);
    await expect.poll(() => hook.got.length).toBe(2);
    expect(hook.got[1]?.headers["webhook-id"]).toBe(hook.got[0]?.headers["webhook-id"]);
    expect(await fixture.call("POST", `agents/webhooks/${id}/fire`, { conversationId: "nothing" })).toMatchObject({
      status: 404,
    });
    const foreign = `agents/webhooks/deliveries/${fired.body.id}/resend`;
    expect(await fixture.call("POST", foreign, undefined, keys.sales)).toMatchObject({ status: 404 });
  });

  test.each([500, 302, 404])("that answers %d is tried again later, and its log says so", async (status) => {
    const [fixture, hook] = [await open(), await receiver()];
    hook.answer(status);
    const { id } = await registered(fixture, hook.url, "start_dialog");
    await fixture.open();
    await expect.poll(async () => (await log(fixture, id))[0]).toMatchObject({ state: "pending", attempts: 1, status });
    expect(Date.parse((await log(fixture, id))[0].nextAttemptAt)).toBeGreaterThan(0);
    expect(hook.got).toHaveLength(1);
  });

  test("that answers 410 is left alone", async () => {
    const [fixture, hook] = [await open(), await receiver()];
    hook.answer(410);
    const { id } = await registered(fixture, hook.url, "start_dialog");
    await fixture.open();
    await expect.poll(async () => (await log(fixture, id))[0]).toMatchObject({ state: "failed", status: 410 });
  });

  test("gets what fired before a restart", async () => {
    const folder = newFolder();
    const [file, hook] = [join(folder, "platform.db"), await receiver()];
    hook.answer(500);
    const first = await open({ file });
    const { id } = await registered(first, hook.url, "start_dialog");
    await first.open();
    await expect.poll(async () => (await log(first, id))[0]?.attempts).toBe(1);
    await first.platform.close();
    hook.answer(204);
    const second = await open({ file });
    await expect.poll(() => hook.got.length).toBe(2);
    await expect.poll(async () => (await log(second, id))[0].state).toBe("delivered");
  });

  test("of the definition is there, is shown in its skill, and is gone with it", async () => {
    const hook = await receiver();
    const text = (webhooks: string) =>
      `organization: { name: A }\nagents: { a: { key: ${keys.support}, webhooks: ${webhooks} } }`;
    const folder = newFolder();
    const file = join(folder, "platform.db");
    const defined = readAgents(text(`[{ title: T, url: "${hook.url}", trigger: start_dialog }]`), "a.yaml");
    const first = await startWith({ file, agents: defined, allowPrivateWebhooks: true });
    await first.open();
    await expect.poll(() => hook.got.length).toBe(1);
    const { skills } = (await first.call("GET", "agents/by-api-key")).body;
    expect(skills).toContainEqual(expect.objectContaining({ systemName: "WEBHOOK", status: "active" }));
    await first.platform.close();
    const second = await startWith({ file, agents: readAgents(text("[]"), "a.yaml") });
    expect((await second.call("GET", "agents/webhooks")).body.totalItems).toBe(0);
  });
});

test.each([
  ["http://receiver.example/", "is not HTTPS"],
  ["https://127.0.0.1/", "is not at a public address"],
  ["https://user:pass@example.com/", "carries a user or password"],
  ["nonsense", "is no URL"],
])("registering %s is refused", async (url, message) => {
  const { call } = await startTestPlatform();
  expect(await call("POST", "agents/webhooks", registration(url, "each_message"))).toMatchObject({
    status: 400,
    body: { details: [{ path: "url", message }] },
  });
});

test.each([
  { triggerCondition: "always" },
  { title: "" },
  { headers: { "webhook-id": "1" } },
  { headers: { "bad name": "1" } },
  { headers: { fine: "a\r\nx: b" } },
])("registering with %j is refused", async (over) => {
  const { call } = await startTestPlatform({ allowPrivateWebhooks: true });
  const body = registration("http://127.0.0.1:9/", "each_message", over);
  expect(await call("POST", "agents/webhooks", body)).toMatchObject({ status: 400 });
});

describe("an address", () => {
  const inside = `127.0.0.1 127.1.2.3 0.0.0.0 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
    192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 ::1 :: fc00::1 fd12::1
    fe80::1 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1::
    2001:db8::1 2001::1 100::1`.split(/\s+/);
  test.each(inside)("%s is not public", (address) => expect(isPublic(address)).toBe(false));
  test.each(["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946"])("%s is public", (address) =>
    expect(isPublic(address)).toBe(true),
  );

  const written = `https://127.1/ https://2130706433/ https://0x7f000001/ https://0177.0.0.1/ https://127.0.0.1.:443/
    https://[::1]/ https://[::ffff:127.0.0.1]/ https://[::ffff:7f00:1]/ https://localhost/ https://LOCALHOST./
    https://①②⑦.⓪.⓪.①/ https://[fe80::1]/ https://0/ https://[::]/ ftp://8.8.8.8/ file:///etc/passwd gopher://8.8.8.8/
    javascript:alert(1) https:/// //8.8.8.8/`.split(/\s+/);
  test.each(written)("%s is refused in any notation", async (url) => {
    expect(await judge(url, [])).toMatchObject({ ok: false });
  });
});

test("every trigger can be registered", async () => {
  const fixture = await open();
  for (const trigger of triggers) await registered(fixture, "http://127.0.0.1:9/", trigger);
  expect((await fixture.call("GET", "agents/webhooks")).body.totalItems).toBe(triggers.length);
});
