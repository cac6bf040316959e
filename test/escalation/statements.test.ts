// Number of statements per responder reply and per notification: load, decide, write.

import { externalId, type MessageEvent, type Outbound } from "bridgehead/contract";
import { expect, it } from "vitest";
import type { Answer, PlatformMessage } from "../../src/agent/calls.ts";
import { bindTargets, endNotifications } from "../../src/escalation/notify/rows.ts";
import { notifyStage } from "../../src/escalation/notify/stage.ts";
import { insertPlatformWebhook } from "../../src/escalation/platform-webhook/rows.ts";
import { platformWebhookStage } from "../../src/escalation/platform-webhook/stage.ts";
import { pollStage } from "../../src/escalation/poll/stage.ts";
import { EscalationHandler } from "../../src/escalation/trigger/stage.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import type { Database } from "../../src/store/driver.ts";
import { bindPlatform, cite, readConversation, schedulePoll } from "../../src/store/tables/conversations.ts";
import { insertReply } from "../../src/store/tables/drafts.ts";
import type { EventRow } from "../../src/store/tables/events.ts";
import { addTargets } from "../../src/store/tables/responders.ts";
import { readTurn } from "../../src/store/tables/turns.ts";
import { policyOf } from "../support/escalation/policy.ts";
import { clock, lineOf, listen } from "../support/pipeline/stage.ts";
import {
  addNotification,
  conversation,
  draft,
  fresh,
  opens,
  sqliteDatabase,
  storeEvent,
  turn,
} from "../support/store/databases.ts";
import { statements } from "../support/store/statements.ts";

const { log } = listen();
const responders = [1, 2].map((n) => ({
  id: `r${n}`,
  name: `Responder ${n}`,
  email: null,
  sms: `+1202555019${n}`,
  webhook: null,
  timeZone: "UTC",
  hours: [],
  away: [],
}));
const policy = policyOf({
  responders: new Map(responders.map((one) => [one.id, one])),
  tiers: [{ notify: ["r1", "r2"], by: null, repeat: 0, next: 60_000 }],
  via: { email: "c", sms: "c" },
});
const outbound = {} as Outbound; // nothing is composed or sent here
const texts: ChannelRuntime = {
  ...lineOf({ outbound }),
  traits: { attachments: false, conversations: "person", platform: "sms" },
};
const mails = lineOf({ outbound });

/** A customer's conversation `k`, and escalation `e` about it, of which both responders were notified. */
async function notified(line: ChannelRuntime): Promise<Database> {
  const db = await fresh(sqliteDatabase, async (q) => {
    await conversation(q, "k");
    await bindPlatform(q, "k", "p");
    await turn(q, "t", "k");
    await q.run("UPDATE turns SET state = 'answered', open = 0");
    await opens(q, "e", { about: "conversation:k", conversation: "k" });
    await q.run("UPDATE escalations SET due_at = NULL");
    for (const [n, { id, name, sms }] of responders.entries()) {
      const [way, address] = line === texts ? (["sms", sms] as const) : (["email", `${id}@example.org`] as const);
      await addTargets(q, [{ id, escalation: "e", person: id, name, way, address, channel: "c" }]);
      await conversation(q, `to-${id}`);
      await q.run("INSERT INTO participants (conversation, address) VALUES ($1, $2)", `to-${id}`, address);
      await bindTargets(q, [{ target: id, conversation: `to-${id}` }]);
      await addNotification(q, { id: `n${n}`, target: id, kind: "opened", subject: "", text: null }, 0);
      await draft(q, `d${n}`, `to-${id}`);
      await endNotifications(q, [`n${n}`], `rd${n}`);
      await cite(q, "c", `notification-${n}`, `to-${id}`, `d${n}`);
    }
    await q.run("UPDATE drafts SET state = 'sent', open = 0");
  });
  return db;
}

async function replies(line: ChannelRuntime, text: string): Promise<string[]> {
  const db = await notified(line);
  const id = await db.tx((q) => storeEvent(q, "m"));
  const event = {
    kind: "message",
    id: externalId("m"),
    from: { address: line === texts ? "+12025550191" : "r1@example.org" },
    to: [],
    text,
    sentAt: new Date(),
    thread: { answers: line === texts ? [] : ["notification-0", "earlier"] },
    sender: "verified",
  } as unknown as MessageEvent;
  const escalation = new EscalationHandler({
    timing: standardTiming,
    policy: () => policy,
    lines: () => new Map([["c", line]]),
    clock,
    log,
  });
  const row = { id, channel: "c", code: null } as unknown as EventRow;
  const seen = await statements(db, (q) => escalation.routeReply(q, line, row, event));
  const [taken] = await db.read((q) => q.all<{ acknowledged_by: string }>("SELECT acknowledged_by FROM escalations"));
  expect(taken).toEqual({ acknowledged_by: "Responder 1" });
  return seen;
}

const most = {
  ok: 6,
  text: 11,
  mail: 12,
  first: 23,
  digest: 25,
  trigger: 3,
  repeated: 3,
  silent: 3,
  quiet: 4,
  external: 8,
  webhook: 7,
  webhooks: 12,
};

it("acknowledges with few statements", async () => {
  expect((await replies(texts, "ok")).length).toBeLessThanOrEqual(most.ok);
});

it("relays an SMS with few statements", async () => {
  expect((await replies(texts, "It is on its way.")).length).toBeLessThanOrEqual(most.text);
});

it("relays a mail with few statements", async () => {
  expect((await replies(mails, "It is on its way.")).length).toBeLessThanOrEqual(most.mail);
});

const deps = { timing: standardTiming, policy: () => policy, clock, log };
const stage = notifyStage({ ...deps, lines: () => new Map([["c", texts]]), link: () => null });

it("notifies two responders with few statements", async () => {
  const db = await fresh(sqliteDatabase, async (q) => {
    await conversation(q, "k");
    await opens(q, "e", { about: "conversation:k", conversation: "k" });
  });
  const seen = await statements(db, (q) => stage.run(q));
  expect(await db.read((q) => q.all("SELECT 1 FROM replies"))).toHaveLength(2);
  expect(seen.length).toBeLessThanOrEqual(most.first);
});

it("notifies two responders of twenty escalations with few statements", async () => {
  const db = await fresh(sqliteDatabase, async (q) => {
    for (let n = 0; n < 20; n += 1) {
      await conversation(q, `k${n}`);
      await opens(q, `e${n}`, { about: `conversation:k${n}`, conversation: `k${n}` });
    }
  });
  const seen = await statements(db, (q) => stage.run(q));
  expect(await db.read((q) => q.all("SELECT 1 FROM replies"))).toHaveLength(2);
  expect(seen.length).toBeLessThanOrEqual(most.digest);
});

const settings = { escalations: [{ topic: "refund", response: "A colleague answers.", recipients: [] }] };
const escalating = { ...texts, settings: () => settings } as unknown as ChannelRuntime;
const lines = () => new Map([["c", escalating]]);

/** A customer's conversation `k` with an answered turn `t`, bound to `p` on the platform. */
async function asked(): Promise<Database> {
  const db = await fresh(sqliteDatabase, async (q) => {
    await conversation(q, "k");
    await bindPlatform(q, "k", "p");
    await turn(q, "t", "k");
    await q.run("UPDATE turns SET state = 'answered', open = 0, question_id = 'question'");
    await insertReply(q, {
      id: "r",
      conversation: "k",
      channel: "c",
      turn: "t",
      text: "x",
      platformId: "answer",
    });
    await q.run("UPDATE replies SET state = 'composed'");
  });
  return db;
}

async function answered(db: Database, text: string, replyId: string): Promise<string[]> {
  const escalation = new EscalationHandler({ ...deps, lines });
  return statements(db, async (q) =>
    escalation.answered(q, escalating, { conversation: await readConversation(q, "k"), turn: await readTurn(q, "t") }, {
      text,
      replyId,
    } as Answer),
  );
}

it("opens an escalation for the agent's answer with few statements", async () => {
  const db = await asked();
  const seen = await answered(db, "a colleague  answers.", "answer");
  expect(await db.read((q) => q.all("SELECT number FROM escalations"))).toHaveLength(1);
  // Two of the statements are the test's own.
  expect(seen.length - 2).toBeLessThanOrEqual(most.trigger);
  expect((await answered(db, "A colleague answers.", "answer-2")).length - 2).toBeLessThanOrEqual(most.repeated);
  expect((await answered(db, "", "answer-3")).length - 2).toBeLessThanOrEqual(most.silent);
});

/** Polls conversation `k`, which has these messages on the platform. */
async function polled(db: Database, ...messages: readonly PlatformMessage[]): Promise<string[]> {
  const client = {
    mode: () => Promise.resolve({ kind: "ok", value: "ai" }),
    read: () => Promise.resolve({ messages, start: 0, end: messages.length, skipped: 0, failure: null }),
  };
  const line = { ...escalating, client } as unknown as ChannelRuntime;
  const rate = { room: () => 10, take: () => Promise.resolve({ taken: true, waitMs: 0 }) } as never;
  const stage = pollStage({ ...deps, lines: () => new Map([["c", line]]), db, rate, node: "n" });
  await db.tx((q) => schedulePoll(q, { id: "k", channel: "c" }, 0));
  const [claimed] = (await db.tx((q) => stage.claim(q, "c", 1))).claimed;
  if (!claimed) throw new Error("no poll is due");
  return statements(db, await claimed.work(new AbortController().signal));
}
const ours = [
  { id: "question", role: "person", text: "hello", answers: null },
  { id: "answer", role: "agent", text: "x", answers: "question" },
] as const;
const human = { id: "human", role: "human", text: "I will help.", answers: null } as const;

it("polls with few statements", async () => {
  const db = await asked();
  expect((await polled(db, ...ours)).length).toBeLessThanOrEqual(most.quiet);
  await db.tx((q) => opens(q, "e", { about: "conversation:k", conversation: "k" }));
  expect((await polled(db, ...ours, human)).length).toBeLessThanOrEqual(most.external);
  expect(await db.read((q) => q.all("SELECT text FROM replies WHERE kind = 'human'"))).toHaveLength(1);
  expect(await db.read((q) => q.all("SELECT state FROM escalations"))).toEqual([{ state: "acknowledged" }]);
});

it.each([
  [1, most.webhook],
  [20, most.webhooks],
])("processes %d platform webhooks with few statements", async (count, limit) => {
  const db = await asked();
  await db.tx(async (q) => {
    for (let n = 0; n < count; n += 1) {
      await conversation(q, `k${n}`);
      await bindPlatform(q, `k${n}`, `p${n}`);
      const body = JSON.stringify({ conversationId: `p${n}`, topic: "refund" });
      await insertPlatformWebhook(q, { agent: "agent", id: `w${n}`, kind: "escalation", body }, null);
    }
  });
  const stage = platformWebhookStage({ ...deps, lines });
  const seen = await statements(db, (q) => stage.run(q));
  expect(await db.read((q) => q.all("SELECT 1 FROM escalations"))).toHaveLength(count);
  expect(seen.length).toBeLessThanOrEqual(limit);
});
