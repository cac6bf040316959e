// Decisions of stage notify on rows, without a database: the messages of grouped notifications.

import { describe, expect, it } from "vitest";
import { hashOf } from "../../../src/escalation/link/page.ts";
import {
  type ConversationsByAddress,
  continues,
  type Due,
  detailsFor,
  type Group,
  type NotificationFacts,
  planMessages,
  readyGroups,
  recipientsWithOneConversation,
} from "../../../src/escalation/notify/decide.ts";
import type { Details } from "../../../src/escalation/notify/text.ts";
import type { DueNotification } from "../../../src/store/tables/responders.ts";
import { escalationRow, notification, runtimesOf, targetRow } from "../../support/rows.ts";

const lines = runtimesOf("sms", "mail", "escalations");
const second = { target: "t2", escalation: "e2" };
const dueOf = (over: Partial<DueNotification> = {}, target = targetRow(), row = escalationRow()): Due => ({
  notification: notification("1", over),
  target,
  row,
});
const other = dueOf(
  { id: "2", ...second },
  targetRow({ id: "t2", escalation: "e2" }),
  escalationRow({ id: "e2", number: 8 }),
);
const textOf = (kind: "customer" | "message") => dueOf({ kind, text: "Hello" });

describe("the details of a message", () => {
  const ids = (groups: readonly Group[]) => {
    const { whole, headlines } = detailsFor(groups);
    return [whole.map(({ id }) => id), headlines.map(({ id }) => id)];
  };
  it.each([
    ["are whole for one escalation", [[dueOf()]], [["e"], []]],
    ["are a headline for several", [[dueOf(), other]], [[], ["e", "e2"]]],
    ["are a headline for a text", [[textOf("customer")]], [[], ["e"]]],
    ["are whole for a text to a webhook", [[dueOf({ text: "Hello" }, targetRow({ way: "webhook" }))]], [["e"], []]],
    ["are loaded once", [[dueOf()], [dueOf(), other]], [["e"], ["e2"]]],
  ] as const)("%s", (_, groups, expected) => {
    expect(ids(groups)).toEqual(expected);
  });
});

describe("a message to an address without a conversation", () => {
  const to = (channel: string, conversation: string | null = null): Group => [
    dueOf({}, targetRow({ channel, address: "+1", conversation })),
  ];
  const none: ConversationsByAddress = { known: new Map(), channels: new Set() };
  it.each([
    ["waits while another node has locked the channel", to("sms"), none, false],
    ["is written when its channel is locked for it", to("sms"), { ...none, channels: new Set(["sms"]) }, true],
    ["waits when another channel is locked for it", to("sms"), { ...none, channels: new Set(["escalations"]) }, false],
    ["is written when another escalation has one", to("sms"), { ...none, known: new Map([["sms +1", "k"]]) }, true],
    ["is written when its target has one", to("sms", "k"), none, true],
    ["is written on a channel with threads", to("mail"), none, true],
  ])("%s", (_, group, conversations, isReady) => {
    expect(readyGroups([group], conversations, lines)).toEqual(isReady ? [group] : []);
  });

  it("is looked up on channels with one conversation per person", () => {
    const found = recipientsWithOneConversation([to("sms"), to("mail"), to("removed")], lines);
    expect(found.map(({ channel }) => channel)).toEqual(["sms"]);
  });
});

it.each([
  ["one escalation", [dueOf()], true],
  ["several", [dueOf(), other], false],
  ["several acknowledged ones", [dueOf({ kind: "acknowledged" }), other], true],
] as const)("a message about %s continues its target's conversation", (_, group, expected) => {
  expect(continues(group)).toBe(expected);
});

describe("a message", () => {
  const details = (row = escalationRow()): Details => ({ row, triggers: [], person: null, subject: null, said: [] });
  const facts: NotificationFacts = {
    details: new Map([
      ["e", details()],
      ["e2", details(other.row)],
    ]),
    conversations: new Map(),
    sent: new Map(),
  };
  const messages = (groups: readonly Group[], known: Partial<NotificationFacts> = {}, linked = true) => {
    let ids = 0;
    return planMessages(groups, { ...facts, ...known }, lines, {
      id: () => `n${++ids}`,
      token: (length = 8) => "x".repeat(length),
      link: (token) => (linked ? `https://b.example/escalations/${token}` : null),
    });
  };
  const byMail = targetRow({ way: "email", channel: "mail", address: "Ann@people.example" });

  it("opens the target's conversation, with a link", () => {
    const [message] = messages([[dueOf()]]);
    expect(message).toMatchObject({
      opened: { id: "n1", channel: "sms", agent: "agent", person: "+1", subject: null, token: "xxxxxxxx" },
      link: { target: "t", link: hashOf("x".repeat(26)) },
      error: null,
      reply: { id: "n2", channel: "sms", conversation: "n1", forced: false, internal: true },
    });
    expect(message?.reply.text).toContain(`https://b.example/escalations/${"x".repeat(26)}`);
  });

  it("opens a thread with a subject by mail, in the address's lower case", () => {
    const [message] = messages([[dueOf({}, byMail)]]);
    expect(message?.opened).toMatchObject({
      person: "ann@people.example",
      subject: "[Escalation 7] asks for a human (channel c)",
    });
    expect(message?.reply.address).toMatchObject({ to: [{ address: "Ann@people.example" }], answers: null });
  });

  it("says which answers of the transcript were not sent", () => {
    const said = [
      { at: 0, who: "agent", text: "Never", unsent: true },
      { at: 0, who: "agent", text: "Hello" },
    ] as const;
    const [message] = messages([[dueOf({}, byMail)]], { details: new Map([["e", { ...details(), said }]]) });
    expect(message?.reply.text).toMatch(/Agent \(not sent\):\n> Never\n\n\S+ \S+.* Agent:\n> Hello/);
  });

  it.each([
    ["continues the target's conversation", dueOf({}, { ...byMail, conversation: "k1" }), {}, "k1"],
    ["uses the person's conversation", dueOf(), { conversations: new Map([["sms +1", "k2"]]) }, "k2"],
    [
      "uses no other thread by mail",
      dueOf({}, byMail),
      { conversations: new Map([["mail Ann@people.example", "k2"]]) },
      "n1",
    ],
  ] as const)("%s", (_, one, known, expected) => {
    const [message] = messages([[one]], known);
    expect([message?.reply.conversation, message?.opened === null]).toEqual([expected, expected !== "n1"]);
  });

  it("cites the earlier ones of its thread", () => {
    const sent = new Map([["k1", ["m1", "m2"]]]);
    const [message] = messages([[dueOf({}, { ...byMail, conversation: "k1" })]], { sent });
    expect(message?.reply.address).toMatchObject({ answers: "m2", history: ["m1", "m2"] });
    const [text] = messages([[dueOf({}, targetRow({ conversation: "k1" }))]], { sent });
    expect(text?.reply.address).toMatchObject({ answers: null, history: [] });
  });

  it("shares the conversation that another one of the same address has opened", () => {
    const [one, two] = messages([[textOf("customer")], [textOf("message")]]);
    expect([one?.opened?.id, two?.opened, two?.reply.conversation]).toEqual(["n1", null, "n1"]);
  });

  it("about several escalations opens a thread of its own, without a link", () => {
    const grouped: Group = [dueOf({}, { ...byMail, conversation: "k1" }), { ...other, target: byMail }];
    const [message] = messages([grouped]);
    expect(message).toMatchObject({ opened: { id: "n1", subject: "2 escalations are open" }, link: null });
  });

  it.each([
    ["opened", null, true],
    ["reminder", null, true],
    ["acknowledged", null, false],
    ["customer", "Hello", false],
    ["message", "Done", false],
  ] as const)("of kind %s with the text %s has a link: %s", (kind, text, expected) => {
    expect(messages([[dueOf({ kind, text })]])[0]?.link !== null).toBe(expected);
  });

  it("has no link without a public URL", () => {
    expect(messages([[dueOf()]], {}, false)[0]?.link).toBeNull();
  });

  it.each([
    ["by SMS", targetRow(), true, null],
    ["by mail", byMail, true, "[Escalation 7]"],
    ["without a link", targetRow(), false, null],
  ] as const)("that cannot be rendered is a fixed text: %s", (_, target, linked, subject) => {
    const [message] = messages([[dueOf({}, target)]], { details: new Map() }, linked);
    const text = "Escalation 7 is open. The command escalation show 7 prints it.";
    const link = `\nhttps://b.example/escalations/${"x".repeat(26)}`;
    expect(message?.reply.text).toBe(linked ? text + link : text);
    expect(message?.opened?.subject).toBe(subject);
    expect(message?.error).toBeInstanceOf(Error);
  });

  it("is an error on a channel that does not run", () => {
    const gone = dueOf({}, targetRow({ channel: "old" }));
    expect(() => messages([[gone]])).toThrow("there is no channel old");
  });
});
