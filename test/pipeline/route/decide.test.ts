// The decisions of stage route on loaded facts, without a database.

import { externalId, type MessageEvent, type Outbound, sessionId, threadToken } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { hopLimit } from "../../../src/domain/retry.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import {
  countTurn,
  decideAll,
  decideFirst,
  decideGuards,
  decideTurn,
  dependsOn,
  guard,
  isJoinable,
  isReply,
  mayBeResponders,
  newRun,
  noWrites,
  planOf,
  strangers,
} from "../../../src/pipeline/route/decide.ts";
import type { CapUse, Context, Facts, Incoming, LastTurn, Writes } from "../../../src/pipeline/route/facts.ts";
import { messageOf, partiesOf } from "../../../src/pipeline/route/facts.ts";
import { addWaits, contradiction, isLoop, lookUpsOf, pauseAt } from "../../../src/pipeline/route/unasked/decide.ts";
import type { EventRow } from "../../../src/store/tables/events.ts";
import { eventRow, lineOf, mail, noFacts } from "../../support/rows.ts";

const now = Date.now();
const received = (over: Partial<MessageEvent> = {}, row: Partial<EventRow> = {}): Incoming =>
  messageOf(
    eventRow({ received_at: now, queue: "example.org", ...row }),
    mail({ text: "hello", sentAt: new Date(now), ...over }),
  );

const week = 7 * 86_400_000;
const rules = { debounce: 1000 };
const cap = { max: 10, per: 60_000 };
const use = (over: Partial<CapUse> = {}): CapUse => ({ cap, total: 0, others: 0, sinceOther: null, ...over });

const lastTurn = (over: Partial<LastTurn> = {}): LastTurn => ({
  id: "t",
  conversation: "k",
  person: "ada@example.org",
  state: "waiting",
  own: 1,
  trace: "m1",
  question: "one",
  context: null,
  first_at: now,
  ...over,
});

/** A channel that sends. */
const lineWith = (rules: Partial<ChannelRuntime["rules"]> = {}): ChannelRuntime =>
  lineOf({ rules, outbound: {} as Outbound });

const contextOf = (line: ChannelRuntime = lineWith()): Context => {
  let ids = 0;
  const source = { id: () => `id${++ids}`, token: () => "token" };
  return { line, ids: source, now, timing: standardTiming, agentOf: () => "other-agent" };
};

/** Decides about messages of one group. */
function decided(
  messages: readonly (readonly [Incoming, Partial<Facts>])[],
  context = contextOf(),
  run = newRun(),
): Writes {
  const facts = new Map(messages.map(([message, own]) => [message, { ...noFacts, ...own }]));
  const guarded = new Map([...facts].map(([message, own]) => [message, guard(message, own, context.line)]));
  return decideAll(context, run, facts, guarded);
}

describe("the first decision", () => {
  const { rules: own } = lineOf();

  it("takes an ambiguous START as a keyword only for a suppressed address", () => {
    const message = received({ consent: { word: "start", ambiguous: true } });
    expect(decideFirst(message, noFacts, own)).toBeNull();
    expect(decideFirst(message, { ...noFacts, suppressed: "STOP" }, own)?.kind).toBe("consent");
  });

  it("holds what may have been answered before a restore, until it is released", () => {
    const handledBefore = { by: "self", reason: "marked" } as const;
    const held = { kind: "finish", state: "held", code: "answered-before-restore", reason: "marked" };
    expect(decideFirst(received({ handledBefore }), noFacts, own)).toEqual(held);
    expect(decideFirst(received({ handledBefore }, { code: "released" }), noFacts, own)).toBeNull();
    const refusal = { code: "list", reason: "a list" };
    const ignored = { kind: "finish", state: "ignored", ...refusal };
    expect(decideFirst(received({ handledBefore, refusal }), noFacts, own)).toEqual(ignored);
    const sealed = { ...refusal, hold: true } as const;
    expect(decideFirst(received({ handledBefore, refusal: sealed }), noFacts, own)).toEqual(held);
  });
});

describe("the guards", () => {
  const line = lineOf();
  const stop: Facts = { ...noFacts, suppressed: "STOP" };

  it("refuse machine mail before suppression counts, unless the message is released", () => {
    const refusal = { code: "auto-reply", reason: "a machine" };
    const refused = { kind: "finish", state: "ignored", ...refusal };
    expect(decideGuards(received({ refusal }), stop, line)).toEqual(refused);
    expect(decideGuards(received({ refusal }, { code: "released" }), stop, line)).toBeNull();
    expect(decideGuards(received(), stop, line)).toMatchObject({ state: "ignored", code: "suppressed" });
  });

  it("apply no age limit to messages of a call and to messages for humans", () => {
    const old = { sentAt: new Date(now - 86_400_000) };
    expect(decideGuards(received(old), noFacts, line)).toMatchObject({ code: "too-old" });
    const thread = { session: sessionId("s") };
    expect(decideGuards(received({ ...old, thread }), stop, line)).toEqual({ kind: "words", session: "s" });
    const forHumans = { subject: "voicemail" };
    expect(decideGuards(received({ ...old, forHumans }), stop, line)?.kind).toBe("humans");
  });

  it("hold what only a human can read, and ask nothing on a channel of notices", () => {
    const refusal = { code: "encrypted", reason: "sealed", hold: true } as const;
    expect(decideGuards(received({ refusal }), noFacts, line)).toEqual({ kind: "hold", refusal });
    const notices = { ...line, traits: { ...line.traits, platform: null } };
    expect(decideGuards(received({ refusal }), noFacts, notices)).toMatchObject({ code: "not-asked" });
  });
});

describe("the turn", () => {
  it("is due after the debounce time, and at once for a released message", () => {
    expect(decideTurn(received(), noFacts, rules, [])).toEqual({ kind: "ask", dueAt: now + 1000 });
    const released = received({}, { code: "released" });
    const full = [use({ total: 10 })];
    expect(decideTurn(released, noFacts, rules, full)).toEqual({ kind: "ask", dueAt: now });
  });

  it("joins a waiting turn before any cap counts, and never later than four times the debounce time", () => {
    const last = lastTurn({ first_at: now - 3500 });
    const counts = [{ name: "sender", cap, count: 10 }] as const;
    const facts: Facts = { ...noFacts, conversation: "k", last, counts };
    expect(decideTurn(received(), facts, rules, [])).toMatchObject({
      kind: "join",
      extension: { turn: "t", question: "one\nhello", dueAt: now + 500 },
    });
    const long = { ...facts, last: { ...last, question: "a".repeat(19_999) } };
    expect(decideTurn(received(), long, rules, [])).toMatchObject({
      kind: "over",
      over: { code: "cap-sender" },
    });
  });

  it("joins only a waiting question of the same person", () => {
    const ofOthers = { state: "asking", own: 0, person: "b@example.org" } as const;
    expect(isJoinable(lastTurn(), "ada@example.org")).toBe(true);
    for (const [member, value] of Object.entries(ofOthers)) {
      const last = lastTurn({ [member]: value });
      expect(isJoinable(last, "ada@example.org"), member).toBe(false);
      expect(decideTurn(received(), { ...noFacts, conversation: "k", last }, rules, []).kind).toBe("ask");
    }
  });

  it("waits for every cap of the channel that has no room, and counts turns of the same run", () => {
    const uses = [use({ total: 8, others: 4 }), use({ cap: { max: 100, per: 1000 } })];
    const message = received();
    expect(decideTurn(message, noFacts, rules, uses).kind).toBe("ask");
    countTurn(uses, message.row);
    expect(decideTurn(message, noFacts, rules, uses)).toEqual({ kind: "wait", waits: [{ cap, below: 9 }] });
    const preferred = received({}, { preferred: 1 });
    expect(decideTurn(preferred, noFacts, rules, uses).kind).toBe("ask");
    countTurn(uses, preferred.row);
    expect(decideTurn(preferred, noFacts, rules, uses)).toEqual({
      kind: "wait",
      waits: [{ cap, below: 10 }],
    });
  });

  it("opens a conversation with the first question, and adds to a known one", () => {
    const message = received({ subject: "Order", cc: [{ address: "B@example.org" }] });
    const again = received({ subject: "Order", cc: [{ address: "B@example.org" }] }, { id: 2 });
    const known = { conversation: "k", binds: "ours@example.org", ownAddress: "ours@example.org" };
    const writes = decided([
      [message, {}],
      [again, known],
    ]);
    expect(writes.conversations).toMatchObject([{ id: "id1", person: "ada@example.org", firstDue: now }]);
    expect(writes.first).toMatchObject([{ conversation: "id1", question: "Subject: Order\n\nhello" }]);
    expect(writes.next).toMatchObject([{ conversation: "k", question: "hello" }]);
    expect(writes.outcomes.map(({ turn }) => turn)).toEqual(["id2", "id3"]);
    // The sender takes part already.
    expect(writes.participants.map(({ address }) => address)).toEqual(["b@example.org", "b@example.org"]);
    expect(writes.bound).toEqual([{ conversation: "k", via: "ours@example.org" }]);
    expect(writes.ownAddresses).toEqual(["ours@example.org"]);
  });

  it("waits with all later ones of its kind when the channel has no room", () => {
    const run = newRun();
    run.uses = [use({ total: 8, others: 4 })];
    const messages = [1, 2, 3, 4].map((id) => received({}, { id, preferred: id === 4 ? 1 : 0 }));
    const writes = decided(
      messages.map((message) => [message, {}]),
      contextOf(),
      run,
    );
    expect(writes.outcomes.map(({ id }) => id)).toEqual([1, 4]);
    const rooms = [{ below: 9, per: cap.per }];
    expect(writes.postponed).toEqual([{ preferred: false, ms: 0, rooms, isNew: true }]);
    expect(writes.escalations).toMatchObject([{ cause: "cap", conversation: null }]);
    expect(run.turns).toBe(2);
  });

  it("waits for the longest time and for all room that its caps ask for, and is reported when none waited before", () => {
    const shared = { max: 100, per: 3_600_000 };
    const run = newRun();
    run.uses = [use({ total: 10 }), use({ cap: shared, total: 60, others: 60, sinceOther: 0 })];
    const writes = noWrites();
    addWaits(writes, contextOf(), run);
    addWaits(writes, contextOf(), run);
    const rooms = [{ below: 10, per: cap.per }];
    expect(writes.postponed).toEqual([
      { preferred: true, ms: 0, rooms, isNew: true },
      { preferred: true, ms: 0, rooms, isNew: false },
    ]);
    expect(run.room).toEqual({ none: true, noneForOthers: true });
    const others = newRun();
    others.uses = [use({ total: 9, others: 4 }), use({ cap: shared, total: 60, others: 60, sinceOther: 0 })];
    addWaits(writes, contextOf(), others);
    // Half of the shared cap is free at once; each of the other forty turns has its share of the hour.
    const ms = shared.per / 40;
    expect(writes.postponed.at(-1)).toEqual({ preferred: false, ms, rooms: [{ below: 9, per: cap.per }], isNew: true });
    expect(others.room).toEqual({ none: false, noneForOthers: true });
  });
});

describe("a message that is not asked", () => {
  const others = { replyTo: { address: "other@example.org" }, cc: [{ address: "copy@example.org" }] };
  const stop = received({ consent: { word: "stop", answer: "You get no more messages." }, ...others });
  const keyword = { outdated: false, notices: [] };

  it("suppresses its sender at STOP, and confirms it in spite of the suppression", () => {
    const writes = decided([[stop, { keyword }]]);
    expect(writes.suppressed).toMatchObject([{ address: "ada@example.org" }]);
    expect(writes.notices).toMatchObject([{ conversation: "id1", forced: true, text: "You get no more messages." }]);
    expect(writes.notices[0]?.address).toMatchObject({ to: [{ address: "ada@example.org" }], cc: [] });
    expect(writes.outcomes).toMatchObject([{ state: "ignored", code: "opt-out", conversation: "id1" }]);
  });

  it("is ignored when a later keyword has replaced it, and is not confirmed in a loop", () => {
    const outdated = decided([[stop, { keyword: { ...keyword, outdated: true } }]]);
    expect([outdated.suppressed, outdated.notices, outdated.conversations]).toEqual([[], [], []]);
    const line = lineWith({ caps: { sender: [cap], conversation: [], channel: [] } });
    const looping = decided([[stop, { keyword: { ...keyword, notices: [10] } }]], contextOf(line));
    expect([looping.suppressed.length, looping.notices]).toEqual([1, []]);
  });

  it("is held for a human with one notice for each target, until there are too many", () => {
    const refusal = { code: "encrypted", reason: "sealed", hold: true } as const;
    const notify = { channel: "d", to: ["A@example.org", "b@example.org"] };
    const context = contextOf(lineWith({ notify }));
    const run = newRun();
    run.held = 19;
    const messages = [1, 2].map((id) => received({ refusal }, { id }));
    const writes = decided(
      messages.map((message) => [message, { conversation: `k${message.row.id}` }]),
      context,
      run,
    );
    expect(writes.outcomes.map(({ state, conversation }) => [state, conversation])).toEqual([
      ["held", "k1"],
      ["held", "k2"],
    ]);
    const told = { channel: "d", agent: "other-agent" };
    expect(writes.conversations).toMatchObject([
      { ...told, person: "a@example.org" },
      { ...told, person: "b@example.org" },
    ]);
    const text = "sealed; it is held as number 1 (see bridgehead inbox list).\n\nFrom: ada@example.org (c)";
    const notice = { text, internal: true };
    expect(writes.notices).toMatchObject([notice, notice]);
    const named = received({ refusal, from: { name: "Ada", address: "ada@example.org" } });
    const [first] = decided([[named, { conversation: "k" }]], context).notices;
    expect(first?.text).toContain("From: Ada, ada@example.org (c)");
    expect(writes.escalations.map(({ conversation, news }) => [conversation, news])).toEqual([
      ["k1", true],
      [null, undefined],
    ]);
  });

  it("is for humans: held where the channel has no notification target", () => {
    const message = received({ forHumans: { subject: "voicemail" } });
    const writes = decided([[message, { conversation: "k" }]]);
    expect(writes.outcomes).toMatchObject([{ state: "held", code: "for-humans", conversation: "k" }]);
    expect(writes.forHumans).toMatchObject([{ conversation: "k" }]);
    const inCall = decided([[message, { conversation: "k", session: "k2" }]]);
    expect(inCall.forHumans, "of its call").toMatchObject([{ conversation: "k2" }]);
  });

  it("is for humans, and counts as held for the next one that only a human can read", () => {
    const voicemail = received({ forHumans: { subject: "voicemail" } });
    const sealed = received({ refusal: { code: "encrypted", reason: "encrypted", hold: true } });
    const run = { ...newRun(), held: 19 };
    const writes = decided(
      [
        [voicemail, { conversation: "k1" }],
        [sealed, { conversation: "k2" }],
      ],
      contextOf(),
      run,
    );
    // The twentieth: one escalation about the channel stands for all.
    expect(writes.escalations.map(({ conversation }) => conversation)).toEqual([null]);
  });

  it("is held over a cap, and its sender is notified once", () => {
    const context = () => contextOf(lineWith({ cap_text: "Too many." }));
    const counts = [{ name: "sender", cap, count: 10 }] as const;
    const first = decided([[received({ cc: [{ address: "copy@example.org" }] }), { counts }]], context());
    expect(first.notices[0]?.address).toMatchObject({ to: [{ address: "ada@example.org" }], cc: [] });
    expect(first.outcomes).toMatchObject([{ state: "held", code: "cap-sender" }]);
    const once = { person: "ada@example.org", withinMs: standardTiming.route.heldNotice };
    expect(first.notices).toMatchObject([{ text: "Too many.", forced: false, once }]);
    expect(first.hops).toMatchObject([{ name: "capped", code: "cap-sender" }]);
    const perWeek = [{ name: "sender", cap: { max: 10, per: week }, count: 10 }] as const;
    const later = decided([[received(), { counts: perWeek }]], context());
    expect(later.notices).toMatchObject([{ once: { withinMs: week } }]);
    const noNotice = [
      decided([[received({ hops: 1 }), { counts }]], context()),
      decided([[received({ from: { address: "12345" } }), { counts }]], context()),
      decided([[received(), { counts: [{ ...counts[0], isReplyTo: true }] }]], context()),
      decided([[received(), { counts: [{ ...counts[0], name: "tags" }] }]], context()),
      decided([[received(), { counts }]]),
    ];
    expect(noNotice.map(({ notices, outcomes }) => [notices, outcomes[0]?.state])).toEqual(
      noNotice.map(() => [[], "held"]),
    );
    expect(decided([[received(), { counts }]]).conversations, "without cap_text").toEqual([]);
  });

  it("counts for the limits: the last loop, and what is held", () => {
    const run = newRun();
    const handledBefore = { by: "self", reason: "marked" } as const;
    decided([[received({ hops: hopLimit }, { id: 9 }), {}]], contextOf(), run);
    decided([[received({ handledBefore }), {}]], contextOf(), run);
    expect([run.loop?.id, run.held]).toEqual([9, 1]);
  });

  it("pauses the channel when a limit is exceeded", () => {
    const run = newRun();
    run.loop = eventRow({ id: 7 });
    const counts = (loops: number, replies: number) => ({
      loops: [{ cap, count: loops }],
      replies: [{ cap, count: replies }],
    });
    expect(pauseAt(contextOf(), run, counts(10, 10))).toBeNull();
    expect(pauseAt(contextOf(), run, counts(10, 11))).toMatchObject({ code: "replies", event: 7 });
    expect(pauseAt(contextOf(), run, counts(11, 11))).toMatchObject({ code: "loops", trigger: { news: true } });
    const short = { loops: [], replies: [{ cap: { max: 10, per: 20_000 }, count: 11 }] };
    expect(pauseAt(contextOf(), run, short)?.reason).toBe("more than 10 messages were to be answered within 20 s");
  });
});

describe("messages of one run", () => {
  it("depend on earlier ones with which they share an address", () => {
    const earlier = new Set(partiesOf(received({ cc: [{ address: "Cc@example.org" }] })));
    const from = (address: string, replyTo?: string) =>
      received({ from: { address }, ...(replyTo === undefined ? {} : { replyTo: { address: replyTo } }) });
    expect(dependsOn(from("ADA@example.org"), earlier)).toBe(true);
    expect(dependsOn(from("cc@example.org"), earlier)).toBe(true);
    expect(dependsOn(from("x@example.org", "ada@example.org"), earlier)).toBe(true);
    expect(dependsOn(from("x@example.org"), earlier)).toBe(false);
  });

  it("are replies when they cite a message or carry a token", () => {
    expect(isReply(received())).toBe(false);
    expect(isReply(received({ thread: { answers: [externalId("a")] } }))).toBe(true);
    expect(isReply(received({ thread: { answers: [], tokens: [threadToken("t")] } }))).toBe(true);
    expect(isReply(received({ thread: { session: sessionId("s") } }))).toBe(false);
  });

  it("are passed to the escalations when their sender may be a responder, before the guards", () => {
    const { rules } = lineOf();
    const responder: Facts = { ...noFacts, responder: true };
    const refusal = { code: "auto-reply", reason: "a machine" };
    const cases: readonly (readonly [Incoming, Facts, boolean])[] = [
      [received(), noFacts, false],
      [received(), responder, true],
      [received({ refusal }), responder, true],
      [received({ thread: { answers: [externalId("a")] } }), noFacts, true],
      [received({ consent: { word: "stop" } }), responder, false],
      [received({ handledBefore: { by: "self", reason: "marked" } }), responder, false],
    ];
    for (const [message, facts, expected] of cases) expect(mayBeResponders(message, facts, rules)).toBe(expected);
  });

  it("load more only in known conversations, and for keywords", () => {
    const fresh = received({}, { id: 1 });
    const known = received({}, { id: 2 });
    const released = received({}, { id: 3, code: "released" });
    const refused = received({ refusal: { code: "auto-reply", reason: "a machine" } }, { id: 4 });
    const conversation = { ...noFacts, conversation: "k" };
    const facts = new Map(
      [fresh, known, released, refused].map((one) => [one, one === fresh ? noFacts : conversation]),
    );
    const plan = (messages: Incoming[], own: Partial<ChannelRuntime["rules"]> = {}) =>
      planOf(contextOf(lineWith(own)), messages, facts);
    const none = { mayBeResponders: false, known: [], joining: [], unasked: null };
    expect(plan([fresh], { debounce: 1000 })).toEqual({ ...none, guarded: new Map([[fresh, null]]) });
    const debounced = plan([known, released, refused], { debounce: 1000 });
    expect([debounced.known, debounced.joining, debounced.unasked]).toEqual([[known, released], [known], null]);
    expect(plan([known]).joining).toEqual([]);
    const stop = received({ consent: { word: "stop" } }, { id: 5 });
    facts.set(stop, conversation);
    expect(plan([known, stop]).unasked?.keywords).toMatchObject([{ conversation: "k" }]);
  });

  it("of a responder end what is planned, or are planned alone", () => {
    const [one, two] = [received({}, { id: 1 }), received({}, { id: 2 })];
    const plan = (...messages: Incoming[]) => {
      const facts = new Map(messages.map((message) => [message, { ...noFacts, responder: message === two }]));
      const { mayBeResponders, guarded } = planOf(contextOf(), messages, facts);
      return [mayBeResponders, [...guarded.keys()].map(({ row }) => row.id)];
    };
    expect(plan(one, two)).toEqual([false, [1]]);
    expect(plan(two, one)).toEqual([true, [2]]);
  });

  it("are decided together up to the first one of a responder", () => {
    const messages = [1, 2, 3].map((id) => received({}, { id }));
    const without = (...responders: number[]) =>
      strangers(
        messages,
        new Map(messages.map((one) => [one, { ...noFacts, responder: responders.includes(one.row.id) }])),
      ).map(({ row }) => row.id);
    expect(without()).toEqual([1, 2, 3]);
    expect(without(3)).toEqual([1, 2]);
    expect(without(2, 3)).toEqual([1]);
    expect(without(1)).toEqual([1]);
  });
});

describe("keywords", () => {
  const consent = (word: "stop" | "start" | "help", late: number) => {
    const message = received({ sentAt: new Date(now - late) });
    return contradiction({ ...message, event: { ...message.event, consent: { word } } }, standardTiming.route);
  };

  it("are replaced by a later opposite one only when they were found by a backfill", () => {
    expect(consent("stop", 5000)).toBeNull();
    expect(consent("help", 60_000)).toBeNull();
    expect(consent("start", 60_000)).toEqual({ code: "opt-out", since: now - 60_000 });
    expect(consent("stop", 60_000)).toEqual({ code: "opt-in", since: now });
  });

  const found = (messages: readonly (readonly [Incoming, Partial<Facts>])[], line = lineWith()) => {
    const facts = new Map(messages.map(([message, own]) => [message, { ...noFacts, ...own }]));
    const guarded = new Map([...facts].map(([message, own]) => [message, guard(message, own, line)]));
    return lookUpsOf(contextOf(line), facts, guarded);
  };

  it("look up the notices of their conversation, and a later opposite keyword when they are late", () => {
    const stop = received({ consent: { word: "stop" }, sentAt: new Date(now - 60_000) });
    const start = received({ consent: { word: "start" } });
    expect(
      found([
        [stop, { conversation: "k", session: "s" }],
        [start, { conversation: "l" }],
        [received(), {}],
      ]),
    ).toEqual({
      held: false,
      keywords: [
        { message: stop, opposite: { code: "opt-in", since: now, to: undefined }, conversation: "s" },
        { message: start, opposite: null, conversation: "l" },
      ],
    });
  });

  it("count only the keywords to the same address of ours where consent is about single addresses", () => {
    const own = lineOf({ outbound: { ownAddress: "+15550100" } as Outbound });
    const stop = (via?: string) =>
      received({ consent: { word: "stop" }, sentAt: new Date(now - 60_000), ...(via === undefined ? {} : { via }) });
    const to = (message: Incoming) => found([[message, {}]], own).keywords[0]?.opposite?.to;
    expect([to(stop()), to(stop("+15550111"))]).toEqual([null, "+15550111"]);
  });

  it("are not the only ones that look up more: messages that only humans can read count the held ones", () => {
    const refusal = { code: "encrypted", reason: "sealed", hold: true } as const;
    expect(found([[received(), {}]])).toEqual({ held: false, keywords: [] });
    expect(
      found([
        [received({ refusal }), {}],
        [received(), {}],
      ]),
    ).toEqual({ held: true, keywords: [] });
  });

  it("are not confirmed beyond the sender's caps", () => {
    expect(isLoop([cap], [9])).toBe(false);
    expect(isLoop([cap, { max: 2, per: 1 }], [9, 2])).toBe(true);
  });
});
