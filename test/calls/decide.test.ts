// Decisions about live sessions, on rows without a database.

import { externalId, type SessionEvent } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import {
  admission,
  afterAttempt,
  missedReason,
  type OpenTurn,
  planEnd,
  planMessage,
  reasonForHumans,
} from "../../src/calls/decide.ts";
import { standardTiming } from "../../src/ops/timing.ts";

const timing = standardTiming.calls;

const turn = (id: string, state: OpenTurn["state"], opening = false): OpenTurn => ({
  id,
  state,
  question: opening ? "" : `text of ${id}`,
  trace: "",
  opening,
});
const ids = (turns: readonly OpenTurn[]): string[] => turns.map(({ id }) => id);
const turns = [
  turn("opening", "asking", true),
  turn("later opening", "waiting", true),
  turn("asked", "asking"),
  turn("uncertain", "unknown"),
  turn("queued", "waiting"),
];

describe("a new message of the caller", () => {
  it("drops questions that were asked and joins those that were not, when the conversation is bound", () => {
    const plan = planMessage({ isBound: true, turns });
    expect(ids(plan.drop)).toEqual(["asked", "uncertain", "queued"]);
    expect([ids(plan.strip), ids(plan.join), plan.cancel]).toEqual([[], ["queued"], true]);
  });

  it("joins all questions and lets the running opening finish, before the conversation is bound", () => {
    const plan = planMessage({ isBound: false, turns });
    expect([ids(plan.drop), ids(plan.strip)]).toEqual([["queued"], ["asked", "uncertain"]]);
    expect([ids(plan.join), plan.cancel]).toEqual([["asked", "uncertain", "queued"], false]);
  });

  it("cancels the running question also when no turn of the session is open", () => {
    expect(planMessage({ isBound: true, turns: [] })).toEqual({
      drop: [],
      strip: [],
      join: [],
      cancel: true,
    });
  });
});

describe("the end of a call", () => {
  it("drops every question and each opening that was not started", () => {
    const plan = planEnd({ isBound: true, turns });
    expect(ids(plan.drop)).toEqual(["later opening", "asked", "uncertain", "queued"]);
    expect([plan.strip, plan.cancel]).toEqual([[], true]);
  });

  it("lets a started opening finish without its question", () => {
    const plan = planEnd({ isBound: false, turns });
    expect([ids(plan.drop), ids(plan.strip)]).toEqual([
      ["later opening", "queued"],
      ["asked", "uncertain"],
    ]);
    expect(plan.cancel).toBe(false);
  });

  it("cancels nothing when only queued questions are open", () => {
    expect(planEnd({ isBound: true, turns: [turn("queued", "waiting")] }).cancel).toBe(false);
  });
});

describe("an escalation of a call", () => {
  const event = (state: SessionEvent["state"], reason?: string, address = "+15550100") =>
    ({ state, from: { address }, ...(reason ? { reason } : {}), id: externalId("e") }) as SessionEvent;
  const open = { allow: [], deny: [] };

  it("is opened when the caller was not served", () => {
    expect(missedReason(event("closed", "failed"), open)).toContain("could not be reached");
    expect(missedReason(event("transferring", "no-answer"), open)).toContain("transferred");
    expect(missedReason(event("closed", "hung-up"), open)).toBeNull();
    expect(missedReason(event("opened"), open)).toBeNull();
  });

  it("is not opened for barred callers", () => {
    expect(missedReason(event("closed", "failed"), { allow: [], deny: ["+1555*"] })).toBeNull();
  });

  it("is opened for a message to humans without a target, and for every missed call", () => {
    const message = { forHumans: { subject: "Voicemail" }, text: " call \n me " };
    const of = (isCall: boolean, hasTargets: boolean) => reasonForHumans(message, { isCall, hasTargets });
    expect(of(false, true)).toBeNull();
    expect(of(false, false)).toEqual({ cause: "held", reason: "Voicemail: call me" });
    expect(of(true, true)).toEqual({ cause: "call", reason: "Voicemail: call me" });
  });

  it("has a reason of bounded length without half a character", () => {
    const long = { forHumans: { subject: "" }, text: "😀".repeat(400) };
    const found = reasonForHumans(long, { isCall: true, hasTargets: false });
    expect(found?.reason).toHaveLength(500);
    expect(found?.reason.isWellFormed()).toBe(true);
  });
});

describe("a draft of a call", () => {
  const at = (lostFor: number | null | "ended", outdated = false, doubtful = false) => ({
    lostFor,
    outdated,
    doubtful,
  });

  it("is spoken while the call is open", () => {
    expect(admission("queued", at(null), timing)).toBeNull();
  });

  it("waits for a lost connection for one minute", () => {
    expect(admission("queued", at(60_000), timing)).toMatchObject({ state: "queued", open: 1, dueInMs: 500 });
    expect(admission("queued", at(60_001), timing)).toMatchObject({ state: "dropped", open: 0 });
  });

  it.each([
    ["the call has ended", "queued", at("ended")],
    ["the caller said something newer", "queued", at(null, true)],
    ["the caller said something newer", "queued", at(100, true)],
    ["it may have been spoken", "sending", at(null)],
    ["it may have been spoken", "unknown", at("ended")],
    ["it may have been spoken", "queued", at(null, false, true)],
  ])("is dropped: %s", (reason, state, speaking) => {
    expect(admission(state, speaking, timing)).toEqual({ state: "dropped", open: 0, reason });
  });

  it("is retried after the adapter's delay, and dropped after a minute", () => {
    const deferred = { kind: "deferred", reason: "no socket" } as const;
    expect(afterAttempt(deferred, 0, timing)).toMatchObject({ state: "queued", dueInMs: 500 });
    expect(afterAttempt({ ...deferred, retryAfterMs: 1 }, 0, timing)).toMatchObject({ dueInMs: 100 });
    expect(afterAttempt(deferred, 60_001, timing)).toMatchObject({
      state: "dropped",
      reason: "given up: no socket",
    });
  });

  it("is dropped when its outcome is unknown, and recorded when it was sent", () => {
    expect(afterAttempt({ kind: "unknown", reason: "cut" }, 0, timing)).toMatchObject({
      state: "dropped",
      open: 0,
    });
    expect(afterAttempt({ kind: "sent", id: externalId("x") }, 0, timing)).toEqual({
      state: "sent",
      open: 0,
      externalId: "x",
    });
  });
});
