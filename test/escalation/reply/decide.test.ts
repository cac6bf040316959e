// Decisions about responder replies and about polls, on rows without a database.

import type { MessageEvent } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import type { PlatformMessage } from "../../../src/agent/calls.ts";
import { readInstructions } from "../../../src/domain/instructions.ts";
import { externalMessages, type KnownTurn, pauseAfter, retryIn } from "../../../src/escalation/poll/decide.ts";
import {
  type Candidate,
  foreignNumber,
  kindOf,
  type Link,
  perEscalation,
  planReply,
  type ReplyInput,
  senderOf,
  whyIgnored,
  whyNotRelayed,
} from "../../../src/escalation/reply/decide.ts";
import type { Customer } from "../../../src/escalation/reply/rows.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";

const candidate = (number: number, over: Partial<Candidate["row"]> = {}): Candidate => ({
  target: { id: `to-${number}`, escalation: `e${number}`, name: "Dora", address: "d@example.org" } as never,
  row: { id: `e${number}`, number, state: "open", channel: "c", conversation: "k", ...over } as never,
});
const customer = { id: "k", channel: "c", person: "p", session: null } as Customer;
const line = { outbound: {}, traits: { platform: "email" } } as ChannelRuntime;

function plan(text: string, known: readonly Candidate[], over: Partial<ReplyInput> = {}) {
  const words = readInstructions(text, [], known.length > 1);
  return planReply({
    traits: { platform: "sms", conversations: "person" },
    event: { from: { address: "+15550100" } },
    released: false,
    text,
    words,
    known,
    files: [],
    other: null,
    customers: new Map([["k", customer]]),
    lineOf: () => line,
    ...over,
  });
}
const texts = ({ answers }: ReturnType<typeof plan>) => answers.map(({ text }) => text);

describe("the sender of a message", () => {
  const address = "d@example.org";
  const link = (by: Link["by"], number: number, at = address): Link => {
    const { row, target } = candidate(number);
    return { by, row, target: { ...target, address: at } };
  };
  const found = (inConversation: boolean, ...links: readonly Link[]) => {
    const { from, candidates } = senderOf(address, { inConversation, links });
    return [from, ...candidates.map(({ row }) => row.number)];
  };

  it.each([
    ["a customer", found(true), ["subject"]],
    ["a customer who writes first", found(false), ["subject"]],
    ["a responder by the address", found(false, link("address", 2), link("address", 1)), ["responder", 2, 1]],
    ["a responder in the thread", found(true, link("thread", 1, "D@Example.org")), ["responder", 1]],
    [
      "a responder in the thread, for the targets of this address",
      found(true, link("thread", 1, "other@example.org"), link("thread", 2), link("notification", 3)),
      ["responder", 2],
    ],
    [
      "a stranger in the thread of a notification",
      found(true, link("thread", 1, "other@example.org"), link("notification", 2), link("subject", 3)),
      ["stranger", 1],
    ],
    ["a stranger who cites a notification", found(false, link("notification", 1), link("subject", 2)), ["stranger", 1]],
    ["a stranger, also with the address of the target", found(true, link("notification", 1)), ["stranger", 1]],
    ["a responder by the subject alone", found(false, link("subject", 1)), ["subject", 1]],
    ["a customer in a conversation, whatever the subject names", found(true, link("subject", 1)), ["subject"]],
  ])("is %s", (_what, is, expected) => {
    expect(is).toEqual(expected);
  });
});

describe("a text for the customer", () => {
  it("needs a channel that can send and has conversations", () => {
    expect(kindOf(line)).toBe("email");
    expect(kindOf({ ...line, traits: { ...line.traits, platform: "voice" } })).toBe("voice");
    expect(kindOf({ ...line, traits: { ...line.traits, platform: null } })).toBeNull();
    expect(kindOf({ ...line, outbound: null })).toBeNull();
    expect(kindOf(undefined)).toBeNull();
  });

  it.each([
    ["by mail", customer, "email", null],
    ["in a call", { ...customer, session: "s" }, "voice", null],
    ["after the call", customer, "voice", "the call is over; the number is p"],
    ["on a channel that cannot send", { ...customer, session: "s" }, null, "channel c cannot send now"],
    ["about a channel", null, "email", "it is about a channel, so there is no customer to answer"],
  ] as const)("%s is relayed, or the responder learns why not", (_what, to, kind, why) => {
    expect(whyNotRelayed(to, kind)).toBe(why);
  });
});

describe("a responder's reply", () => {
  it("acknowledges every live escalation with one confirmation", () => {
    const found = plan("ok", [candidate(1), candidate(2), candidate(3, { state: "closed" })]);
    expect(found.actions.map(({ row, acknowledge, relay }) => [row.number, acknowledge, relay])).toEqual([
      [1, true, null],
      [2, true, null],
    ]);
    expect(texts(found)).toEqual(["All 2 are yours."]);
  });

  it("is relayed and acknowledges", () => {
    const { actions, answers } = plan("It is on its way.", [candidate(1)]);
    expect(actions).toMatchObject([
      { acknowledge: true, relay: { text: "It is on its way.", inCall: false }, end: null, by: "Dora" },
    ]);
    expect(answers).toEqual([]);
  });

  it("acknowledges also with files alone", () => {
    const files = [{ name: "a.pdf", media_type: "application/pdf", size: 1, blob: "b", reason: null }];
    const carries = { ...line, traits: { ...line.traits, attachments: true } } as ChannelRuntime;
    const { actions } = plan("", [candidate(1)], { files, lineOf: () => carries });
    expect(actions).toMatchObject([{ acknowledge: true, relay: { text: "", files: [{ name: "a.pdf" }] } }]);
  });

  it("acknowledges although the text cannot be relayed, and says why", () => {
    const found = plan("It is on its way.", [candidate(1)], { lineOf: () => undefined });
    expect(found.actions).toMatchObject([{ acknowledge: true, relay: null }]);
    expect(texts(found)).toEqual(["1: Your answer was not sent: channel c cannot send now."]);
  });

  it("is not spoken after the end of the call", () => {
    const voice = { ...line, traits: { ...line.traits, platform: "voice" } } as ChannelRuntime;
    expect(texts(plan("Hello", [candidate(1)], { lineOf: () => voice }))).toEqual([
      "1: Your answer was not sent: the call is over; the number is p.",
    ]);
    const inCall = new Map([["k", { ...customer, session: "s" }]]);
    expect(plan("Hello", [candidate(1)], { lineOf: () => voice, customers: inCall }).actions).toMatchObject([
      { relay: { inCall: true } },
    ]);
  });

  it("asks which escalation is meant, and does nothing", () => {
    const found = plan("It is on its way.", [candidate(1), candidate(2)]);
    expect([found.actions, texts(found)]).toEqual([[], [expect.stringContaining("Which one do you mean: 1, 2?")]]);
  });

  it("asks when its number names an open escalation of another responder", () => {
    const found = plan("9: On its way", [candidate(1)], { other: { state: "open" } });
    expect([found.actions, texts(found)]).toEqual([[], [expect.stringContaining("Which one")]]);
    expect(plan("9: On its way", [candidate(1)], { other: { state: "closed" } }).actions).toMatchObject([
      { relay: { text: "9: On its way" } },
    ]);
  });

  it("does nothing for a closed escalation", () => {
    const found = plan("ok", [candidate(1, { state: "closed" })]);
    expect([found.actions, texts(found)]).toEqual([[], [expect.stringContaining("is closed")]]);
  });

  it("does nothing for the closed one that its number names, and asks about a number that names none", () => {
    const known = [candidate(1, { state: "closed" }), candidate(2)];
    const closed = plan("1: It is on its way.", known);
    expect([closed.actions, texts(closed)]).toEqual([[], [expect.stringContaining("is closed")]]);
    const unknown = plan("ok 9", known);
    expect([unknown.actions, texts(unknown)]).toEqual([[], [expect.stringContaining("Which one do you mean: 2?")]]);
  });

  it("goes to the customer of the one that the responder has, of several, and asks where there are two of them", () => {
    const own = (number: number) => candidate(number, { state: "acknowledged", acknowledged_target: `to-${number}` });
    const one = plan("It is on its way.", [candidate(1), own(2)]);
    expect(one.actions.map(({ row }) => row.number)).toEqual([2]);
    const amount = plan("3 weeks, then it is back", [own(2), candidate(3)]);
    expect([amount.actions, texts(amount)]).toEqual([[], [expect.stringContaining("Which one do you mean")]]);
    expect(plan("4 weeks, then it is back", [own(2), candidate(3)]).actions).toHaveLength(1);
    const two = plan("It is on its way.", [own(1), own(2)]);
    expect([two.actions, texts(two)]).toEqual([[], [expect.stringContaining("Which one do you mean: 1, 2?")]]);
  });

  it("does nothing when it looks automatic, unless the operator has released it", () => {
    const away = "I am out of the office until Monday.";
    const found = plan(away, [candidate(1)], {
      event: { subject: "Automatic reply: hello" } as MessageEvent,
    });
    expect([found.automatic?.code, found.actions]).toEqual(["auto-reply", []]);
    expect(plan(away, [candidate(1)], { released: true }).automatic).toBeNull();
    expect([plan(`1: ${away}`, [candidate(1)]), plan(`9: ${away}`, [candidate(1)])]).toMatchObject([
      { automatic: null },
      { automatic: { code: "maybe-automatic" } },
    ]);
    const receiver = { platform: null, conversations: "thread" } as const;
    expect(plan(away, [candidate(1)], { traits: receiver }).automatic).toBeNull();
  });

  it("sends neither our own notification nor a signature to the customer", () => {
    const own = plan("Hello\n> Still open: Escalation 417: refund", [candidate(1)]);
    expect([own.actions, texts(own)]).toEqual([[], [expect.stringContaining("our own message")]]);
    const text = "Best regards,\nDora";
    const signed = plan(text, [candidate(1)], { words: readInstructions(text, ["Dora"], false) });
    expect([signed.actions, texts(signed)]).toEqual([[], [expect.stringContaining("nothing but a signature")]]);
  });

  it("does nothing for a misspelled command", () => {
    const slip = plan("#clse", [candidate(1)]);
    expect([slip.actions, texts(slip)]).toEqual([[], [expect.stringContaining('"#clse" is no command')]]);
  });

  it("closes, resumes and keeps notes without a relay", () => {
    expect(plan("#close", [candidate(1)]).actions).toMatchObject([{ end: "close", relay: null }]);
    expect(plan("#resume", [candidate(1)]).actions).toMatchObject([{ end: "resume", relay: null }]);
    expect(plan("#note he lies", [candidate(1)]).actions).toMatchObject([
      { note: "he lies", acknowledge: false, relay: null },
    ]);
  });
});

describe("the answer to a responder", () => {
  const live = (count: number) => Array.from({ length: count }, (_, n) => candidate(n + 1));
  const hook = { platform: null, conversations: "thread" } as const;

  it("asks which escalation is meant, with ten numbers at most", () => {
    expect(texts(plan("hello", live(10)))).toEqual([expect.stringContaining(": 1, 2, 3, 4, 5, 6, 7, 8, 9, 10?")]);
    expect(texts(plan("hello", live(11)))).toEqual([expect.stringContaining(": 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...?")]);
  });

  it("confirms several escalations at once, and says what no customer got", () => {
    const answers = (text: string, over: Partial<ReplyInput> = {}) => texts(plan(text, live(2), over));
    expect(answers("ok").at(-1)).toBe("All 2 are yours.");
    expect(answers("ok", { traits: hook })).toEqual([]);
    const words = { ...readInstructions("ok", [], true), ambiguous: true };
    expect(answers("ok", { words }).at(-1)).toBe('All 2 are yours. "ok" was sent to no customer.');
  });

  it("says what becomes of what is written after an acknowledgement", () => {
    const own = (text: string, row: object, over: Partial<ReplyInput> = {}) =>
      texts(plan(text, [candidate(1, row)], over)).join();
    const goesOn = "1: It is yours. What you write now goes to the customer.";
    const unsent = '1: It is yours. "ok" was not sent to the customer.';
    expect(own("ok", {})).toBe(goesOn);
    expect(own("ok", { conversation: null })).toBe("1: It is yours.");
    expect(own("ok", {}, { traits: hook })).toBe("");
    // Who has it already may have meant the customer, unless the number is written.
    expect(own("ok", { acknowledged_target: "to-1" })).toBe(unsent);
    expect(own("1: ok", { acknowledged_target: "to-1" })).toBe(goesOn);
    expect(own("ok", { acknowledged_target: "to-2" })).toBe(goesOn);
    const words = { ...readInstructions("ok"), ambiguous: true };
    expect(own("ok", {}, { words })).toBe(unsent);
    expect(own("ok", { conversation: null }, { words })).toBe("1: It is yours.");
  });

  it("is signed by the receiver of a webhook, and else by the responder", () => {
    const event = { from: { address: "+15550100", name: "Eve" } } as MessageEvent;
    const by = (over: object) => plan("On its way", [candidate(1)], { event, ...over }).actions.map((one) => one.by);
    expect([by({}), by({ traits: hook })]).toEqual([["Dora"], ["Eve"]]);
  });

  it("relays a number that names no escalation as a part of the text", () => {
    const relayed = (text: string) => plan(text, [candidate(1)]).actions.map(({ relay }) => relay?.text);
    expect([relayed("9: pieces are left"), relayed("1: pieces are left")]).toEqual([
      ["9: pieces are left"],
      ["pieces are left"],
    ]);
  });

  it("says that a note was kept, and relays nothing of an empty text", () => {
    const noted = plan("#note he lies", [candidate(1)]);
    expect(texts(noted)).toEqual([expect.stringContaining("The note was kept")]);
    const acknowledged = plan("ok", [candidate(1)], { customers: new Map() });
    expect(texts(acknowledged)).toEqual([expect.not.stringContaining("not sent")]);
    expect(acknowledged.actions).toMatchObject([{ note: null, acknowledge: true, relay: null }]);
  });
});

describe("the sender", () => {
  const event = (over: object = {}) => ({ from: { address: "x@example.org" }, text: "hi", ...over }) as MessageEvent;
  const from = (kind: "responder" | "subject" | "stranger") => ({ from: kind, candidates: [candidate(1)] });

  it("is ignored as a stranger, and the responder is informed unless the escalation is closed", () => {
    const open = whyIgnored(event(), from("stranger"), candidate(1));
    expect([open?.code, open?.stranger]).toEqual(["not-a-recipient", expect.stringContaining("x@example.org")]);
    const closed = whyIgnored(event(), from("stranger"), candidate(1, { state: "closed" }));
    expect([closed?.code, closed?.stranger]).toEqual(["not-a-recipient", undefined]);
    const machine = event({ refusal: { code: "auto-reply", reason: "a machine" } });
    expect(whyIgnored(machine, from("stranger"), candidate(1))?.stranger).toBeUndefined();
    const sealed = event({ refusal: { code: "encrypted", reason: "it is encrypted", hold: true } });
    expect(whyIgnored(sealed, from("stranger"), candidate(1))?.stranger).toContain("x@example.org");
  });

  it("is ignored when unauthenticated, refused, or citing only the subject", () => {
    const code = (over: object, kind: "responder" | "subject" = "responder") =>
      whyIgnored(event(over), from(kind), candidate(1))?.code;
    expect(code({ sender: "unverified" })).toBe("not-authenticated");
    expect(code({ refusal: { code: "too-large", reason: "r" } })).toBe("too-large");
    expect(code({}, "subject")).toBe("not-threaded");
    expect(code({})).toBeUndefined();
  });

  it("learns that a mail was too large; the machine that wrote one learns nothing", () => {
    const answer = (refused: string) =>
      whyIgnored(event({ refusal: { code: refused, reason: "r" } }), from("responder"), candidate(1))?.answer;
    expect(answer("too-large")).toContain("too large");
    expect(answer("auto-reply")).toBeUndefined();
  });

  it("learns that an encrypted text cannot be read; beside an encrypted file alone the text counts", () => {
    const sealed = { text: "", refusal: { code: "encrypted", reason: "it is encrypted", hold: true } };
    const ignored = (over: object) => whyIgnored(event({ ...sealed, ...over }), from("responder"), candidate(1));
    expect(ignored({})).toMatchObject({ code: "encrypted", answer: expect.stringContaining("cannot be read") });
    expect([ignored({ wordless: true }), ignored({ text: "ok" })]).toEqual([null, null]);
    expect(ignored({ sender: "unverified" })).toEqual(expect.not.objectContaining({ answer: expect.anything() }));
  });

  it("has one candidate for each escalation, the first", () => {
    const all = [candidate(1), candidate(2), { ...candidate(1), target: { id: "other" } as never }];
    expect(perEscalation(all).map(({ target }) => target.id)).toEqual(["to-1", "to-2"]);
  });

  it("may mean another responder's escalation only on channels with one conversation per person", () => {
    const words = readInstructions("9: On its way");
    expect(foreignNumber("person", [candidate(1)], words)).toBe(9);
    expect(foreignNumber("person", [candidate(9)], words)).toBeNull();
    expect(foreignNumber("thread", [candidate(1)], words)).toBeNull();
    expect(foreignNumber("person", [candidate(1)], readInstructions("On its way"))).toBeNull();
    expect(foreignNumber("person", [candidate(1)], readInstructions("9 on its way"))).toBe(9);
  });

  it("is named among several; there a number that may be an amount names none", () => {
    const words = readInstructions("9 on its way", [], true);
    expect(foreignNumber("person", [candidate(1), candidate(9)], words)).toBeNull();
    expect(foreignNumber("person", [candidate(1), candidate(2)], words)).toBe(9);
    const amount = readInstructions("20 items left", [], true);
    expect([amount.doubt, foreignNumber("person", [candidate(1), candidate(2)], amount)]).toEqual([20, null]);
  });
});

describe("a poll", () => {
  const message = (id: string, role: PlatformMessage["role"], over: Partial<PlatformMessage> = {}) =>
    ({ id, role, text: `text of ${id}`, answers: null, ...over }) as PlatformMessage;
  const messages = [message("q", "person"), message("a", "agent"), message("h", "human"), message("b", "agent")];
  const found = (over: object, known: string[] = ["q", "a"], turns: never[] = []) =>
    externalMessages({ mark: "a", position: 2, ...over }, { messages, start: 0 }, new Set(known), turns);
  const ids = (list: readonly PlatformMessage[]) => list.map(({ id }) => id);

  it("delivers what appeared after the mark", () => {
    expect(ids(found({}).deliver)).toEqual(["h", "b"]);
    const blank = { messages: [...messages, message("c", "human", { text: " \n" })], start: 0 };
    expect(ids(externalMessages({ mark: "b", position: 4 }, blank, new Set(["q", "a", "h"]), []).deliver)).toEqual([]);
  });

  it("delivers nothing of the agent from before the mark, nor after a mark that is gone", () => {
    const earlier = { mark: "b", position: 4 };
    expect(ids(found(earlier, ["q", "a", "h"]).deliver)).toEqual([]);
    expect(ids(found(earlier, ["q"]).deliver), "of a human also from before it").toEqual(["h"]);
    const answers = [message("q", "person"), message("a2", "agent", { answers: "q" })];
    const gone = externalMessages({ mark: "gone", position: 9 }, { messages: answers, start: 0 }, new Set(["q"]), []);
    expect(gone.deliver).toEqual([]);
  });

  it("delivers no human's message from the beginning of a conversation whose later part was not read", () => {
    const begun = { messages: [message("h", "human")], start: 0 };
    expect(externalMessages({ mark: null, position: 0 }, begun, new Set(["q"]), []).deliver).toEqual([]);
  });

  it("delivers only a human's messages at the first poll, after our first question", () => {
    expect(ids(found({ mark: null }).deliver)).toEqual(["h"]);
    expect(ids(found({ mark: null }, []).deliver)).toEqual([]);
  });

  it("delivers a human's messages also when the part that is read begins after our questions", () => {
    const read = (start: number) =>
      ids(externalMessages({ mark: "a", position: 9 }, { messages, start }, new Set(["a"]), []).deliver);
    const human = { messages: [message("h", "human")], start: 5 };
    expect(read(5)).toEqual(["h", "b"]);
    const late = (known: string[]) =>
      ids(externalMessages({ mark: "a", position: 9 }, human, new Set(known), []).deliver);
    expect([late(["a"]), late(["h2"]), late([])]).toEqual([["h"], ["h"], []]);
  });

  it("delivers answers of the agent to our question at the first poll, except the one that is known", () => {
    const answers = [message("q", "person"), message("a", "agent", { answers: "q" })];
    const late = [message("b", "agent", { answers: "q" }), message("c", "agent", { answers: "c" })];
    const read = (mark: string | null, known: string[]) =>
      ids(
        externalMessages({ mark, position: 0 }, { messages: [...answers, ...late], start: 0 }, new Set(known), [])
          .deliver,
      );
    expect([read(null, ["q", "a"]), read(null, ["q"]), read("gone", ["q", "a"])]).toEqual([["b"], ["a", "b"], []]);
  });

  it("delivers nothing after a restore, and records what exists", () => {
    const { deliver, record } = found({ position: -1 });
    expect([ids(deliver), ids(record)]).toEqual([[], ["h", "b"]]);
    const old = [message("old", "human"), ...messages, message("r", "person")];
    const all = externalMessages({ mark: null, position: -1 }, { messages: old, start: 0 }, new Set(["q", "a"]), []);
    expect(ids(all.record)).toEqual(["h", "b"]);
  });

  it("does not deliver copies of a relayed text", () => {
    const relayed = { kind: "relayed", state: "answered", text: "text of h", questionId: null } as never;
    expect(ids(found({}, ["q", "a"], [relayed]).deliver)).toEqual(["b"]);
    const same = { messages: [...messages.slice(0, 2), message("b", "agent", { text: "text of h" })], start: 0 };
    const ofAgent = externalMessages({ mark: "a", position: 2 }, same, new Set(["q", "a"]), [relayed]);
    expect(ids(ofAgent.deliver), "the agent may say the same").toEqual(["b"]);
  });

  it("delivers a human's answer to a question that was asked again, and not to its copy", () => {
    const again = { kind: "question", state: "answered", text: "text of q", questionId: "q" } as const;
    const copy = { ...message("copy", "person"), text: "text of q" };
    const human = (answers: string, text = "help") => message("h", "human", { answers, text });
    const answered = (one: PlatformMessage, turn: KnownTurn = again) => {
      const read = { messages: [...messages.slice(0, 2), copy, one], start: 0 };
      return externalMessages({ mark: "a", position: 2 }, read, new Set(["q", "a"]), [turn]).deliver.length;
    };
    expect([answered(human("q")), answered(human("copy"))]).toEqual([1, 0]);
    expect(answered(human("h", "text of q")), "a message may name itself").toBe(1);
    expect(answered(human("copy"), { ...again, kind: "relayed" })).toBe(1);
  });

  it("does not deliver the answer to a cancelled question, whose id is known or not", () => {
    const cancelled = (questionId: string | null) =>
      ({ kind: "question", state: "dropped", text: "text of p", questionId }) as never;
    const answer = { id: "b", role: "agent", text: "late", answers: "p" } as const;
    const asked = { id: "p", role: "person", text: "text of p", answers: null } as const;
    const late = (questionId: string | null) =>
      externalMessages(
        { mark: "a", position: 2 },
        { messages: [...messages.slice(0, 2), asked, answer], start: 0 },
        new Set(["q", "a"]),
        [cancelled(questionId)],
      ).deliver;
    expect([late("p"), late(null), ids(late("other"))]).toEqual([[], [], ["b"]]);
  });

  it("pauses for longer the longer nothing happens, and for a moment at least after a failure", () => {
    const timing = { ...standardTiming.escalation, pollRetry: [1, 5000], pollBusy: 1000 };
    expect([0, 1].map((failures) => retryIn({ failures }, timing))).toEqual([1000, 5000]);
    const hour = 3_600_000;
    expect(pauseAfter({ quiet: 0, escalated: false }, "ai", null, standardTiming.escalation)).toBe(300_000);
    expect(pauseAfter({ quiet: 2 * hour, escalated: false }, "ai", null, standardTiming.escalation)).toBe(hour / 2);
    expect(pauseAfter({ quiet: 2 * hour, escalated: true }, "ai", null, standardTiming.escalation)).toBe(20_000);
    expect(pauseAfter({ quiet: 0, escalated: false }, "manual", null, standardTiming.escalation)).toBe(20_000);
    expect(pauseAfter({ quiet: 2 * hour, escalated: false }, "manual", null, standardTiming.escalation)).toBe(
      hour / 10,
    );
    expect(pauseAfter({ quiet: 25 * hour, escalated: false }, "manual", null, standardTiming.escalation)).toBeNull();
    expect(pauseAfter({ quiet: null, escalated: false }, "ai", null, standardTiming.escalation)).toBeNull();
  });
});
