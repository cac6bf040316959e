// The drafts that stage compose makes of a reply, on rows: no database, no clock.

import { externalId, type Outbound, type Reply } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { firstTo } from "../../../src/domain/turn.ts";
import { type ComposeFacts, draftsOf, unsentChange } from "../../../src/pipeline/compose/decide.ts";
import type { ConversationRow } from "../../../src/store/tables/conversations.ts";
import type { NewDraft, ReplyRow } from "../../../src/store/tables/drafts.ts";
import { activeSettings, lineOf } from "../../support/rows.ts";

const address = firstTo({ address: "Ada@example.org" }, "");
const turn = { address: JSON.stringify(address), received_at: 5000, trace: "m1" };
const conversation: ConversationRow = {
  id: "k",
  channel: "c",
  agent: "agent",
  person: "person@example.org",
  person_name: null,
  via: null,
  subject: null,
  token: "token",
  platform_id: null,
};
const skill = activeSettings({ delay: 60 }).email;
const delayed = (responseDelaySeconds: number) => skill && { ...skill, responseDelaySeconds };
const facts = (over: Partial<ComposeFacts> = {}): ComposeFacts => ({
  turn,
  conversation,
  skill,
  isFirst: false,
  files: [],
  ...over,
});
const answer: ReplyRow = {
  id: "r",
  conversation: "k",
  channel: "c",
  turn: "t",
  kind: "answer",
  transfer: 0,
  internal: 0,
  address: null,
  reason: null,
  text: "hello",
  rendered: null,
  created_at: 9000,
};
const notice: ReplyRow = {
  ...answer,
  turn: null,
  kind: "notice",
  address: JSON.stringify({ ...address, forced: true }),
};
const human: ReplyRow = { ...answer, turn: null, kind: "human", address: JSON.stringify(address) };

interface Composed {
  readonly drafts: readonly NewDraft[] | null;
  /** What the adapter was asked to compose. */
  readonly replies: readonly Reply[];
  readonly errors: readonly unknown[];
}

/** Composes on a channel whose adapter throws as often as stated. */
function composed(row: ReplyRow, over: Partial<ComposeFacts> = {}, throws = 0, parts: unknown = [{}]): Composed {
  const replies: Reply[] = [];
  const compose = (reply: Reply) => {
    replies.push(reply);
    if (replies.length <= throws) throw new Error(`form ${replies.length}`);
    return parts;
  };
  const line = lineOf({ outbound: { compose } as unknown as Outbound });
  return { ...draftsOf(line, row, facts(over)), replies };
}

it.each([
  ["none", []],
  ["a promise", Promise.resolve([])],
  ["a value that JSON cannot represent", [undefined], "a draft that is no JSON"],
])(
  "are none where the adapter composes %s of any form, and the reason is reported for each",
  (_, parts, what = "no draft") => {
    const { drafts, errors } = composed(answer, {}, 0, parts);
    expect([drafts, errors.map(String)]).toEqual([
      null,
      Array.from({ length: 2 }, () => `Error: compose of the adapter returned ${what}`),
    ]);
  },
);

describe("the drafts of a reply", () => {
  it("have keys in the order of the parts, the recipient in lower case, and the delay of an answer", () => {
    const { drafts } = composed(answer, {}, 0, [{ text: "one" }, { text: "two" }]);
    const [first, second] = drafts ?? [];
    expect(drafts).toHaveLength(2);
    expect(first?.id).not.toBe(second?.id);
    expect(first).toMatchObject({
      conversation: "k",
      channel: "c",
      reply: "r",
      recipient: "ada@example.org",
      trace: "m1",
    });
    expect([first?.body, second?.body]).toEqual(['{"text":"one"}', '{"text":"two"}']);
    expect(first).toMatchObject({ dueAt: 65_000, isDue: false, forced: false, internal: false });
  });

  it.each<[string, ReplyRow, Partial<ComposeFacts>, Partial<NewDraft>]>([
    ["an answer without a delay", answer, { skill: null }, { dueAt: 5000, isDue: true }],
    // 1.001 * 1000 is no integer.
    ["an answer with a delay in fractions of a second", answer, { skill: delayed(1.001) }, { dueAt: 6001 }],
    ["an answer with a delay in fractions of a millisecond", answer, { skill: delayed(0.0005) }, { dueAt: 5001 }],
    [
      "in a call",
      answer,
      { turn: { ...turn, address: JSON.stringify({ ...address, session: "s" }) } },
      { dueAt: 5000 },
    ],
    ["of a turn that a clock ahead received", answer, { turn: { ...turn, received_at: 99_000 } }, { dueAt: 69_000 }],
    ["a forced notice", notice, { turn: null }, { dueAt: 9000, isDue: false, forced: true, trace: "" }],
    ["for a responder", { ...notice, internal: 1 }, { turn: null }, { internal: true }],
    [
      "without an address in `to`",
      { ...notice, address: JSON.stringify({ ...address, to: [] }) },
      { turn: null },
      { recipient: "person@example.org" },
    ],
  ])("%s", (_, row, over, expected) => {
    expect(composed(row, over).drafts).toMatchObject([expected]);
  });

  it("cannot be made without a recipient, or for a channel that sends nothing", () => {
    expect(() => composed(answer, { turn: null })).toThrow("it has no recipient");
    expect(() => draftsOf(lineOf(), answer, facts())).toThrow("it cannot send");
  });
});

describe("what the adapter composes", () => {
  it.each<[string, ReplyRow, Partial<ComposeFacts>, Partial<Reply>]>([
    ["an answer", answer, {}, { kind: "answer", signature: "-- us", introduction: null, senderName: "Us" }],
    ["the first answer", answer, { isFirst: true }, { introduction: "Hello!" }],
    ["an answer without a subject", answer, {}, { subject: "Your message" }],
    ["an answer that was rendered", { ...answer, rendered: '"<b>"' }, {}, { rendered: "<b>" }],
    ["an answer that transfers the call", { ...answer, transfer: 1 }, {}, { transfer: true }],
    ["an answer from an address of ours", answer, { conversation: { ...conversation, via: "us@x" } }, { from: "us@x" }],
    ["a notice", notice, {}, { kind: "notice", plain: true, signature: null }],
    ["a human's reply", human, {}, { kind: "answer", byHuman: true, plain: true, signature: "-- us" }],
    [
      "a thread",
      { ...answer, address: JSON.stringify({ ...address, subject: "Re: x", answers: "id", hops: 3 }) },
      {},
      { subject: "Re: x", answers: externalId("id"), hops: 3 },
    ],
  ])("%s", (_, row, over, expected) => {
    expect(composed(row, over).replies).toMatchObject([expected]);
  });

  it("has the files of a human's reply", () => {
    const files = [{ name: "a.pdf", media_type: "application/pdf", size: 3, blob: "b" }];
    const ready = files as unknown as ComposeFacts["files"];
    const [reply] = composed(human, { files: ready }).replies;
    expect(reply?.attachments).toMatchObject([{ name: "a.pdf", mediaType: "application/pdf", size: 3 }]);
  });
});

describe("an adapter that cannot compose a reply", () => {
  const long = { ...answer, text: `a\u0000${"b".repeat(20_000)}`, rendered: "{}" };

  it("gets a shortened plain text without control characters, signature and rendering", () => {
    const { replies, errors, drafts } = composed(long, { isFirst: true }, 1);
    expect(replies[1]).toMatchObject({ plain: true, signature: null, introduction: null });
    expect(replies[1]).not.toHaveProperty("rendered");
    expect(replies[1]?.text).toBe(`a ${"b".repeat(9998)} [...]`);
    expect(drafts).toHaveLength(1);
    expect(errors).toEqual([new Error("form 1")]);
  });

  it("gets a fixed text for a notice at last", () => {
    const { replies, errors } = composed(notice, {}, 2);
    expect(replies[2]).toMatchObject({
      text: expect.stringContaining("could not be composed") as string,
      subject: null,
    });
    expect(errors).toHaveLength(2);
  });

  it.each([
    [answer, 2],
    [notice, 3],
  ])("has no drafts when every form fails, with the errors in order", (row, forms) => {
    const errors = Array.from({ length: forms }, (_, n) => new Error(`form ${n + 1}`));
    expect(composed(row, {}, forms)).toMatchObject({ drafts: null, errors });
  });
});

it.each([
  ["shadow", answer, "held"],
  ["shadow", human, "held"],
  ["shadow", notice, "dropped"],
  ["shadow", { ...notice, internal: 1 }, undefined],
  ["live", answer, undefined],
  [undefined, answer, undefined],
] as const)("in %s mode the drafts of %o are %s", (mode, row, state) => {
  const change = unsentChange(row, mode);
  expect(change?.state).toBe(state);
  if (change) expect(change).toMatchObject({ open: 0, code: "shadow" });
});

it.each([answer, human, notice])("after a restore the drafts of %o are held in every mode", (row) => {
  const change = { state: "held", open: 0, code: "answered-before-restore", reason: "restored" };
  for (const mode of ["shadow", "live"] as const)
    expect(unsentChange({ ...row, reason: "restored" }, mode)).toEqual(change);
});
