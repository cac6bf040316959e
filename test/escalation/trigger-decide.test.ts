// Decisions about triggers, channel outages, polls and platform webhooks, on rows without a database.

import { describe, expect, it } from "vitest";
import type { PlatformMessage, PlatformMessages } from "../../src/agent/calls.ts";
import {
  type BoundConversation,
  planDeliveries,
  type StoredDelivery,
} from "../../src/escalation/platform-webhook/decide.ts";
import { type PollFacts, planPoll } from "../../src/escalation/poll/decide.ts";
import type { PollRow } from "../../src/escalation/poll/rows.ts";
import type { Customer } from "../../src/escalation/reply/rows.ts";
import {
  escalatingTopic,
  isPassedOn,
  planOutages,
  planTriggers,
  type Subject,
} from "../../src/escalation/trigger/decide.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { ChannelHealth, EscalationTrigger } from "../../src/pipeline/escalation.ts";
import type { EscalationRow } from "../../src/store/tables/escalations.ts";

const escalation = (over: Partial<EscalationRow> = {}): EscalationRow =>
  ({
    id: "e",
    number: 7,
    about: "conversation:k",
    state: "open",
    cause: "topic",
    from_seq: 3,
    ...over,
  }) as EscalationRow;
const trigger = (over: Partial<EscalationTrigger> = {}): EscalationTrigger => ({
  key: "response:1",
  source: "response",
  cause: "topic",
  channel: "c",
  agent: "a",
  conversation: "k",
  topic: "refund",
  reason: "r",
  ...over,
});
const subject = (over: Partial<Subject> = {}): Subject => ({
  row: null,
  triggered: false,
  asked: null,
  ...over,
});
const planned = (one: EscalationTrigger, about: Subject) => planTriggers([one], [about], () => "new");
const closed = escalation({ state: "closed" });

describe("a trigger", () => {
  it.each([
    ["opens one", {}, subject(), ["conversation:k"], [null], 0],
    ["is recorded once", {}, subject({ triggered: true }), [], [], 0],
    ["belongs to the open one", {}, subject({ row: escalation() }), [], ["e"], 0],
    ["belongs to the closed one when it is late", {}, subject({ row: closed, asked: 2 }), [], ["e"], 0],
    [
      "opens one when the customer has written since",
      {},
      subject({ row: closed, asked: 3 }),
      ["conversation:k"],
      [null],
      0,
    ],
    [
      "opens one after the close when it is ours",
      { source: "ours" },
      subject({ row: closed }),
      ["conversation:k"],
      [null],
      0,
    ],
    [
      "opens one of another cause after the close",
      { cause: "silent" },
      subject({ row: closed }),
      ["conversation:k"],
      [null],
      0,
    ],
    [
      "about an outage opens one after the close",
      { conversation: null, cause: "channel-down" },
      subject({ row: closed }),
      ["channel:c:channel-down"],
      [null],
      0,
    ],
    ["with news updates the open one", { news: true }, subject({ row: escalation() }), [], ["e"], 1],
    ["with news updates nobody when it opens one", { news: true }, subject(), ["conversation:k"], [null], 0],
    [
      "with a text updates the owner",
      { said: "Hello?" },
      subject({ row: escalation({ state: "acknowledged" }) }),
      [],
      ["e"],
      1,
    ],
    ["with a text waits for the first notification", { said: "Hello?" }, subject({ row: escalation() }), [], ["e"], 0],
  ] as const)("%s", (_what, over, about, opened, recorded, updates) => {
    const plan = planned(trigger(over), about);
    expect(plan.opened.map((one) => one.about)).toEqual(opened);
    expect(plan.recorded.map((one) => one.escalation)).toEqual(recorded);
    expect(plan.updates).toHaveLength(updates);
  });

  it("opens one escalation for several triggers of one subject", () => {
    const both = [trigger(), trigger({ key: "webhook:1", source: "webhook" })];
    const plan = planTriggers(both, [subject(), subject()], () => "new");
    expect([plan.opened.length, plan.recorded.length]).toEqual([1, 2]);
  });
});

describe("an answer of the agent", () => {
  const configured = [
    { topic: "refund", response: "A colleague  answers." },
    { topic: "order", response: "One moment" },
    { topic: "delivery", response: "one moment" },
    { topic: "empty", response: " " },
  ];
  it.each([
    ["a colleague answers.", { topic: "refund" }],
    ["One moment", { topic: null }],
    ["Hello", null],
    ["", null],
  ])("%j escalates as %j", (text, found) => expect(escalatingTopic(configured, text)).toEqual(found));
});

it.each([
  [{ targets: 2, written: 1, alive: 0 }, true],
  [{ targets: 2, written: 2, alive: 1 }, true],
  [{ targets: 2, written: 2, alive: 0 }, false],
  [{ targets: 0, written: 0, alive: 0 }, false],
])("a customer's message with notifications %j is passed on: %s", (state, is) => expect(isPassedOn(state)).toBe(is));

describe("the health of a channel", () => {
  const health: ChannelHealth = { channel: "c", agent: "a", state: "degraded", reason: "no route", forMs: 0 };
  const about = "channel:c:channel-down";
  const outages = (recovered: boolean) => new Map([[about, { row: escalation({ about }), recovered }]]);
  it.each([
    ["opens the first outage", "down", new Map(), ["channel:c:first"], 0],
    ["opens another one after the recovery", "down", outages(true), ["channel:c:e"], 0],
    ["does not open an outage that lasts", "down", outages(false), [], 0],
    ["ends an outage", "up", outages(false), [], 1],
    ["ends an outage once", "up", outages(true), [], 0],
    ["that was never down changes nothing", "up", new Map(), [], 0],
  ] as const)("%s", (_what, now, known, keys, recovered) => {
    const plan = planOutages([{ health, now }], known);
    expect(plan.triggers.map(({ key }) => key)).toEqual(keys);
    expect(plan.recovered).toHaveLength(recovered);
  });
});

describe("a poll", () => {
  const question: PlatformMessage = { id: "q", role: "person", text: "hello", answers: null };
  const human: PlatformMessage = { id: "h", role: "human", text: "I will help.", answers: null };
  const customer = {
    id: "k",
    channel: "c",
    person: "p",
    session: null,
    address: null,
    subject: null,
  } as Customer;
  const row: PollRow = { conversation: "k", channel: "c", mode: "ai", mark: "q", position: 1, failures: 0 };
  const facts: PollFacts = { known: new Set(["q"]), turns: [], customer, quiet: 0, escalation: null };
  const line = { channel: "c", agent: "a", traits: { platform: "email" }, settings: () => null } as never;
  const read = (over: Partial<PlatformMessages> = {}): PlatformMessages => ({
    messages: [question],
    start: 0,
    end: 1,
    skipped: 0,
    failure: null,
    ...over,
  });
  const plan = (
    mode: "ai" | "manual",
    over: Partial<PlatformMessages> = {},
    found: Partial<PollFacts> = {},
    watch: Partial<PollRow> = {},
  ) => planPoll({ ...row, ...watch }, { mode, read: read(over), until: 9 }, { ...facts, ...found }, line);
  const both = { messages: [question, human], end: 2 };
  const taken = escalation({ state: "acknowledged" });

  it("without news changes the mark alone", () =>
    expect(plan("ai")).toMatchObject({
      record: [],
      deliver: [],
      acknowledge: false,
      takeover: null,
      close: false,
      poll: { mark: "q", position: 1, failed: false },
    }));

  it.each([
    ["delivers a human's message and acknowledges", both, { escalation: escalation() }, 1, true],
    ["acknowledges what nobody else has", both, { escalation: taken }, 1, false],
    ["delivers without an escalation", both, {}, 1, false],
    ["delivers nothing to a deleted customer", both, { customer: null, escalation: escalation() }, 0, false],
    ["delivers nothing from a read that misses the mark", { ...both, messages: [human], start: 1 }, {}, 0, false],
  ])("%s", (_what, over, found, count, acknowledges) => {
    const { deliver, acknowledge } = plan("ai", over, found);
    expect([deliver.length, acknowledge]).toEqual([count, acknowledges]);
  });

  it.each([
    ["is one trigger for each newest message", {}, "mode:k:q"],
    ["is another trigger while messages cannot be read", { failure: { kind: "deferred" } as never }, "mode:k:q:9"],
  ])("a takeover %s", (_what, over, key) => expect(plan("manual", over).takeover?.trigger.key).toBe(key));

  it("a takeover is a change of the mode", () =>
    expect(plan("manual", {}, {}, { mode: "manual" }).takeover).toBeNull());

  it.each([
    ["an acknowledged one", { state: "acknowledged", cause: "held" }, {}, true],
    ["one that the platform knows", { cause: "topic" }, {}, true],
    ["one that is acknowledged by this poll", { cause: "held" }, both, true],
    ["none of an unknown cause", { cause: "held" }, {}, false],
  ] as const)("mode ai after a takeover closes %s", (_what, over, messages, closes) =>
    expect(plan("ai", messages, { escalation: escalation(over) }, { mode: "manual" }).close).toBe(closes),
  );

  it("that fails keeps the mark and the position", () =>
    expect(plan("ai", { messages: [], failure: { kind: "deferred" } as never }).poll).toMatchObject({
      mark: null,
      position: 1,
      failed: true,
    }));
});

describe("a platform webhook", () => {
  const hour = 3_600_000;
  const delivery = (over: Partial<StoredDelivery["row"]> = {}, conversation: string | null = "p"): StoredDelivery => ({
    row: { agent: "a", id: "w", kind: "escalation", body: "", attempts: 0, received_at: 5, age: 0, ...over },
    payload: { conversation, topic: "refund", reason: null, message: null, person: null },
  });
  const bound = new Map<string, BoundConversation>([["p", { id: "k", channel: "c", agent: "a" }]]);
  const plan = (one: StoredDelivery, isTopic = true) =>
    planDeliveries([one], bound, isTopic, new Map(), standardTiming.platformWebhook);

  it.each([
    ["escalates a known conversation and polls it", delivery(), true, ["webhook:a:w"], 1, ["done"], 0],
    ["polls for a message", delivery({ kind: "message" }), true, [], 1, ["done"], 0],
    ["polls when the policy has no such escalations", delivery(), false, [], 1, ["done"], 0],
    ["waits for an unknown conversation", delivery({}, "x"), true, [], 0, [], 1],
    ["escalates about the agent after the wait", delivery({ age: hour }, "x"), true, ["webhook:a:w"], 0, ["lost"], 0],
    [
      "ignores a message of a stranger after the wait",
      delivery({ age: hour, kind: "message" }, "x"),
      true,
      [],
      0,
      ["done"],
      0,
    ],
    ["escalates at once when it names no conversation", delivery({}, null), true, ["webhook:a:w"], 0, ["lost"], 0],
    [
      "counts again when only its hash identifies it",
      delivery({ id: "sha256:0" }),
      true,
      ["webhook:a:sha256:0:5"],
      1,
      ["done"],
      0,
    ],
  ] as const)("%s", (_what, one, isTopic, keys, polls, ended, postponed) => {
    const found = plan(one, isTopic);
    expect(found.triggers.map(({ key }) => key)).toEqual(keys);
    expect(found.ended.map(({ state }) => state)).toEqual(ended);
    expect([found.polls.length, found.postponed.length]).toEqual([polls, postponed]);
  });

  it("polls a conversation once for several deliveries", () => {
    const all = [delivery(), delivery({ id: "w2" })];
    const found = planDeliveries(all, bound, true, new Map(), standardTiming.platformWebhook);
    expect([found.polls.length, found.triggers.length, found.ended.length]).toEqual([1, 2, 2]);
  });

  it("is retried with backoff", () => {
    const { retry, retryLongest } = standardTiming.platformWebhook;
    const ms = (attempts: number) => plan(delivery({ attempts }, "x")).postponed[0]?.ms;
    expect([ms(0), ms(2), ms(30)]).toEqual([retry, 4 * retry, retryLongest]);
  });
});
