// The decisions of stage ask: pure functions, tested without a store.

import { describe, expect, it } from "vitest";
import { attemptLimit } from "../../../src/domain/retry.ts";
import { standardTiming as timing, timingWith } from "../../../src/ops/timing.ts";
import {
  afterAbsence,
  afterFailedCall,
  afterFailedLookup,
  afterPending,
  beforeAsking,
  repeatable,
} from "../../../src/pipeline/ask/decide.ts";
import type { TurnRow } from "../../../src/store/tables/turns.ts";
import { turnRow as turn } from "../../support/rows.ts";

const sent = { recorded: true, obsolete: false, unbound: null, askedAt: null, early: null };
const asked = (over: Partial<TurnRow> = {}) => ({ turn: turn(over), timing });
const failed = (result: Parameters<typeof afterFailedCall>[1], over: Partial<TurnRow> = {}, attempt = sent) =>
  afterFailedCall({ ...asked(over), attempt }, result);

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

  it("treats a question that the platform has as silent in manual mode, and as failed after half an hour", () => {
    const found = { state: "pending", questionId: "q" } as const;
    expect(afterPending(asked(), found, true)).toEqual({
      kind: "answered",
      answer: { questionId: "q", replyId: null, text: null },
      rendered: null,
    });
    expect(afterPending(asked({ over_ago: 1000 }), found, false)).toMatchObject({
      kind: "unknown",
      questionId: "q",
    });
    expect(afterPending(asked({ over_ago: timing.ask.answerLifetime + 1 }), found, false)).toMatchObject({
      kind: "failed",
      questionId: "q",
    });
  });
});
