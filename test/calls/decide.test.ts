// Decisions about live sessions, on rows without a database.

import { externalId, type SessionEvent } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import {
  admission,
  afterAttempt,
  isConnectionLost,
  isRevived,
  missedReason,
  type OpenTurn,
  planCall,
  planEnd,
  planMessage,
  reasonForHumans,
  silentOpening,
} from "../../src/calls/decide.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { StoredSession } from "../../src/pipeline/accept/stage.ts";
import type { ChannelRules, ChannelRuntime } from "../../src/pipeline/channel-runtime.ts";
import { runtimeOf } from "../support/rows.ts";

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

describe("the start of a call", () => {
  const person = "+15550100";
  const event = { kind: "session", state: "opened", session: "s", node: "n", from: { address: person, name: "Ann" } };
  const phone = runtimeOf("v", { traits: { attachments: false, conversations: "person", platform: "voice" } });
  const withRules = (rules: Partial<ChannelRules>) => ({ ...phone, rules: { ...phone.rules, ...rules } });
  const unasked = { ...phone, problem: () => "no key" };
  const known = { id: "k", begun: false };
  const none = { found: null, isPaused: false };
  const plan = (line: ChannelRuntime, facts: Parameters<typeof planCall>[3]) => {
    let ids = 0;
    const make = { id: () => `n${++ids}`, token: () => "token" };
    return planCall(line, event as unknown as StoredSession, 5, facts, make);
  };

  it.each([
    ["opens a conversation and binds it", phone, none, "n1", true, "n2"],
    ["binds the customer's conversation", phone, { ...none, found: known }, "k", false, "n1"],
    ["binds none that is bound", phone, { ...none, found: { ...known, begun: true } }, "k", false, null],
    ["binds none of a paused channel", phone, { found: null, isPaused: true }, "n1", true, null],
    ["binds none in shadow mode", withRules({ mode: "shadow" }), none, "n1", true, null],
    ["binds none of a barred caller", withRules({ deny: ["+1555*"] }), none, "n1", true, null],
    ["binds none while the agent cannot be asked", unasked, none, "n1", true, null],
  ] as const)("%s", (_what, line, facts, conversation, isOpened, turn) => {
    const { conversation: id, opened, binding } = plan(line, facts);
    expect([id, opened !== null, binding?.id ?? null]).toEqual([conversation, isOpened, turn]);
  });

  it("stores the caller in lower case, and an opening of the session without a question", () => {
    const line = { ...phone, agent: "a" };
    const upper = { ...event, from: { address: "SIP:Ann@x.example" } } as unknown as StoredSession;
    const { opened, binding } = planCall(line, upper, 5, none, { id: () => "n", token: () => "token" });
    const own = { channel: "v", person: "sip:ann@x.example" };
    expect(opened).toEqual({ id: "n", agent: "a", person_name: null, subject: null, token: "token", ...own });
    expect(binding).toEqual({
      id: "n",
      conversation: "n",
      event: null,
      question: "",
      context: null,
      address: JSON.stringify({
        to: [upper.from],
        cc: [],
        subject: null,
        answers: null,
        history: [],
        hops: 1,
        session: "s",
      }),
      receivedAt: 5,
      session: "s",
      opening: silentOpening,
      ...own,
    });
  });
});

describe("the connection of a session", () => {
  it.each([
    ["is lost when its own node reports it", "n", true],
    ["is kept when another node reports an older one", "other", false],
  ])("%s", (_what, node, is) => expect(isConnectionLost({ node: "n" }, { node })).toBe(is));

  it.each([
    ["is revived by a message that this node received", "lost", "here", true],
    ["is not by a message of another node", "lost", "other", false],
    ["is not by a message of an unknown node", "lost", undefined, false],
    ["is unchanged while it is open", "open", "here", false],
  ] as const)("%s", (_what, state, from, is) => expect(isRevived({ state }, from, "here")).toBe(is));
});

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
    expect(admission("queued", at(60_001), timing)).toMatchObject({ state: "dropped", open: 0, code: "call-lost" });
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
