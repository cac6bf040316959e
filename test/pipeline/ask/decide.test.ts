// The decisions of stage ask: pure functions, tested without a store.

import { describe, expect, it } from "vitest";
import { attemptLimit } from "../../../src/domain/retry.ts";
import { standardTiming as timing, timingWith } from "../../../src/ops/timing.ts";
import {
  afterAbsence,
  afterFailedCall,
  afterFailedLookup,
  afterPending,
  afterWaiting,
  agentProblem,
  beforeAsking,
  callsOf,
  isUnasked,
  opensByCreate,
  repeatable,
  startsWithEffect,
  whyNotAsk,
} from "../../../src/pipeline/ask/decide.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import type { ConversationRow } from "../../../src/store/tables/conversations.ts";
import type { TurnRow } from "../../../src/store/tables/turns.ts";
import { activeSettings, lineOf, turnRow as turn } from "../../support/rows.ts";

const sent = { recorded: true, obsolete: false, unbound: null, askedAt: null, early: null };
const asked = (over: Partial<TurnRow> = {}) => ({ turn: turn(over), timing });
const failed = (result: Parameters<typeof afterFailedCall>[1], over: Partial<TurnRow> = {}, attempt = sent) =>
  afterFailedCall({ ...asked(over), attempt }, result);

const settings = activeSettings();
const { email: skill } = settings;
const inactive = { ...activeSettings().email, status: "inactive" } as NonNullable<typeof skill>;
const lineWith = (platform: string | null, over: Partial<ChannelRuntime> = {}): ChannelRuntime => {
  const line = lineOf();
  return { ...line, traits: { ...line.traits, platform }, ...over };
};
const neverRead = "the agent's settings were never read: the platform has not answered yet";

describe("a question waits", () => {
  it.each<[string, ChannelRuntime, string | null]>([
    ["not, when the agent has the skill", lineWith("email"), null],
    ["on a channel of notices", lineWith(null, { problem: () => "401" }), "the channel carries notices only"],
    ["while the key is refused", lineWith("email", { problem: () => "401", settings: () => null }), "401"],
    ["not, while the model's key is refused: it is asked again", lineWith("email", { refusal: () => "401" }), null],
    ["until the settings were read", lineWith("email", { settings: () => null }), neverRead],
    [
      "while the agent is inactive",
      lineWith("email", { settings: () => ({ ...settings, status: "inactive" }) }),
      "the agent is inactive",
    ],
    ["without the skill", lineWith("sms"), "the agent has no sms skill"],
    [
      "while the skill is inactive",
      lineWith("email", { settings: () => ({ ...settings, email: inactive }) }),
      "the agent's email skill is inactive",
    ],
    ["not, in a call without a skill", lineWith("voice"), null],
    [
      "in a call while its skill is inactive",
      lineWith("voice", { settings: () => ({ ...settings, voice: inactive }) }),
      "the agent's voice skill is inactive",
    ],
    ["not, on a channel that needs no skill", lineWith("chat"), null],
    [
      "while the skill of such a channel is inactive",
      lineWith("chat", { settings: () => ({ ...settings, skills: { chat: inactive } }) }),
      "the agent's chat skill is inactive",
    ],
  ])("%s", (_what, line, why) => expect(whyNotAsk(line)).toBe(why));

  it.each<[string, ChannelRuntime, string | null]>([
    ["no agent", lineWith(null, { refusal: () => "401", settings: () => null }), null],
    ["an agent that can be asked", lineWith("email"), null],
    ["an inactive agent", lineWith("email", { settings: () => ({ ...settings, status: "inactive" }) }), null],
    ["an agent with a refused key", lineWith("email", { refusal: () => "401", settings: () => null }), "401"],
    ["an agent without settings", lineWith("email", { settings: () => null }), neverRead],
  ])("without an operator's doing for %s", (_what, line, problem) => expect(agentProblem(line)).toBe(problem));
});

describe("the conversation of the platform", () => {
  const conversation = (over: Partial<ConversationRow> = {}) =>
    ({ person: "+15550100", platform_id: null, ...over }) as ConversationRow;
  const skilled = { settings: () => ({ ...settings, sms: skill, voice: skill }) };
  const byCreate = { rules: { ...lineOf().rules, opening: "create" } } as const;
  const mail = { person: "ada@example.org" };

  it.each<[string, ChannelRuntime, Partial<ConversationRow>, boolean]>([
    ["is started for a mail", lineWith("email"), mail, false],
    ["is started for an SMS", lineWith("sms", skilled), {}, false],
    ["is started for a call", lineWith("voice", skilled), {}, false],
    ["is created where the channel says so", lineWith("email", byCreate), mail, true],
    ["is created on a channel that cannot start one", lineWith("chat"), {}, true],
    ["is created for a call without a skill", lineWith("voice"), {}, true],
    [
      "is created for a call with an inactive skill",
      lineWith("voice", { settings: () => ({ ...settings, voice: inactive }) }),
      {},
      true,
    ],
    ["is created for a withheld number", lineWith("voice", skilled), { person: "anonymous" }, true],
    ["is created for a short code", lineWith("sms", skilled), { person: "12345" }, true],
    ["is neither when it is open", lineWith("chat", byCreate), { platform_id: "p" }, false],
  ])("%s", (_what, line, over, is) => expect(opensByCreate(line, conversation(over))).toBe(is));

  const start = (over: Partial<TurnRow>, platform_id: string | null, isCreated: boolean) => ({
    turn: turn(over),
    conversation: conversation({ platform_id }),
    isCreated,
  });
  const opening = { opening: "{}" };
  const relayed = { kind: "relayed" } as const;
  const asking = { state: "asking" } as const;

  it.each<[string, ReturnType<typeof start>, number, boolean]>([
    ["a question in an open conversation", start({}, "p", false), 1, true],
    ["a human's text in an open conversation", start(relayed, "p", false), 2, false],
    ["a lookup in an open conversation, with the question again", start(asking, "p", false), 2, false],
    ["a question that starts the conversation", start({}, null, false), 2, true],
    ["a question that creates the conversation", start({}, null, true), 4, false],
    ["an opening that starts the conversation", start(opening, null, false), 1, true],
    ["an opening that creates the conversation", start(opening, null, true), 3, false],
    ["an opening in a conversation that is open already", start(opening, "p", false), 1, false],
    ["a lookup of a start", start(asking, null, false), 1, false],
    ["a lookup of a creation", start(asking, null, true), 1, false],
    ["a question of a call", start({ session: "s" }, "p", false), 1, false],
  ])(
    "%s takes at most the calls that are counted, the first with the effect or not",
    (_what, given, calls, isFirst) => {
      expect([callsOf(given), startsWithEffect(given)]).toEqual([calls, isFirst]);
    },
  );
});

describe("before a question", () => {
  const before = (over: Partial<TurnRow>, suppressed: string | null = null, waited = 2000) =>
    beforeAsking({ turn: turn({ age: waited, ...over }), suppressed, waited }, 1000);

  it("drops it when its recipient is suppressed, also when it was tried before", () => {
    const dropped = { kind: "drop", code: "suppressed", reason: "suppressed: STOP", readAt: 2000 };
    expect(before({}, "STOP")).toEqual(dropped);
    expect(before({ attempts: 1, reason: "released" }, "STOP")).toEqual(dropped);
  });

  it("holds it when it waited too long for its first attempt", () => {
    expect(before({ received_at: 500 })).toMatchObject({ kind: "hold", code: "too-old", readAt: 2500 });
    expect(before({ age: 500 })).toEqual({ kind: "ask" });
    for (const tried of [{ attempts: 1 }, { reason: "released by an operator" }, { event: null }])
      expect(before(tried)).toEqual({ kind: "ask" });
  });

  it("exempts turns of a call, turns that a human wrote, and turns that may have been asked", () => {
    for (const exempt of [{ session: "s" }, { kind: "relayed" }, { state: "unknown" }] as const)
      expect(before(exempt, "STOP")).toEqual({ kind: "ask" });
  });
});

it.each<[Partial<TurnRow>, boolean]>([
  [{}, true],
  [{ attempts: 1, reason: "released" }, true],
  [{ state: "asking" }, false],
  [{ state: "unknown" }, false],
  [{ session: "s" }, false],
  [{ kind: "relayed" }, false],
])("a turn %o is dropped or held without an attempt: %s", (over, is) => expect(isUnasked(turn(over))).toBe(is));

it("a turn that is not asked is dropped for a suppression, else held for its age, as of when it was read", () => {
  const found = { turn: turn({ received_at: 500, age: 7_200_000 }), suppressed: null, waited: 10_800_000 };
  const readAt = 7_200_500;
  const reason = "waited 2 h; max_age is 1 h";
  expect(afterWaiting(found, 3_600_000)).toEqual({ kind: "hold", code: "too-old", reason, readAt });
  const dropped = { kind: "drop", code: "suppressed", reason: "suppressed: STOP", readAt };
  expect(afterWaiting({ ...found, suppressed: "STOP" }, 3_600_000)).toEqual(dropped);
});

describe("after a failed call", () => {
  it("hands the lane back when the turn changed before the crossing", () => {
    const obsolete = { ...sent, obsolete: true };
    expect(failed({ kind: "deferred", reason: "x" }, {}, obsolete)).toEqual({ kind: "hand-back" });
  });

  it("retries a deferred call with growing backoff, at the earliest after Retry-After", () => {
    const delayOf = (over: Partial<TurnRow>, retryAfterMs?: number) => {
      const result = { kind: "deferred", reason: "503", ...(retryAfterMs ? { retryAfterMs } : {}) } as const;
      const decision = failed(result, over);
      return decision.kind === "retry" ? decision.delay : null;
    };
    expect([0, 1, 2, 9].map((attempts) => delayOf({ attempts }))).toEqual([1000, 5000, 15_000, 300_000]);
    expect(delayOf({ attempts: 0 }, 42_000)).toBe(42_000);
    // The attempt of a turn that waits is not counted yet.
    expect([1, 2].map((attempts) => delayOf({ attempts, state: "asking" }))).toEqual([1000, 5000]);
    expect(delayOf({ trying_for: timing.ask.lifetime }), "not over yet").toBe(delayOf({}));
  });

  it("delays the calls of all nodes after 429, by the window of the limit at most", () => {
    const decision = failed({ kind: "deferred", reason: "429", limited: true }, { attempts: 9 });
    expect(decision).toMatchObject({ kind: "retry", delay: timing.rate.window, penalty: timing.rate.window });
  });

  it("gives up a question that was deferred for its whole lifetime", () => {
    const decision = failed({ kind: "deferred", reason: "503" }, { trying_for: timing.ask.lifetime + 1 });
    expect(decision).toEqual({
      kind: "failed",
      outcome: "deferred",
      reason: "given up: 503",
      questionId: null,
    });
  });

  it("looks up an unknown outcome, fails a refusal, and reopens a missing conversation", () => {
    expect(failed({ kind: "unknown", reason: "cut" })).toMatchObject({ kind: "unknown", delay: 500 });
    expect(failed({ kind: "refused", status: 400, reason: "400" })).toMatchObject({
      kind: "failed",
      outcome: "refused",
    });
    expect(failed({ kind: "missing", reason: "404" })).toEqual({ kind: "gone", reason: "404" });
    expect(failed({ kind: "unauthorized", reason: "401" })).toMatchObject({ kind: "retry", penalty: 0 });
  });

  it("treats an idempotent call of unknown outcome as deferred, and nothing else", () => {
    expect(repeatable({ kind: "unknown", reason: "cut" })).toEqual({ kind: "deferred", reason: "cut" });
    expect(repeatable({ kind: "refused", status: 400, reason: "400" })).toMatchObject({ kind: "refused" });
  });
});

it("takes every delay from the timing table", () => {
  const quick = timingWith({ ask: { retry: [7], lookup: [8], lifetime: 9 }, rate: { window: 5 } });
  const asking = { turn: turn({ attempts: 3 }), attempt: sent, timing: quick };
  const deferred = { kind: "deferred", reason: "503" } as const;
  expect(afterFailedCall(asking, deferred)).toMatchObject({ kind: "retry", delay: 7 });
  expect(afterFailedCall(asking, { ...deferred, limited: true })).toMatchObject({ delay: 5, penalty: 5 });
  expect(afterFailedCall(asking, { kind: "unknown", reason: "cut" })).toMatchObject({ kind: "unknown", delay: 8 });
  expect(afterFailedLookup(asking, deferred)).toMatchObject({ kind: "unknown", delay: 8 });
  expect(afterFailedCall({ ...asking, turn: turn({ trying_for: 10 }) }, deferred)).toMatchObject({ kind: "failed" });
});

describe("after a lookup", () => {
  const why = { early: "not there yet", final: "the question never arrived" };

  it("waits for the settle time before it believes that nothing was stored", () => {
    const early = afterAbsence(asked({ over_ago: 4000, lookups: 9 }), 10_000, why);
    expect(early).toMatchObject({ kind: "unknown", reason: "not there yet", delay: 6010 });
    const delays = [0, 1].map((lookups) => afterAbsence(asked({ over_ago: 0, lookups }), 60_000, why));
    expect(delays).toMatchObject(timing.ask.lookup.slice(0, 2).map((delay) => ({ delay })));
    const late = afterAbsence(asked({ over_ago: 10_000, attempts: 1 }), 10_000, why);
    expect(late).toMatchObject({ kind: "retry", outcome: "refused", delay: 1000 });
    expect(afterAbsence(asked({ over_ago: null }), 10_000, why).kind).toBe("unknown");
  });

  it("asks no more often than the limit", () => {
    const last = afterAbsence(asked({ over_ago: 10_000, attempts: attemptLimit }), 10_000, why);
    expect(last).toMatchObject({ kind: "failed", reason: `tried ${attemptLimit} times, and ${why.final}` });
  });

  it("repeats a failed lookup until the lifetime is over", () => {
    const retried = afterFailedLookup(asked({ lookups: 1 }), { kind: "deferred", reason: "503" });
    expect(retried).toMatchObject({ kind: "unknown", delay: 5000, penalty: 0 });
    const limited = { kind: "deferred", reason: "429", limited: true, retryAfterMs: 30_000 } as const;
    expect(afterFailedLookup(asked(), limited)).toMatchObject({ delay: 30_000, penalty: 30_000 });
    const over = afterFailedLookup(asked({ trying_for: timing.ask.lifetime + 1 }), { kind: "unknown", reason: "x" });
    expect(over).toMatchObject({ kind: "failed", outcome: "unknown" });
  });

  it("repeats a failed lookup after an operator's release until its backoff grows no more", () => {
    const last = timing.ask.lookup.length;
    const after = (lookups: number) =>
      afterFailedLookup(asked({ lookups, trying_for: null }), { kind: "unknown", reason: "x" });
    expect([after(0).kind, after(last - 1).kind, after(last).kind]).toEqual(["unknown", "unknown", "failed"]);
  });

  it("treats a question that the platform has as silent in manual mode, and as failed after half an hour", () => {
    const found = { state: "pending", questionId: "q" } as const;
    const silent = { kind: "answered", answer: { questionId: "q", replyId: null, text: null }, rendered: null };
    const tried = (over_ago: number | null) => asked({ trying_for: 2000, over_ago });
    expect(afterPending(tried(null), found, true)).toEqual(silent);
    const delay = timing.ask.lookup[0];
    expect(afterPending(tried(1000), found, false)).toMatchObject({ kind: "unknown", questionId: "q", delay });
    expect(afterPending(tried(timing.ask.answerLifetime), found, false).kind).toBe("unknown");
    expect(afterPending(tried(timing.ask.answerLifetime + 1), found, false)).toMatchObject({
      kind: "failed",
      questionId: "q",
    });
    // An operator has released it since its last attempt.
    expect(afterPending(asked({ over_ago: 1000 }), found, false)).toEqual(silent);
  });
});
