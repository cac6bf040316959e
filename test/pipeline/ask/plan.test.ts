// The writes that follow from a decision about a question, planned without a database.

import { describe, expect, it } from "vitest";
import { type Opening, writeOpening } from "../../../src/domain/turn.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { type AskDecision, handBack, planRefusal, planWrites } from "../../../src/pipeline/ask/decide.ts";
import type { AttemptState } from "../../../src/pipeline/ask/stage.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import type { EscalationHooks } from "../../../src/pipeline/escalation.ts";
import type { TurnRow } from "../../../src/store/tables/turns.ts";
import { activeSettings, lineOf, turnRow } from "../../support/rows.ts";

const pollAfter = 12_000;
const hooks = { pollAfter: () => pollAfter } as EscalationHooks; // no plan calls the others
const escalations = [{ topic: "refund" }] as unknown as NonNullable<ReturnType<typeof activeSettings>["escalations"]>;
const escalating = { settings: () => ({ ...activeSettings(), escalations }) };

interface Given {
  readonly turn?: Partial<TurnRow>;
  readonly attempt?: Partial<AttemptState>;
  readonly line?: Partial<ChannelRuntime>;
  readonly block?: true;
  readonly now?: Pick<TurnRow, "age" | "opening"> | null;
}

/** The plan for a question whose attempt is recorded. */
const planned = (decision: AskDecision, { turn, attempt, line, block, now = null }: Given = {}) =>
  planWrites(
    {
      turn: turnRow(turn),
      attempt: { recorded: true, obsolete: false, unbound: null, askedAt: null, early: null, ...attempt },
      line: { ...lineOf(block && { rules: { on_permanent_failure: "block" } }), escalation: () => hooks, ...line },
      timing: standardTiming,
    },
    decision,
    now,
  );

const answered = (text: string | null): AskDecision => ({
  kind: "answered",
  answer: { questionId: "q", replyId: "r", text },
  rendered: "{}",
});
const retry: AskDecision = { kind: "retry", outcome: "deferred", reason: "503", delay: 5000, penalty: 0 };
const unknown: AskDecision = { kind: "unknown", reason: "cut", delay: 500, questionId: null, penalty: 0 };
const failed: AskDecision = { kind: "failed", outcome: "refused", reason: "400", questionId: "q" };
const gone: AskDecision = { kind: "gone", reason: "404" };
const bound: AskDecision = { kind: "bound", platformId: "p", adopted: true };
const opened = (over: Partial<Opening>): AskDecision => ({
  kind: "opened",
  opening: writeOpening({ introduction: null, subject: null, context: null, speak: true, ...over }),
});
const ended = { isUnsent: false, isRetried: false, returnsText: false };
const repeated = { isUnsent: false, isRetried: true, returnsText: true };
const lost = "the platform had lost the conversation";
const silent =
  "the platform took the message and gives no answer now (manual mode?); a retry looks for an answer and does not ask again";

describe("the plan of an attempt's end", () => {
  it("releases the lane without a change when nothing is recorded", () =>
    expect(planned(handBack, { attempt: { recorded: false } })).toBeNull());

  it.each<[string, AskDecision, Given, object]>([
    [
      "withdraws a recorded attempt that was not made, and keeps the turn's reason",
      handBack,
      { turn: { reason: "released by an operator" } },
      {
        ...repeated,
        isWithdrawn: true,
        outcome: "deferred",
        change: { state: "waiting", open: 1, reason: "released by an operator" },
      },
    ],
    [
      "asks again after the delay",
      retry,
      {},
      {
        ...repeated,
        outcome: "deferred",
        change: { state: "waiting", open: 1, dueInMs: 5000, reason: "503" },
        penalty: 0,
      },
    ],
    [
      "counts an attempt without a record; a waiting turn has moved its text already",
      { ...retry, penalty: 60_000 },
      { attempt: { recorded: false } },
      { outcome: "deferred", isUnsent: true, returnsText: false, penalty: 60_000 },
    ],
    [
      "returns the text of a question that a lookup did not find",
      { ...retry, outcome: "refused" },
      { turn: { state: "unknown" }, attempt: { recorded: false } },
      { outcome: "refused", isUnsent: false, returnsText: true },
    ],
    [
      "binds the conversation that was opened before a question without a record",
      retry,
      { attempt: { recorded: false, unbound: "p" } },
      { binds: "p", endsOpening: true, isUnsent: true },
    ],
    [
      "looks up an unknown outcome; the first attempt has no lookups",
      unknown,
      { turn: { lookups: 7 } },
      {
        ...ended,
        outcome: "unknown",
        isRetried: true,
        change: { state: "unknown", open: 1, dueInMs: 500, reason: "cut", lookups: 0, questionId: null },
        penalty: 0,
      },
    ],
    [
      "counts lookups, and keeps the question's id and the penalty",
      { ...unknown, questionId: "q", penalty: 9 },
      { turn: { state: "unknown", lookups: 7 }, attempt: { recorded: false } },
      { change: { lookups: 8, questionId: "q" }, isUnsent: false, penalty: 9 },
    ],
    [
      "unbinds a lost conversation, and asks in another one",
      gone,
      {},
      { binds: null, outcome: "refused", change: { state: "waiting", open: 1, reason: lost }, isRetried: true },
    ],
    [
      "fails when the platform loses the conversation again",
      gone,
      { turn: { reason: lost } },
      { outcome: "refused", change: { state: "failed", reason: "404", questionId: null } },
    ],
    [
      "records the mode",
      { kind: "mode", mode: "ai" },
      { turn: { kind: "mode" } },
      { ...ended, outcome: "sent", change: { state: "answered", open: 0 }, mode: "ai" },
    ],
    [
      "records a human's message and polls",
      { kind: "relayed", id: "m" },
      { turn: { kind: "relayed" } },
      {
        ...ended,
        outcome: "sent",
        change: { state: "answered", open: 0, questionId: "m" },
        relayed: "m",
        mode: "manual",
        poll: standardTiming.ask.relayedPoll,
      },
    ],
  ])("%s", (_, decision, given, expected) => expect(planned(decision, given)).toMatchObject(expected));
});

describe("the plan of a bound conversation", () => {
  const now = { age: 4000, opening: null };
  it.each<[string, Given, object]>([
    [
      "keeps the place of the turn in the queue",
      { now },
      { binds: "p", outcome: "sent", change: { state: "waiting", open: 1, reason: null, dueInMs: -4000 } },
    ],
    ["keeps the mark of a lost one", { now, turn: { reason: lost } }, { binds: "p", change: { reason: lost } }],
    ["forgets other reasons", { now, turn: { reason: "503" } }, { change: { reason: null } }],
    [
      "completes the opening that the turn has become",
      { now: { ...now, opening: writeOpening({ introduction: null, subject: null, context: null, speak: false }) } },
      { binds: "p", outcome: "sent", change: { state: "answered", open: 0 } },
    ],
    [
      "is looked up again when it is another's",
      { turn: { state: "unknown", lookups: 1 } },
      {
        outcome: "unknown",
        change: {
          state: "unknown",
          open: 1,
          lookups: 2,
          questionId: null,
          reason: "the conversation found is another's",
          dueInMs: standardTiming.ask.adoptedRetry,
        },
      },
    ],
  ])("%s", (_, given, expected) => expect(planned(bound, given)).toMatchObject(expected));

  it("binds nothing that is another's", () => expect(planned(bound)).not.toHaveProperty("binds"));
});

describe("the plan of an opening", () => {
  it.each<[string, AskDecision, string | undefined]>([
    ["enqueues its introduction", opened({ introduction: "Hi!" }), "Hi!"],
    ["enqueues the introduction of the skill", opened({}), "Hello!"],
    ["enqueues nothing that the channel speaks itself", opened({ introduction: "Hi!", speak: false }), undefined],
  ])("%s", (_, decision, introduction) => {
    const plan = planned(decision);
    expect(plan).toMatchObject({ outcome: "sent", change: { state: "answered", open: 0 } });
    expect(plan?.introduction).toBe(introduction);
  });

  it("fails without an introduction, and never blocks the lane", () => {
    const opening = { turn: { opening: "{}", question: "" }, block: true } as const;
    expect(planned(opened({ introduction: " " }), opening)).toMatchObject({
      outcome: "sent",
      change: { state: "failed", open: 0, reason: "there is no introduction to begin with" },
    });
  });
});

describe("the plan of an answer", () => {
  it("enqueues it, and polls the conversation", () => {
    expect(planned(answered("hello"))).toEqual({
      ...ended,
      outcome: "sent",
      change: { state: "answered", open: 0, questionId: "q", reason: null },
      poll: pollAfter,
      answer: { text: "hello", platformId: "r", rendered: "{}" },
    });
  });

  it("polls sooner and detects a need for a human where the agent escalates", () => {
    expect(planned(answered("hello"), { line: escalating })).toMatchObject({
      poll: standardTiming.escalation.pollAfterAnswer,
      detects: { replyId: "r" },
    });
  });

  it.each([null, "", " \n"])("lists the message of a question without an answer: %j", (text) => {
    expect(planned(answered(text))).toEqual({
      ...ended,
      outcome: "sent",
      change: { state: "silent", open: 0, questionId: "q", reason: silent },
      poll: pollAfter,
      detects: { questionId: "q", replyId: "r", text },
      lists: { state: "ignored", code: "silent", reason: silent },
    });
  });

  it("neither polls nor detects without escalations", () => {
    const plan = planned(answered(null), { line: { escalation: () => null } });
    expect([plan?.poll, plan?.detects]).toEqual([undefined, undefined]);
  });
});

describe("the plan of a failed question", () => {
  const trigger = {
    key: "turn:t:3",
    source: "ours",
    cause: "turn-failed",
    channel: "c",
    agent: "agent",
    conversation: "k",
    topic: null,
    reason: "400",
  };

  it("lists its message and opens an escalation with the customer's text", () => {
    expect(planned(failed, { turn: { attempts: 3 } })).toEqual({
      ...ended,
      outcome: "refused",
      change: { state: "failed", open: 0, reason: "400", questionId: "q" },
      lists: { state: "failed", code: "not-asked", reason: "400" },
      triggers: { ...trigger, said: "hello" },
    });
  });

  it.each([{ kind: "relayed" }, { question: "" }] as const)("quotes only a customer: %j", (turn) =>
    expect(planned(failed, { turn: { attempts: 3, ...turn } })?.triggers).toEqual(trigger),
  );

  it.each<[string, Given, 0 | 1]>([
    ["blocks", { block: true }, 1],
    ["does not block by default", {}, 0],
    ["does not block in a call", { block: true, turn: { session: "s" } }, 0],
    ["does not block for an opening", { block: true, turn: { opening: "{}" } }, 0],
    ["does not block for what a human wrote", { block: true, turn: { kind: "relayed" } }, 0],
    ["does not block for a change of the mode", { block: true, turn: { kind: "mode" } }, 0],
  ])("%s its lane", (_, given, open) => expect(planned(failed, given)?.change.open).toBe(open));
});

describe("the plan of a turn that is not asked", () => {
  const refusal = (kind: "drop" | "hold", readAt = 0) =>
    planRefusal(lineOf(), { kind, code: "x", reason: "why", readAt }, { timing: standardTiming });

  it("drops it without an escalation", () =>
    expect(refusal("drop")).toEqual({
      change: { state: "dropped", open: 0, reason: "why" },
      lists: { state: "ignored", code: "x", reason: "why" },
    }));

  it("holds it and notifies responders", () =>
    expect(refusal("hold")).toMatchObject({
      change: { state: "failed", open: 0, reason: "why" },
      lists: { state: "held", code: "x", reason: "why" },
      triggers: { cause: "held", channel: "c", conversation: null },
    }));

  it("notifies once an hour of those that the channel holds for the same reason", () => {
    const hour = standardTiming.route.capEscalation;
    const keyAt = (readAt: number) => refusal("hold", readAt).triggers?.key;
    expect([hour, 2 * hour - 1, 2 * hour].map(keyAt)).toEqual(["held:c:x:1", "held:c:x:1", "held:c:x:2"]);
  });
});
