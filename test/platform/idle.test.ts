// What happens to idle dialogs, expired data and old deliveries when one of them cannot be written, and which deliveries
// the log keeps.

import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { readAgents } from "../../src/platform/index.ts";
import { receiver, startWith } from "../support/platform/platform.ts";
import { newFolder } from "../support/resources.ts";

const key = "support-key-1";
const hour = 3_600_000;

async function idling(agent: string, endAfter = 100) {
  const file = join(newFolder(), "platform.db");
  let ahead = 0;
  const clock = {
    ...systemClock,
    now: () => systemClock.now() + ahead,
    sleep: (ms: number, signal: AbortSignal) => systemClock.sleep(Math.min(ms, 20), signal),
  };
  const platform = await startWith({
    file,
    clock,
    patience: { endAfter, archiveAfter: 1e12 },
    agents: readAgents(`organization: { name: A }\nagents: { a: { key: ${key}, ${agent} } }`, "a.yaml"),
    allowPrivateWebhooks: true,
  });
  const db = new Database(file);
  onTestFinished(() => void db.close());
  const get = async (path: string) => (await platform.call("GET", path, undefined, key)).body;
  const say = (id: string, message = "hi") => platform.call("POST", `conversations/${id}/messages`, { message }, key);
  const open = (email: string) => platform.open(email, key);
  return { ...platform, db, get, say, open, later: (ms: number) => void (ahead += ms) };
}

test("a dialog that cannot be ended keeps no other from its end, and no data from being erased", async () => {
  const ended = await receiver();
  const { db, open, say, get, later, errors } = await idling(
    `webhooks: [{ title: T, url: "${ended.url}", trigger: end_dialog }],
     skills: { data_retention: { retentionDays: 30, anonymizeConversations: true, anonymizeConversationUsers: true } }`,
  );
  const [broken, sound] = [await open("jo@people.test"), await open("al@people.test")];
  db.exec(`CREATE TRIGGER broken BEFORE UPDATE OF ended_at ON conversation
    WHEN new.id = '${broken}' AND new.ended_at IS NOT NULL BEGIN SELECT RAISE(ABORT, 'broken'); END`);
  await say(broken);
  await say(sound);
  await expect.poll(() => ended.got.map(({ body }) => body.conversationId)).toEqual([sound]);
  await expect.poll(() => errors).toContainEqual(expect.objectContaining({ conversation: broken }));
  later(31 * 24 * hour);
  for (const id of [broken, sound])
    await expect.poll(async () => (await get(`conversations/${id}`)).isAnonymized).toBe(true);
});

test("the log keeps what waits, and what has ended for a day", async () => {
  const [good, bad, told] = [await receiver(), await receiver(), await receiver()];
  bad.answer(500);
  const { open, say, get, call, later } = await idling(
    `webhooks: [{ title: Good, url: "${good.url}", trigger: each_message }, { title: Bad, url: "${bad.url}", trigger: each_message }],
     skills: { escalation: { escalations: [{ topic: lawyer, escalationPrompt: "", autoChangeConversationMode: false,
       response: A colleague will answer., recipients: [{ channel: webhook, value: "${told.url}" }] }] } }`,
    1e12,
  );
  const webhooks = (await get("agents/webhooks")).data as { id: string; title: string }[];
  const log = async (title: string) => {
    const id = webhooks.find((each) => each.title === title)?.id ?? "";
    return (await get(`agents/webhooks/${id}/deliveries`)).data as { id: string; state: string; attempts: number }[];
  };
  await say(await open("jo@people.test"), "my lawyer");
  await expect.poll(async () => (await log("Good"))[0]?.state).toBe("delivered");
  const [delivered] = await log("Good");
  const notified = async () => (await get("agents/escalations")).data[0].notifications[0].state;
  await expect.poll(notified).toBe("delivered");
  await expect.poll(async () => (await log("Bad"))[0]?.attempts).toBe(1);
  later(23 * hour);
  // The second attempt shows that time has passed for the platform.
  await expect.poll(async () => (await log("Bad"))[0]?.attempts).toBe(2);
  expect(await log("Good")).toHaveLength(1);
  later(2 * hour);
  await expect.poll(() => log("Good")).toEqual([]);
  expect(await log("Bad")).toMatchObject([{ state: "pending" }]);
  expect(await notified()).toBe("delivered");
  const again = await call("POST", `agents/webhooks/deliveries/${delivered?.id}/resend`, undefined, key);
  expect(again.status).toBe(404);
});
