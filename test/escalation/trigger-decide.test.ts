// Decisions about triggers, channel outages and polls, on rows without a database.

import { describe, expect, it } from "vitest";
import type { PlatformMessage, PlatformMessages } from "../../src/agent/calls.ts";
import type { Cause, Policy } from "../../src/domain/policy.ts";
import { judgeHealth, planOutages } from "../../src/escalation/health/decide.ts";
import { clipped } from "../../src/escalation/notify/text.ts";
import { type PollFacts, planPoll, retryAfter, retryIn, takeoverTrigger } from "../../src/escalation/poll/decide.ts";
import type { PollRow } from "../../src/escalation/poll/rows.ts";
import type { Customer } from "../../src/escalation/reply/rows.ts";
import {
  answerTrigger,
  escalatingTopic,
  isPassedOn,
  passOn,
  planAnswer,
  planFailed,
  planTriggers,
  type Subject,
  undeliverableTrigger,
} from "../../src/escalation/trigger/decide.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { ChannelHealth, EscalationTrigger } from "../../src/pipeline/escalation.ts";
import { allKnown, type ConversationRow } from "../../src/store/tables/conversations.ts";
import type { EscalationRow } from "../../src/store/tables/escalations.ts";
import type { TurnRow } from "../../src/store/tables/turns.ts";
import { activeSettings, notification, policyOf, runtimeOf, runtimesOf, triggerOf } from "../support/rows.ts";

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
    const plan = planned(triggerOf(over), about);
    expect(plan.opened.map((one) => one.about)).toEqual(opened);
    expect(plan.recorded.map((one) => one.escalation)).toEqual(recorded);
    expect(plan.updates).toHaveLength(updates);
  });

  it("opens one escalation for several triggers of one subject", () => {
    const both = [triggerOf(), triggerOf({ key: "webhook:1", source: "webhook" })];
    const plan = planTriggers(both, [subject(), subject()], () => "new");
    expect([plan.opened.map(({ key }) => key), plan.recorded.length]).toEqual([[triggerOf().key], 2]);
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

  const settings = { ...activeSettings(), escalations: configured } as never;
  it.each([
    ["with an escalation response", settings, "One moment", "p", ["topic", "response:p", null]],
    ["without an id on the platform", settings, "A colleague answers.", null, ["topic", "response:t", "refund"]],
    ["with another text", settings, "Hello", "p", null],
    ["before the settings were read", null, "One moment", "p", null],
    ["without a text", settings, null, "p", ["silent", "silent:t", null]],
    ["with white space alone", null, " \n", "p", ["silent", "silent:t", null]],
  ] as const)("%s is a trigger: %s", (_what, read, text, replyId, expected) => {
    const line = runtimeOf("c", { settings: () => read });
    const found = answerTrigger(line, { id: "t", conversation: "k" }, { text, replyId });
    expect(found && [found.cause, found.key, found.topic]).toEqual(expected);
    if (found) expect(found).toMatchObject({ channel: "c", agent: "agent", conversation: "k" });
  });
});

describe("a turn without an answer", () => {
  const turn = (person: string) => ({ id: "t", person, question: "Hello?" });
  const passed = escalation({ state: "acknowledged" });
  const of = (text: string) => ({ row: passed, subject: "t", text });
  it.each([
    ["is a trigger without an escalation", null, "Ann", "ann@x", null],
    ["is a trigger while no responder has acknowledged", escalation(), "Ann", "ann@x", null],
    ["is a trigger after the close", closed, "Ann", "ann@x", null],
    ["is passed on to the responder", passed, "Ann", "ann@x", of("7, Ann: Hello?")],
    ["names the customer by the address", passed, null, "ann@x", of("7, ann@x: Hello?")],
    ["names another sender in the thread", passed, "Ann", "bob@x", of("7, bob@x (in the thread of Ann): Hello?")],
  ])("%s", (_what, row, name, from, expected) => {
    expect(passOn(row, { person: "ann@x", person_name: name }, turn(from))).toEqual(expected);
  });

  it("is passed on up to a limit, whoever it is passed on by", () => {
    const question = "x".repeat(1_000_000);
    const passedOn = passOn(passed, { person: "ann@x", person_name: "Ann" }, { ...turn("ann@x"), question })?.text;
    const rest = "\n[980108 more characters: the command escalation show 7 prints them]";
    expect(passedOn).toBe(`7, Ann: ${"x".repeat(19_892)}${rest}`);
    expect(clipped(passedOn ?? "", 7)).toBe(passedOn);
    const [update] = planned(triggerOf({ said: question }), subject({ row: passed })).updates;
    expect(update?.text).toMatch(/^7: .*\nThe customer wrote: x+\n\[\d+ more characters/);
    expect(update?.text.length).toBeLessThanOrEqual(20_000);
  });
});

describe("an answer that is a trigger", () => {
  const conversation = { id: "k", person: "ann@x", person_name: "Ann" } as ConversationRow;
  const turn = (session: string | null) => ({ id: "t", person: "ann@x", question: "Hello?", session }) as TurnRow;
  const silent = triggerOf({ source: "ours", cause: "silent" });
  const passed = escalation({ state: "acknowledged" });
  const causes = (...all: readonly Cause[]) => ({ causes: all });
  it.each([
    ["opens an escalation", triggerOf(), null, causes("topic"), "open", false],
    ["has no effect without its cause in the policy", triggerOf(), null, causes("held"), null, false],
    ["is logged without a policy", triggerOf(), null, null, "log", false],
    ["is not logged without a policy when the agent is silent", silent, null, null, null, false],
    ["opens one when the agent is silent", silent, escalation(), causes("silent"), "open", false],
    ["goes to the responder instead when the agent is silent", silent, passed, causes("silent"), null, true],
    ["goes to the responder whatever the policy says", silent, passed, null, null, true],
    [
      "does not go to the responder when the agent escalates again",
      triggerOf(),
      passed,
      causes("topic"),
      "open",
      false,
    ],
  ] as const)("%s", (_what, one, row, policy, effect, isPassed) => {
    const plan = planAnswer(one, row, { conversation, turn: turn(null) }, policy);
    expect([plan.effect, plan.update !== null, plan.transfers]).toEqual([effect, isPassed, false]);
  });

  it("transfers the call, unless the agent is silent", () => {
    const transfers = (one: EscalationTrigger) =>
      planAnswer(one, null, { conversation, turn: turn("s") }, null).transfers;
    expect([transfers(triggerOf()), transfers(silent)]).toEqual([true, false]);
  });
});

describe("a reply that cannot be delivered", () => {
  const answer = { isHumans: false, attempts: 2 };
  const humans = { isHumans: true, attempts: 2 };
  const lost = (state: string) => `the answer did not reach the customer (${state}): no`;
  it.each([
    ["is a trigger of this attempt", "failed", answer, true, ["draft:d:failed:2", "turn-failed", "no", undefined]],
    [
      "is a trigger of its own cause when it is held",
      "held",
      answer,
      true,
      ["draft:d:held:2", "held", "no", undefined],
    ],
    ["is none when it was dropped", "dropped", answer, true, null],
    [
      "is news when a human wrote it",
      "failed",
      humans,
      true,
      ["draft:d:failed:2", "turn-failed", lost("failed"), true],
    ],
    ["is news when it was held", "held", humans, true, ["draft:d:held:2", "held", lost("held"), true]],
    [
      "is news when it was dropped",
      "dropped",
      humans,
      true,
      ["draft:d:dropped:2", "turn-failed", lost("dropped"), true],
    ],
    [
      "of a human is no news without a policy",
      "failed",
      humans,
      false,
      ["draft:d:failed:2", "turn-failed", "no", undefined],
    ],
    ["of a human is no trigger without a policy when it was dropped", "dropped", humans, false, null],
  ] as const)("%s", (_what, state, about, hasPolicy, expected) => {
    const draft = { id: "d", conversation: "k" };
    const found = undeliverableTrigger(runtimeOf("c"), draft, { state, reason: "no" }, about, hasPolicy);
    expect(found && [found.key, found.cause, found.reason, found.news]).toEqual(expected);
    if (found) expect(found).toMatchObject({ channel: "c", agent: "agent", conversation: "k", source: "ours" });
  });
});

describe("a customer's message", () => {
  const running = runtimesOf("c", "sms");
  const on = (targets: number, written: number, alive: number, channel = "c") => ({ channel, targets, written, alive });
  it.each([
    [[on(2, 1, 0)], true],
    [[on(2, 2, 1)], true],
    [[on(2, 2, 0)], false],
    [[on(0, 0, 0)], false],
    [[on(1, 1, 0), on(1, 1, 1, "sms")], true],
    [[on(1, 1, 0), on(1, 0, 0, "sms")], true],
    [[on(1, 1, 0), on(2, 1, 1, "removed")], false],
    [[], false],
  ])("with notifications %j is passed on: %s", (all, is) => expect(isPassedOn(all, running)).toBe(is));

  const row = escalation({ state: "acknowledged" });
  const rows = new Map([["e", row]]);
  const message = notification("1", { kind: "customer", subject: "t", text: "Hello?" });
  it.each([
    ["goes to all targets when a notification of it fails", [on(2, 1, 0)], false],
    ["is lost when no responder receives it", [on(1, 1, 0)], true],
  ])("%s", (_what, all, isLost) => {
    const plan = planFailed([message], { rows, on: new Map([["1", all]]) }, running);
    expect(plan).toEqual({ hastened: [], passed: [{ row, subject: "t", text: "Hello?", isLost }] });
  });

  it("has no effect when its escalation does not exist", () =>
    expect(planFailed([message], { rows: new Map(), on: new Map() }, running)).toEqual({ hastened: [], passed: [] }));
});

it.each(["opened", "reminder", "acknowledged", "message"] as const)(
  "a failed notification of kind %s makes the next step of the policy due",
  (kind) => {
    const failed = [notification("1", { kind })];
    const plan = planFailed(failed, { rows: new Map([["e", escalation()]]), on: new Map() }, runtimesOf("sms"));
    expect(plan).toEqual({ hastened: ["e"], passed: [] });
  },
);

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
    const plan = planOutages([{ health, state: now }], known);
    expect(plan.triggers.map(({ key }) => key)).toEqual(keys);
    expect(plan.recovered).toHaveLength(recovered);
  });

  const at = (since: number) => [[about, since]];
  it.each([
    ["has fallen when its state began, and is undecided", { forMs: 40 }, [], [], at(960)],
    ["is down after the limit", { forMs: 100 }, [], ["down"], at(900)],
    ["is down since it fell, whatever failed in between", { forMs: 1 }, at(900), ["down"], at(900)],
    ["is undecided while it connects", { state: "connecting" }, [], [], []],
    ["does not recover when it connects", { state: "connecting" }, at(100), [], at(100)],
    ["is up when it is ready", { state: "ready" }, at(900), ["up"], []],
    ["is undecided before the agent has accepted its key", { state: "ready", isAgentUnknown: true }, at(900), [], []],
    ["falls when its agent cannot be asked", { state: "ready", forMs: 500, agentProblem: "key" }, [], [], at(1000)],
    ["is down while its agent cannot be asked", { state: "ready", agentProblem: "key" }, at(900), ["down"], at(900)],
  ] as const)("%s", (_what, over, fallen, states, next) => {
    const before = new Map(fallen as readonly (readonly [string, number])[]);
    const found = judgeHealth([{ ...health, ...over }], before, 100, 1000);
    expect(found.judged.map(({ state }) => state)).toEqual(states);
    expect([...found.fallen]).toEqual(next);
    expect([...before]).toEqual(fallen);
  });

  it("that does not run any more is forgotten", () =>
    expect(judgeHealth([], new Map([[about, 900]]), 100, 1000)).toEqual({ judged: [], fallen: new Map() }));
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
  const facts: PollFacts = {
    known: new Set(["q"]),
    elsewhere: new Map(),
    turns: [],
    customer,
    quiet: 0,
    escalation: null,
    isKnownElsewhere: false,
    isAskedElsewhere: false,
    hasUnsent: true,
  };
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
    { policy = null, about = subject() }: { readonly policy?: Policy | null; readonly about?: Subject } = {},
  ) => {
    const [polled, result] = [
      { ...row, ...watch },
      { mode, read: read(over), until: 9 },
    ];
    const takenOver = takeoverTrigger(polled, result, line);
    const takeover = takenOver && { trigger: takenOver, subject: about };
    const settings = { policy, timing: standardTiming.escalation };
    return planPoll(polled, result, { ...facts, ...found, takeover }, line, settings);
  };
  const both = { messages: [question, human], end: 2 };
  const taken = escalation({ state: "acknowledged" });

  it("without news changes the mark alone", () => {
    const nothing = { record: [], deliver: [], acknowledge: false, takeover: null, close: false };
    expect(plan("ai")).toMatchObject({ ...nothing, poll: { mark: "q", position: 1, failed: false } });
  });

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

  it("knows what the agent has said since a human's answer, and does not ask in a call", () => {
    const since = {
      messages: [question, human, { ...question, id: "q2" }, { ...human, id: "a2", role: "agent" }],
    } as const;
    const after = (over: object, platform = "email", hasUnsent = true, to: Customer | null = facts.customer) =>
      planPoll(
        row,
        { mode: "ai", read: read(over), until: 9 },
        { ...facts, hasUnsent, customer: to, takeover: null },
        { traits: { platform }, settings: () => null } as never,
        { policy: null, timing: standardTiming.escalation },
      );
    const found = [after({}), after(both), after(since), after(both, "email", false)];
    expect(found.map(({ later }) => later)).toEqual([null, new Set(), new Set(["q2", "a2"]), null]);
    const [isOver, erased] = [after(since, "voice"), after(both, "voice", true, null)];
    expect([isOver.deliver, isOver.record, erased.record]).toEqual([[], [human], []]);
    const inCall = after(both, "voice", true, { ...customer, session: "s" });
    expect([inCall.deliver.length, inCall.undelivered, inCall.later]).toEqual([1, [], null]);
  });

  it("records nothing of an erased customer after a restore", () => {
    const restored = (found: Partial<PollFacts>) => plan("ai", both, found, { mark: null, position: allKnown }).record;
    expect([restored({}).length, restored({ customer: null }).length]).toEqual([1, 0]);
  });

  it.each([
    ["is one trigger for each newest message", {}, "mode:k:q"],
    ["is another trigger while messages cannot be read", { failure: { kind: "deferred" } as never }, "mode:k:q:9"],
  ])("a takeover %s", (_what, over, key) => expect(plan("manual", over).takeover?.trigger.key).toBe(key));

  it("one takeover is one escalation, however many threads share the platform's conversation", () => {
    const effect = (found: Partial<PollFacts>) =>
      plan("manual", {}, found, {}, { policy: policyOf() }).takeover?.effect;
    expect(effect({ isKnownElsewhere: true })).toBeNull();
    expect(effect({ isKnownElsewhere: true, escalation: escalation() })).toBe("open");
    expect(effect({})).toBe("open");
  });

  it("a takeover keeps the agent's escalation response, however the platform has changed its white space and case", () => {
    const escalations = [{ topic: "refund", response: "A colleague\n answers." }];
    const [polled, result] = [row, { mode: "manual", read: read(), until: 9 } as const];
    const takenOver = takeoverTrigger(polled, result, line);
    const about = { ...facts, takeover: takenOver && { trigger: takenOver, subject: subject() } };
    const configured = { traits: { platform: "email" }, settings: () => ({ escalations }) } as never;
    const settings = { policy: null, timing: standardTiming.escalation };
    const { takeover } = planPoll(polled, result, about, configured, settings);
    const texts = ["a colleague answers. ", "Another answer"];
    expect(texts.map((text) => takeover?.isResponse(text))).toEqual([true, false]);
  });

  it("a takeover is a change of the mode", () =>
    expect(plan("manual", {}, {}, { mode: "manual" }).takeover).toBeNull());

  it.each([
    ["an acknowledged one", { state: "acknowledged", cause: "held" }, {}, true],
    ["one that the platform knows", { cause: "topic" }, {}, true],
    ["one about a message without an answer", { cause: "silent" }, {}, true],
    ["one that is acknowledged by this poll", { cause: "held" }, both, true],
    ["none of an unknown cause", { cause: "held" }, {}, false],
  ] as const)("mode ai after a takeover closes %s", (_what, over, messages, closes) =>
    expect(plan("ai", messages, { escalation: escalation(over) }, { mode: "manual" }).close).toBe(closes),
  );

  const { pollOpen, poll: pollSoon } = standardTiming.escalation;
  const [withTopic, withoutTopic] = [policyOf({ poll: pollSoon, pollOpen }), policyOf({ causes: ["held"] })];
  it.each([
    ["opens an escalation", withTopic, {}, "open", pollOpen],
    ["extends an open one", withTopic, { row: escalation() }, "open", pollOpen],
    ["is a late report about a closed one", withTopic, { row: escalation({ state: "closed" }) }, "open", null],
    ["was recorded before", withTopic, { triggered: true }, "open", null],
    ["is logged without a policy", null, {}, "log", null],
    ["has no effect without its cause in the policy", withoutTopic, {}, null, null],
  ])("a takeover %s: the pause is decided before the writes", (_what, policy, about, effect, nextMs) => {
    const found = plan("manual", {}, { quiet: null }, {}, { policy, about: subject(about) });
    expect([found.takeover?.effect, found.poll.nextMs]).toEqual([effect, nextMs]);
  });

  it("is soon followed by another one while an escalation is open, and later when it is closed or fails", () => {
    const open = { escalation: escalation() };
    expect(plan("ai", {}, open).poll.nextMs).toBe(pollOpen);
    expect(plan("ai", {}, open, { mode: "manual" })).toMatchObject({ close: true, poll: { nextMs: pollSoon } });
    const failed = plan("ai", { failure: { kind: "deferred" } as never }, open);
    expect(failed.poll.nextMs).toBe(retryIn(row, standardTiming.escalation));
  });

  it.each([
    ["that fails keeps the mark and the position", [], {}, {}, 1, true],
    ["that fails sets no mark before the first one that succeeds", [question], {}, { mark: null }, 1, true],
    ["that fails behind its mark reads everything next time", [human], { start: 1 }, {}, 0, true],
    ["whose messages are gone reads everything next time", [], { end: 0, failure: null }, {}, 0, false],
    ["whose messages are too large sets no mark", [], { failure: null, skipped: 1 }, { mark: null }, 0, false],
  ])("%s", (_what, messages, over, watch, position, failed) => {
    const { poll } = plan("ai", { messages, failure: { kind: "deferred" } as never, ...over }, {}, watch);
    expect(poll).toMatchObject({ mark: null, position, failed });
  });
});

it.each([
  ["unauthorized", 0, false, true],
  ["unauthorized", 0, true, false],
  ["missing", 0, true, false],
  ["missing", 59, false, true],
  ["missing", 60, false, false],
  ["deferred", 60, true, true],
] as const)(
  "a poll that is %s after %d failures (of a former agent: %s) is retried: %s",
  (kind, failures, isFormer, is) =>
    expect(retryAfter({ failures }, kind, isFormer, standardTiming.escalation) !== null).toBe(is),
);
