// What the caps of a channel apply to, and what is written about messages that are not asked. No database.

import { type MessageEvent, type Outbound, sessionId } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { addNoted, hasRoom, isUnderCap, newRun, noWrites } from "../../../src/pipeline/route/decide.ts";
import type { Context, EffectDecision, Facts, Run, Writes } from "../../../src/pipeline/route/facts.ts";
import { isCallQuestion, messageOf, personOf, replyTo, untaggedOf } from "../../../src/pipeline/route/facts.ts";
import { addUnasked, waitsOf } from "../../../src/pipeline/route/unasked/decide.ts";
import { eventRow, lineOf, mail, noFacts } from "../../support/rows.ts";

const now = 1_800_000_000_000;
const message = (over: Partial<MessageEvent> = {}) =>
  messageOf(eventRow({ id: 7 }), mail({ text: "hello", sentAt: new Date(now), ...over }));
const call = { session: sessionId("s") };

it("the person is the sender, and the answer goes to another address where it is given, in lower case", () => {
  const from = { address: "Ada@Example.org", name: "Ada" };
  const both = (one: ReturnType<typeof message>) => [personOf(one), replyTo(one)];
  expect(both(message({ from }))).toEqual(["ada@example.org", "ada@example.org"]);
  const other = message({ from, replyTo: { address: "Other@Example.org" } });
  expect(both(other)).toEqual(["ada@example.org", "other@example.org"]);
});

it.each([
  ["Care+t17@Desk.example", "care@desk.example"],
  ["care+a+b@desk.example", "care@desk.example"],
  ["bounces-17-ada=example.org@desk.example", "bounces@desk.example"],
  ["ada.b-c_2@example.org", null],
  ["+care@desk.example", null],
  ["=@desk.example", null],
  ["+15551234567", null],
  ["1+2", null],
])("the address %s without its tag is %s", (address, untagged) => {
  expect(untaggedOf(message({ from: { address } }))).toBe(untagged);
  expect(untaggedOf(message({ replyTo: { address } }))).toBe(untagged);
});

it.each<[string, Partial<MessageEvent>, boolean]>([
  ["a mail", {}, false],
  ["what is said in a call", { thread: call }, true],
  ["a voicemail", { thread: call, forHumans: { subject: "Voicemail" } }, false],
  ["a keyword in a call", { thread: call, consent: { word: "stop" } }, false],
])("%s is a question in a call: %s", (_what, { thread, ...over }, is) => {
  expect(isCallQuestion(message({ ...over, ...(thread && { thread }) }))).toBe(is);
});

describe("the caps of a channel", () => {
  const room = { none: false, noneForOthers: false };
  const run = (over: Partial<Run["room"]>): Run => ({ ...newRun(), room: { ...room, ...over } });
  const full = run({ none: true, noneForOthers: true });
  const preferredOnly = run({ noneForOthers: true });

  it.each([
    ["a message", {}, true],
    ["a message with another code", { code: "clock-ahead" }, true],
    ["a message that an operator released", { code: "released" }, false],
    ["an exempt message", { code: "exempt" }, false],
    ["a delivery receipt", { kind: "delivery" }, false],
  ] as const)("apply to %s: %s", (_what, over, is) => {
    expect(isUnderCap(eventRow(over))).toBe(is);
    expect(hasRoom(full, eventRow(over))).toBe(!is);
  });

  it("have room for all, for preferred senders, or for none", () => {
    const rooms = [run({}), preferredOnly, full].map((one) => [
      hasRoom(one, eventRow({ preferred: 0 })),
      hasRoom(one, eventRow({ preferred: 1 })),
    ]);
    expect(rooms).toEqual([
      [true, true],
      [false, true],
      [false, false],
    ]);
  });

  it("name what messages wait for: fewer turns in the window, or the share of unknown senders", () => {
    const cap = { max: 10, per: 60_000 };
    const use = { cap, total: 4, others: 4, sinceOther: 1000 };
    // Of ten turns, unknown senders get nine: five at once, then one in 15 s.
    expect(waitsOf([use], false)).toEqual([]);
    expect(waitsOf([{ ...use, others: 5 }], false)).toEqual([{ cap, ms: 14_000 }]);
    expect(waitsOf([{ ...use, others: 5 }], true)).toEqual([]);
    expect(waitsOf([{ ...use, total: 9 }], false)).toEqual([{ cap, below: 9 }]);
    const small = { max: 2, per: 1000 };
    const used = [{ ...use, total: 10 }, use, { cap: small, total: 2, others: 0, sinceOther: null }];
    expect(waitsOf(used, true)).toEqual([
      { cap, below: 10 },
      { cap: small, below: 2 },
    ]);
  });
});

it("an own address and the suppression of an erased person are noted with any decision", () => {
  const writes = noWrites();
  addNoted(writes, noFacts);
  expect(writes).toEqual(noWrites());
  const restored = { address: "ada@example.org", hash: "h" };
  addNoted(writes, { ...noFacts, ownAddress: "us@example.org", restored });
  expect(writes).toEqual({ ...noWrites(), ownAddresses: ["us@example.org"], restored: [restored] });
});

describe("a message that is not asked", () => {
  /** The writes, without the lines of the log, the run, and how often the conversation was found or opened. */
  function added(decision: EffectDecision, over: Partial<Facts> = {}) {
    const writes = noWrites();
    const run = newRun();
    let places = 0;
    let ids = 0;
    const context: Context = {
      line: lineOf({ rules: { cap_text: " Too many. " }, outbound: {} as Outbound }),
      ids: { id: () => `id${++ids}`, token: () => "token" },
      now,
      timing: standardTiming,
      agentOf: () => undefined,
    };
    const place = () => `k${++places}`;
    addUnasked(writes, context, run, message(), { ...noFacts, ...over }, decision, place);
    return { writes: { ...writes, lines: [] }, run, places };
  }
  const wrote = (over: Partial<Writes>) => ({ ...noWrites(), ...over });
  const aboutChannel = { channel: "c", agent: "agent", conversation: null, topic: null, source: "ours", cause: "cap" };

  it("is passed to its call", () => {
    const { writes, run, places } = added({ kind: "words", session: "s" });
    expect(writes).toEqual(wrote({ spoken: [{ message: expect.anything(), facts: noFacts, session: "s" }] }));
    expect([run, places]).toEqual([newRun(), 0]);
  });

  it("is held in its conversation, and counts as held", () => {
    const { writes, run, places } = added({ kind: "hold", refusal: { code: "encrypted", reason: "sealed" } });
    const reason = "sealed; it is held as number 7 (see bridgehead inbox list)";
    const about = { ...aboutChannel, cause: "held", conversation: "k1", key: "event:7", reason, news: true };
    expect(writes).toEqual(
      wrote({
        outcomes: [{ id: 7, state: "held", code: "encrypted", reason: "sealed", conversation: "k1" }],
        escalations: [about as Writes["escalations"][number]],
      }),
    );
    expect([run, places]).toEqual([{ ...newRun(), held: 1 }, 1]);
  });

  it("over a cap of its sender is held with a notice, and is the last one that counts as a loop", () => {
    const over = { name: "sender", cap: { max: 1, per: 1000 }, count: 1, code: "cap-sender", reason: "r" } as const;
    const { writes, run, places } = added({ kind: "over", over });
    expect(writes.outcomes).toEqual([{ id: 7, state: "held", code: "cap-sender", reason: "r" }]);
    expect(writes.notices).toMatchObject([{ id: "id1", conversation: "k1", text: "Too many.", internal: false }]);
    const reason = "messages of one sender are held: r (see bridgehead inbox show 7)";
    expect(writes.escalations).toEqual([{ ...aboutChannel, key: "event:7", reason }]);
    expect([run, places]).toEqual([{ ...newRun(), held: 1, loop: eventRow({ id: 7 }) }, 1]);
  });

  it("at the cap of its channel stays queued with the others of its kind", () => {
    const waits = [
      { cap: { max: 2, per: 1000 }, below: 2 },
      { cap: { max: 10, per: 60_000 }, ms: 14_000 },
    ];
    const { writes, run, places } = added({ kind: "wait", waits });
    const key = "cap:c:500000"; // the hour
    const reason = "the channel is at its cap: messages are queued, those of authenticated and known senders first";
    expect(writes).toEqual(
      wrote({
        postponed: [{ preferred: false, ms: 14_000, rooms: [{ below: 2, per: 1000 }], isNew: true }],
        hops: [{ name: "capped", channel: "c", trace: "", code: "cap-channel" }],
        escalations: [{ ...aboutChannel, key, reason } as Writes["escalations"][number]],
      }),
    );
    expect([run, places]).toEqual([{ ...newRun(), capped: true, room: { none: false, noneForOthers: true } }, 0]);
  });

  it("for humans has a conversation, and is held where nobody is notified", () => {
    const voicemail = message({ forHumans: { subject: "Voicemail" } });
    const event = { ...voicemail.event, forHumans: { subject: "Voicemail" } };
    const { writes, run, places } = added({ kind: "humans", message: { ...voicemail, event } });
    const reason = "it is for people, and the channel has no notify";
    expect(writes).toEqual(
      wrote({
        outcomes: [{ id: 7, state: "held", code: "for-humans", reason, conversation: "k1" }],
        forHumans: [{ message: { ...voicemail, event }, conversation: "k1" }],
      }),
    );
    expect([run, places]).toEqual([{ ...newRun(), held: 1 }, 1]);
  });

  it("because of a keyword suppresses the address, and opens no conversation without a confirmation", () => {
    const stop = message();
    const event = { ...stop.event, consent: { word: "stop" } as const };
    const keyword = { outdated: false, notices: [] };
    const { writes, run, places } = added({ kind: "consent", message: { ...stop, event } }, { keyword });
    expect(writes).toEqual(
      wrote({
        outcomes: [{ id: 7, state: "ignored", code: "opt-out", reason: "the person said STOP", conversation: null }],
        suppressed: [{ address: "ada@example.org", own: "*", reason: "the person said STOP (event 7)" }],
      }),
    );
    expect([run, places]).toEqual([newRun(), 0]);
  });
});
