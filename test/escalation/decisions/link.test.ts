// The page of a link, derived from rows without a database: the actions that it offers, and what it shows.

import { describe, expect, it } from "vitest";
import { type ActionName, actionNames } from "../../../src/domain/policy.ts";
import { type Linked, type LinkPolicy, masked, pageOf, permittedActions } from "../../../src/escalation/link/decide.ts";
import type { Details } from "../../../src/escalation/notify/text.ts";
import type { EscalationRow } from "../../../src/store/tables/escalations.ts";
import type { NotificationStateRow } from "../../../src/store/tables/responders.ts";
import { escalationRow, targetRow } from "../../support/rows.ts";

const policy = (over: Partial<LinkPolicy> = {}): LinkPolicy => ({
  expires: 1,
  actions: actionNames,
  addresses: "full",
  ...over,
});
const linked = (
  row: Partial<EscalationRow> = {},
  over: Partial<Linked> = {},
  details: Partial<Details> = {},
): Linked => ({
  target: targetRow(),
  whyNotReplied: null,
  isReturned: false,
  notifications: [],
  details: { row: escalationRow(row), triggers: [], person: null, subject: null, said: [], ...details },
  ...over,
});
const own = { state: "acknowledged", acknowledged_target: "t", acknowledged_by: "Ann" } as const;
const others = { state: "acknowledged", acknowledged_target: "b", acknowledged_by: "Bob" } as const;
const closed = { state: "closed", closed_by: "Bob" } as const;

describe("permitted actions", () => {
  const noReply = { whyNotReplied: "the call is over" };
  it.each<[string, Linked, readonly ActionName[]]>([
    ["open", linked(), ["ack", "reply", "note", "resume", "close"]],
    ["open, about a channel", linked({ conversation: null }), ["ack", "reply", "note", "close"]],
    ["open, without a way to reply", linked({}, noReply), ["ack", "note", "resume", "close"]],
    ["acknowledged by this responder", linked(own), ["reply", "note", "resume", "close"]],
    ["acknowledged by another", linked(others), ["ack", "reply", "note", "resume", "close"]],
    [
      "acknowledged by a command",
      linked({ ...others, acknowledged_target: null }),
      ["ack", "reply", "note", "resume", "close"],
    ],
    ["closed", linked(closed), ["note", "resume"]],
    ["closed, and returned to the agent", linked(closed, { isReturned: true }), ["note"]],
    ["closed, about a channel", linked({ ...closed, conversation: null }), ["note"]],
  ])("%s", (_, about, expected) => {
    expect([...permittedActions(about, policy())]).toEqual(expected);
  });

  it("are among those of the policy", () => {
    expect([...permittedActions(linked(), policy({ actions: ["ack", "note"] }))]).toEqual(["ack", "note"]);
    expect([...permittedActions(linked(own), policy({ actions: ["ack"] }))]).toEqual([]);
  });
});

describe("the status", () => {
  const byMail = { target: targetRow({ way: "email" }) };
  const hook = { target: targetRow({ way: "webhook" }) };
  const asksReply = (how: string) => `It is yours. To write to the customer, use the form below, or ${how}.`;
  it.each([
    ["open", linked(), "Not acknowledged yet. An acknowledgement ends the notifications of all responders."],
    ["yours by SMS", linked(own), asksReply("answer the message with 7 and your text")],
    ["yours by mail", linked(own, byMail), asksReply("answer the mail")],
    ["yours by webhook", linked(own, hook), "It is yours."],
    ["yours, about a channel", linked({ ...own, conversation: null }), "It is yours."],
    ["of another", linked(others), "Acknowledged by Bob. If you acknowledge it as well, it is yours."],
    [
      "of an erased responder",
      linked({ ...others, acknowledged_by: "" }),
      "Acknowledged by an unknown actor. If you acknowledge it as well, it is yours.",
    ],
    ["closed", linked(closed), "Closed by Bob."],
    ["closed by an erased responder", linked({ ...closed, closed_by: "" }), "Closed by an unknown actor."],
  ])("%s", (_, about, expected) => {
    expect(pageOf(about, policy()).status).toBe(expected);
  });
});

describe("the page", () => {
  const person = { address: "ada@example.org", name: "Ada" };

  it("shows what a decision needs first, then the rest", () => {
    const triggers = [
      { source: "webhook", detail: "refund", recorded_at: 60_000 },
      { source: "other", detail: null, recorded_at: 0 },
      { source: "note", detail: "He lies.", recorded_at: 120_000 },
    ];
    const page = pageOf(linked({ topic: "refund" }, {}, { person, subject: "Order", triggers }), policy());
    expect(page).toMatchObject({
      title: "Escalation 7",
      state: "open",
      facts: [
        ["Why", "asks for a human"],
        ["Topic", "refund"],
        ["Customer", "Ada, ada@example.org"],
        ["Subject", "Order"],
        ["Opened", "1970-01-01 00:00 UTC"],
      ],
      details: [
        ["Channel", "c"],
        ["Agent", "a"],
        ["Detected by", "Webhook of the platform, 1970-01-01 00:01 UTC: refund"],
        ["Detected by", "other, 1970-01-01 00:00 UTC"],
      ],
      notes: ["1970-01-01 00:02 UTC He lies."],
    });
    const about = (one: Linked) => pageOf(one, policy()).facts.map(([label]) => label);
    expect(about(linked())).toEqual(["Why", "Opened"]);
  });

  it.each([
    ["full", { address: "ada@example.org", name: "Ada" }, "Ada, ada@example.org"],
    ["masked", { address: "ada@example.org", name: "Ada" }, "Ada, a***@example.org"],
    ["masked", { address: "+12025550123", name: null }, "+1202*****23"],
    ["masked", { address: "ada@example.org", name: "'Ada@Example.org'" }, "a***@example.org"],
  ] as const)("shows the customer's address %s", (addresses, who, expected) => {
    expect(pageOf(linked({}, {}, { person: who }), policy({ addresses })).facts[1]).toEqual(["Customer", expected]);
  });

  it("names the senders of the messages, what was not sent, and the length of what was cut", () => {
    const said = [
      { at: 0, who: "person", text: "Hi" },
      { at: 0, who: "agent", text: "Hello" },
      { at: 0, who: "agent", text: "Never", unsent: true },
      { at: 0, who: "human", text: "Ann here", cut: 12 },
      { at: 0, who: "person", text: "Me too", other: "eve@example.org" },
    ] as const;
    const shown = (addresses: "full" | "masked") =>
      pageOf(linked({}, {}, { said }), policy({ addresses })).messages.map(({ who, side, text }) => [who, side, text]);
    expect(shown("masked")).toEqual([
      ["Customer", "person", "Hi"],
      ["Agent", "agent", "Hello"],
      ["Agent (not sent)", "agent", "Never"],
      ["Responder", "human", "Ann here [12 more characters]"],
      ["e***@example.org", "person", "Me too"],
    ]);
    expect(shown("full")[4]?.[0]).toBe("eve@example.org");
  });

  it.each([
    [40, false, 40, "0", false],
    [41, false, 40, "1", true],
    [2, true, 2, "0", true],
  ])("of %s messages (earlier ones: %s) shows %s, from number %s", (count, cut, most, first, isCut) => {
    const said = Array.from({ length: count }, (_, n) => ({ at: n, who: "person", text: String(n) }) as const);
    const page = pageOf(linked({}, {}, { said, cut }), policy());
    expect([page.messages.length, page.messages[0]?.text, page.isCut]).toEqual([most, first, isCut]);
  });

  it("lists who was asked to acknowledge, with the newest state", () => {
    const row = (over: Partial<NotificationStateRow>): NotificationStateRow => ({
      target: "t",
      name: "Ann",
      way: "sms",
      address: "+1",
      kind: "opened",
      text: null,
      made_at: 0,
      draft: null,
      state: null,
      reason: null,
      ...over,
    });
    const notifications = [
      row({ state: "sent" }),
      row({ target: "b", name: "Bob", way: "email", state: "unknown" }),
      row({ kind: "reminder", made_at: 60_000, state: "queued" }),
      row({ target: "x", name: "Eve", kind: "acknowledged" }),
    ];
    expect(pageOf(linked({}, { notifications }), policy()).notified).toEqual([
      "Ann by SMS: waiting to be sent, 1970-01-01 00:01 UTC (2 notifications)",
      "Bob by email: outcome unknown, 1970-01-01 00:00 UTC",
    ]);
  });

  it.each([
    ["says why a reply is not offered", {}, {}, "the call is over"],
    ["does not when the policy does not permit it", {}, { actions: ["ack"] }, null],
    ["does not when it is closed", closed, {}, null],
  ] as const)("%s", (_, row, over, expected) => {
    const about = linked(row, { whyNotReplied: "the call is over" });
    expect(pageOf(about, policy(over)).whyNotReplied).toBe(expected);
  });

  it.each([
    ["webhook", true],
    ["sms", false],
    ["email", false],
  ] as const)("of a link by %s asks for the name: %s", (way, expected) => {
    expect(pageOf(linked({}, { target: targetRow({ way }) }), policy()).asksName).toBe(expected);
  });
});

it.each([
  ["+12025550123", "+1202*****23"],
  ["+1202555012345678901234", "+1202************34"],
  ["ada@example.org", "a***@example.org"],
  ["x@y", "x***@y"],
  ['"a@b"@example.org', '"***@example.org'],
  ["@", "***"],
  ["12", "***"],
  ["1234567", "***"],
  ["", "***"],
])("masks %s as %s", (address, expected) => {
  expect(masked(address)).toBe(expected);
});
