// Conversations with long texts and many messages: the limit of one message, of a list, and of a webhook delivery.

import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import { receiver, startTestPlatform, type TestPlatform } from "../../support/platform/platform.ts";
import { newFolder } from "../../support/resources.ts";

async function long() {
  const file = join(newFolder(), "platform.db");
  const platform = await startTestPlatform({ file, allowPrivateWebhooks: true });
  const id = await platform.open();
  const db = new Database(file);
  onTestFinished(() => void db.close());
  /** Adds so many messages of one length; each begins with its number. */
  const fill = (count: number, length: number) =>
    db
      .prepare(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
         INSERT INTO message (id, conversation_id, sender_role, question_id, text, open, patient, created_at)
         SELECT 'm-' || i, ?, 'conversation_user', 'm-' || i, i || ' ' || printf('%.*c', ?, 'x'), 0, 0, i FROM n`,
      )
      .run(count, id, length);
  return { ...platform, id, db, fill, at: `conversations/${id}/messages` };
}

const idsOf = (messages: readonly { id: string }[]) => messages.map(({ id }) => id);
const names = (count: number) => Array.from({ length: count }, (_, index) => `m-${index + 1}`);

/** Follows `hasNextPage` from the first response. */
async function readOn({ call }: TestPlatform, path: string, query: string): Promise<string[]> {
  const ids: string[] = [];
  for (let page = 1; ; page++) {
    const { body } = await call("GET", page === 1 && query === "" ? path : `${path}?page=${page}${query}`);
    ids.push(...idsOf(body.messages));
    if (!body.hasNextPage) return ids;
  }
}

test("a message of a million characters is accepted, a longer one is a 400 that names the field", async () => {
  const { call, id, at } = await long();
  expect((await call("POST", at, { message: "x".repeat(1_000_000) })).status).toBe(201);
  const message = "x".repeat(1_000_001);
  const refused = { status: 400, body: { name: "BAD_REQUEST", details: [{ path: "message" }] } };
  expect(await call("POST", at, { message })).toMatchObject(refused);
  expect(await call("POST", `${at}/async`, { message })).toMatchObject(refused);
  await call("PUT", `conversations/${id}/mode`, { mode: "manual" });
  expect(await call("POST", `conversations/${id}/send-manual-message`, { message })).toMatchObject(refused);
});

describe("the messages of a conversation", () => {
  test("up to 5000 are one page, and more are pages", async () => {
    const platform = await long();
    platform.fill(5_000, 1);
    const whole = (await platform.call("GET", platform.at)).body;
    expect(whole).toMatchObject({ totalItems: 5_000, totalPages: 1, hasNextPage: false });
    expect(idsOf(whole.data)).toEqual(names(5_000));
    await platform.call("POST", platform.at, { message: "refund" });
    const first = (await platform.call("GET", platform.at)).body;
    expect(first).toMatchObject({ currentPage: 1, pageSize: 20, totalItems: 5_002, hasNextPage: true });
    expect(idsOf(first.data)).toEqual(names(20));
  });

  test.each([
    ["no page is asked for", ""],
    ["pages of a hundred are asked for", "&pageSize=100"],
  ])("of long texts are pages of few, when %s", async (_what, query) => {
    const platform = await long();
    platform.fill(40, 256_000);
    const { body } = await platform.call("GET", `${platform.at}?page=1${query || "&pageSize=20"}`);
    expect(body).toMatchObject({ pageSize: 16, totalItems: 40, totalPages: 3 });
    expect(await readOn(platform, platform.at, query)).toEqual(names(40));
  });
});

describe("a delivery", () => {
  async function delivered(count: number, length: number) {
    const [platform, hook] = [await long(), await receiver()];
    const webhook = { title: "T", description: "", url: hook.url, triggerCondition: "manual" };
    const { id } = (await platform.call("POST", "agents/webhooks", webhook)).body;
    platform.fill(count, length);
    await platform.call("POST", `agents/webhooks/${id}/fire`, { conversationId: platform.id });
    await expect.poll(() => hook.got.length).toBe(1);
    return hook.got[0]?.body;
  }

  test("has the newest 1000 messages", async () => {
    const { messages, messageId } = await delivered(1_100, 1);
    expect(idsOf(messages)).toEqual(names(1_100).slice(100));
    expect(messageId).toBe("m-1100");
  });

  test("has the newest million characters, and the newest message in any case", async () => {
    expect(idsOf((await delivered(10, 300_000)).messages)).toEqual(["m-8", "m-9", "m-10"]);
    expect(idsOf((await delivered(3, 1_500_000)).messages)).toEqual(["m-3"]);
  });
});
