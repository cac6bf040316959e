// Decisions of stage send on rows: no database, no clock, no chance.

import { externalId, type SendOutcome } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRules } from "../../../src/pipeline/channel-runtime.ts";
import {
  concluded,
  endingOf,
  type HeadFacts,
  isHoldable,
  nextStep,
  pauseSteps,
  retriedLater,
} from "../../../src/pipeline/send/decide.ts";
import type { DraftRow } from "../../../src/store/tables/drafts.ts";
import { type Pause, wholeChannel } from "../../../src/store/tables/pauses.ts";
import { lineOf } from "../../support/rows.ts";

const backoff = { pace: "mail", timing: standardTiming, jitter: (ms: number) => ms } as const;
const rules = (over: Partial<ChannelRules> = {}) => lineOf({ rules: over }).rules;
const retries = { shortestRetry: 1000, lifetime: 5000 };
const sent = { kind: "sent", id: externalId("x") } as const;
const unknown: SendOutcome = { kind: "unknown", reason: "cut" };

describe("the head of a lane", () => {
  const head = {
    state: "queued",
    due_in: 0,
    forced: 0,
    suppressed: null,
    attempts: 0,
    internal: 0,
    released: 0,
    session: null,
  };
  const day = 24 * 3_600_000;
  const facts = (over: Partial<HeadFacts> = {}): HeadFacts => ({
    admission: null,
    superseded: false,
    byHuman: false,
    ...over,
  });
  it.each([
    ["due", head, false, { kind: "start" }],
    ["not due", { ...head, due_in: 1 }, false, { kind: "wait" }],
    ["held", { ...head, state: "held" }, false, { kind: "wait" }],
    ["failed", { ...head, state: "failed" }, false, { kind: "wait" }],
    ["unknown", { ...head, state: "unknown", due_in: 9, suppressed: "stop" }, true, { kind: "start" }],
    ["sending under an expired lease", { ...head, state: "sending" }, false, { kind: "start" }],
    [
      "suppressed",
      { ...head, suppressed: "stop" },
      false,
      { kind: "drop", reason: "suppressed: stop", notifies: "draft" },
    ],
    ["suppressed and forced", { ...head, suppressed: "stop", forced: 1 }, false, { kind: "start" }],
    ["suppressed and not due", { ...head, suppressed: "stop", due_in: 5 }, false, { kind: "wait" }],
    ["superseded", head, true, { kind: "drop", code: "superseded", notifies: "draft" }],
    ["overdue for as long as max_age", { ...head, due_in: -3 * day }, false, { kind: "start" }],
    [
      "overdue for longer",
      { ...head, due_in: -4 * day },
      false,
      { kind: "hold", code: "too-old", notifies: "channel" },
    ],
    ["overdue and tried before", { ...head, due_in: -4 * day, attempts: 1 }, false, { kind: "start" }],
    ["overdue and released", { ...head, due_in: -4 * day, released: 1 }, false, { kind: "start" }],
    ["overdue and for a responder", { ...head, due_in: -4 * day, internal: 1 }, false, { kind: "start" }],
  ] as const)("%s", (_, row, superseded, step) => {
    expect(nextStep(row, facts({ superseded }), { mode: "live", max_age: 3 * day })).toMatchObject(step);
  });

  it.each([
    ["due", head],
    ["found with an expired lease", { ...head, state: "sending" }],
    ["suppressed", { ...head, suppressed: "stop" }],
    ["held", { ...head, state: "held" }],
  ] as const)("leaves a draft that its call does not admit: %s", (_, row) => {
    const change = { state: "dropped", open: 0, reason: "the call has ended" } as const;
    const spoken = { ...row, session: "call" };
    const admission = { change, waitsForDisk: false };
    const loaded = facts({ admission, superseded: true });
    expect(nextStep(spoken, loaded, { mode: "live", max_age: day })).toEqual({ kind: "unspoken", change });
  });

  it.each([
    ["due", head, { kind: "hold", code: "shadow", notifies: null }],
    ["tried before", { ...head, attempts: 1 }, { kind: "hold", code: "shadow" }],
    ["not due", { ...head, due_in: 1 }, { kind: "wait" }],
    ["suppressed", { ...head, suppressed: "stop" }, { kind: "drop" }],
    ["of unknown outcome", { ...head, state: "unknown" }, { kind: "start" }],
    ["released by an operator", { ...head, released: 1 }, { kind: "start" }],
    ["for a responder", { ...head, internal: 1 }, { kind: "start" }],
    ["in a running call", { ...head, session: "call" }, { kind: "start" }],
  ] as const)("in shadow mode: %s", (_, row, step) => {
    expect(nextStep(row, facts(), { mode: "shadow", max_age: day })).toMatchObject(step);
  });

  it("in shadow mode: written by a human, who is notified", () => {
    const step = nextStep(head, facts({ byHuman: true }), { mode: "shadow", max_age: day });
    expect(step).toMatchObject({ kind: "hold", code: "shadow", notifies: "draft" });
  });

  it.each([
    ["a reply", {}, true],
    ["for a responder", { internal: 1 }, false],
    ["released by an operator", { released: 1 }, false],
    ["in a call", { session: "call" }, false],
  ] as const)("is held by shadow mode and the age limit: %s", (_, over, expected) => {
    expect(isHoldable({ ...head, ...over })).toBe(expected);
  });
});

describe("the outcome of an attempt", () => {
  const draft = { session: null, forced: 0, internal: 0, attempts: 0, trying_for: null };
  const days = 24 * 3_600_000;
  const refused: SendOutcome = { kind: "refused", code: "550", reason: "no" };
  const later: SendOutcome = { kind: "deferred", reason: "later" };
  const optOut = { by: "opt-out", reason: "no" };
  it.each<[SendOutcome, Partial<typeof draft> | { trying_for: number }, Partial<ChannelRules>, object]>([
    [sent, {}, {}, { change: { state: "sent", open: 0, externalId: "x" }, ids: ["x"] }],
    [{ ...sent, also: [externalId("y")] }, {}, {}, { change: { state: "sent" }, ids: ["x", "y"] }],
    [refused, {}, {}, { change: { state: "failed", open: 0, reason: "550: no" } }],
    [refused, {}, { on_permanent_failure: "block" }, { change: { state: "failed", open: 1 } }],
    // The later notifications of a responder do not wait for an operator.
    [refused, { internal: 1 }, { on_permanent_failure: "block" }, { change: { state: "failed", open: 0 } }],
    [
      { ...refused, scope: "recipient" },
      {},
      {},
      { change: { state: "failed" }, suppress: { by: "strike", reason: "no" } },
    ],
    [{ ...refused, code: "opted-out" }, {}, {}, { change: { state: "failed" }, suppress: optOut }],
    [{ ...refused, code: "opted-out" }, { forced: 1 }, {}, { change: { state: "dropped" }, suppress: optOut }],
    [
      { ...refused, code: "opted-out" },
      {},
      { on_permanent_failure: "block" },
      { change: { state: "failed", open: 1 } },
    ],
    // The dropped confirmation of a STOP is no failure that later texts wait for.
    [
      { ...refused, code: "opted-out" },
      { forced: 1 },
      { on_permanent_failure: "block" },
      { change: { state: "dropped", open: 0 } },
    ],
    [later, {}, {}, { change: { state: "queued", dueInMs: 30_000 } }],
    [later, { attempts: 1 }, {}, { change: { state: "queued", dueInMs: 300_000 } }],
    [{ ...later, retryAfterMs: 5000 }, {}, {}, { change: { state: "queued", dueInMs: 5000 } }],
    [retriedLater({ ...later, retryAfterMs: 5 }, retries), {}, {}, { change: { state: "queued", dueInMs: 1000 } }],
    [later, { trying_for: standardTiming.send.lifetime }, {}, { change: { state: "queued" } }],
    [later, { trying_for: 4 * days }, {}, { change: { state: "failed", reason: "given up: later" } }],
    [unknown, {}, {}, { change: { state: "unknown", open: 1, dueInMs: 500, reconcileForMs: 60_000 } }],
  ])("%o of %o under %o", (outcome, over, policy, ending) => {
    expect(endingOf(outcome, { ...draft, ...over }, rules(policy), backoff)).toMatchObject(ending);
  });

  it.each(["channel", "sender"] as const)("keeps the due time of a draft whose %s is paused", (scope) => {
    const change = { state: "queued", open: 1, reason: "later" };
    expect(endingOf({ ...later, scope }, draft, rules({}), backoff)).toEqual({ change });
  });
});

it.each<[SendOutcome, SendOutcome]>([
  [
    { kind: "deferred", reason: "later", retryAfterMs: 0 },
    { kind: "deferred", reason: "later", retryAfterMs: 1000 },
  ],
  [
    { kind: "deferred", reason: "later", retryAfterMs: 1001 },
    { kind: "deferred", reason: "later", retryAfterMs: 1001 },
  ],
  [
    { kind: "deferred", reason: "a time in place of a delay", retryAfterMs: 1_800_000_000_000 },
    { kind: "deferred", reason: "a time in place of a delay", retryAfterMs: 5000 },
  ],
  [
    { kind: "deferred", reason: "later" },
    { kind: "deferred", reason: "later" },
  ],
  [sent, sent],
  [unknown, unknown],
])("%o with the shortest retry and the lifetime is %o", (outcome, expected) => {
  expect(retriedLater(outcome, retries)).toEqual(expected);
});

describe("the outcome that counts, and its ending", () => {
  const later: SendOutcome = { kind: "deferred", reason: "later" };
  const soon: SendOutcome = { ...later, retryAfterMs: 5 };
  const queued = { state: "queued", open: 1, reason: "later" } as const;
  const spoken = { state: "dropped", open: 0, reason: "spoken" } as const;
  const asked: unknown[] = [];
  const sessions = {
    afterAttempt: (...given: unknown[]) => {
      asked.push(given);
      return spoken;
    },
  };
  const conclude = (outcome: SendOutcome, over: Partial<DraftRow>, platform: string, policy: Partial<ChannelRules>) => {
    const draft = { session: null, forced: 0, internal: 0, attempts: 0, trying_for: null, ...over } as DraftRow;
    const { traits } = lineOf();
    const line = { rules: rules(policy), traits: { ...traits, platform } };
    return concluded(outcome, draft, line, { sessions, timing: standardTiming }, (ms) => ms + 1);
  };

  it.each<[string, SendOutcome, string, Partial<ChannelRules>, ReturnType<typeof concluded>]>([
    [
      "of a mail that was sent",
      sent,
      "email",
      {},
      { outcome: sent, ending: { change: { state: "sent", open: 0, externalId: "x" }, ids: [sent.id] } },
    ],
    [
      "of a mail that is deferred: the schedule of mail, with jitter",
      later,
      "email",
      {},
      { outcome: later, ending: { change: { ...queued, dueInMs: 30_001 } } },
    ],
    [
      "of an SMS that is deferred: the schedule of phones",
      later,
      "sms",
      {},
      { outcome: later, ending: { change: { ...queued, dueInMs: 2001 } } },
    ],
    [
      "of a mail whose provider asks for an immediate retry",
      soon,
      "email",
      {},
      { outcome: { ...later, retryAfterMs: 1000 }, ending: { change: { ...queued, dueInMs: 1000 } } },
    ],
    [
      "of a refused mail: the policy of the channel",
      { kind: "refused", code: "550", reason: "no" },
      "email",
      { on_permanent_failure: "block" },
      {
        outcome: { kind: "refused", code: "550", reason: "no" },
        ending: { change: { state: "failed", open: 1, code: "550", reason: "550: no" } },
      },
    ],
  ])("%s", (_, outcome, platform, policy, expected) => {
    expect(conclude(outcome, {}, platform, policy)).toEqual(expected);
    expect(asked).toEqual([]);
  });

  it("in a call: the live session decides, and the outcome stays as it is", () => {
    expect(conclude(soon, { session: "s", trying_for: 7 }, "voice", {})).toEqual({
      outcome: soon,
      ending: { change: spoken },
    });
    conclude(sent, { session: "s" }, "voice", {});
    expect(asked).toEqual([
      [soon, 7],
      [sent, 0],
    ]);
  });
});

describe("pauses", () => {
  const pause = (over: Partial<Pause> = {}): Pause => ({
    sender: wholeChannel,
    cause: "unreachable",
    failures: 2,
    remaining: 5000,
    by_provider: 0,
    probe: null,
    reason: "away",
    ...over,
  });
  const failed: SendOutcome = { kind: "deferred", reason: "away", scope: "channel" };
  const begun = (failures: number, forMs: number, by_provider = false) => [
    { kind: "begin", sender: wholeChannel, failures, forMs, by_provider },
  ];
  const ended = [{ kind: "end", sender: wholeChannel }];
  it.each<[string, Pause[], SendOutcome, object[]]>([
    ["begins at the first failure", [], failed, begun(1, 5000)],
    ["is not extended by concurrent failures", [pause()], failed, []],
    ["is extended by its probe's failure", [pause({ probe: "d" })], failed, begun(3, 20_000)],
    ["is not shortened by a Retry-After", [pause()], { ...failed, retryAfterMs: 3000 }, []],
    [
      "of the sender continues when its probe meets a failure of the channel",
      [pause({ sender: "", probe: "d" })],
      failed,
      [...begun(1, 5000), { kind: "begin", sender: "", failures: 2, forMs: 10_000 }],
    ],
    ["is extended by a longer Retry-After", [pause()], { ...failed, retryAfterMs: 9000 }, begun(2, 9000, true)],
    [
      "is as long as the shortest retry when the provider asks for an immediate one",
      [],
      retriedLater({ ...failed, retryAfterMs: 0 }, retries),
      begun(1, 1000, true),
    ],
    [
      "of the sender begins at the first failure of the sender",
      [],
      { ...failed, scope: "sender" },
      [{ kind: "begin", sender: "", failures: 1, forMs: 5000 }],
    ],
    ["that is over counts further with the next failure", [pause({ remaining: 0 })], failed, begun(3, 20_000)],
    ["is not extended by a Retry-After as long as itself", [pause()], { ...failed, retryAfterMs: 5000 }, []],
    ["ends with a success", [pause()], sent, ended],
    ["ends with a refusal, which is an answer", [pause()], { kind: "refused", code: "550", reason: "no" }, ended],
    ["ends with a success at the provider's time", [pause({ by_provider: 1, remaining: 0 })], sent, ended],
    ["is not concerned by another draft's unknown outcome", [pause()], unknown, []],
    ["does not end with a success before the provider's time", [pause({ by_provider: 1 })], sent, []],
    ["continues after a probe of unknown outcome", [pause({ probe: "d" })], unknown, begun(2, 10_000)],
    ["of another sender is not concerned", [pause({ sender: "+1" })], sent, []],
    ["is not begun by a failure of the draft alone", [], { kind: "deferred", reason: "greylisted" }, []],
  ])("%s", (_, pauses, outcome, steps) => {
    const found = pauseSteps(pauses, "d", "", outcome, backoff);
    expect(found).toMatchObject(steps);
    expect(found).toHaveLength(steps.length);
  });
});
