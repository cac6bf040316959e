// Decisions about requested actions, on rows without a database.

import { describe, expect, it } from "vitest";
import { type ActionFacts, type ActionRequest, decideAction, noteOf } from "../../../src/escalation/act/decide.ts";
import type { Customer } from "../../../src/escalation/reply/rows.ts";
import type { EscalationRow } from "../../../src/store/tables/escalations.ts";
import { escalationRow } from "../../support/rows.ts";

const customer = { id: "k", channel: "c", person: "p", session: null } as Customer;
const facts: ActionFacts = {
  customer,
  kind: "email",
  isNoted: false,
  said: null,
  isReturned: false,
  hasSuccessor: false,
};
const dora = { name: "Dora", target: "to-dora" };

const decided = (
  action: ActionRequest["action"],
  over: Partial<EscalationRow> = {},
  { text = "", ...found }: Partial<ActionFacts> & { readonly text?: string } = {},
) => {
  const row = escalationRow({ conversation: "k", ...over });
  return decideAction(row, { action, by: dora, text, again: false }, { ...facts, ...found });
};
const acknowledged = { state: "acknowledged", acknowledged_by: "Dora", acknowledged_target: "to-dora" } as const;
const closed = { state: "closed", closed_by: "Dora" } as const;

describe("an action", () => {
  it.each([
    ["acknowledges", decided("ack"), { acknowledge: true }],
    [
      "acknowledges instead of another responder",
      decided("ack", { ...acknowledged, acknowledged_by: "Emil" }),
      { acknowledge: true },
    ],
    ["closes", decided("close"), { end: "close" }],
    ["returns the conversation to the agent", decided("resume"), { end: "resume" }],
    ["returns a conversation that a close has left silent", decided("resume", closed), { end: "resume" }],
    ["keeps a note", decided("note", {}, { text: "seen" }), { note: "Dora: seen" }],
    ["sends a reply and acknowledges", decided("reply", {}, { text: "Hello" }), { relay: true, acknowledge: true }],
    ["sends a reply of the responder who has it", decided("reply", acknowledged, { text: "Hello" }), { relay: true }],
  ])("%s", (_what, { outcome, ...plan }, expected) => {
    expect(outcome.done).toBe(true);
    expect(plan).toEqual({ note: null, relay: false, acknowledge: false, end: null, ...expected });
  });

  it("writes the author before a note", () => expect(noteOf(dora, "seen: twice")).toBe("Dora: seen: twice"));

  const said = { ago: 2000, state: "sent" };
  it.each([
    ["repeats an acknowledgement", decided("ack", acknowledged), true, "acknowledged by Dora before"],
    ["repeats a note", decided("note", {}, { text: "seen", isNoted: true }), true, "this note was kept before"],
    [
      "repeats a reply",
      decided("reply", {}, { text: "a", said }),
      false,
      "not sent again: the same text was given 2 s ago, and was sent",
    ],
    ["repeats a close", decided("close", closed), true, "it was closed by Dora"],
    ["repeats a return", decided("resume", closed, { isReturned: true }), true, "it was returned to the agent"],
    ["has no text", decided("reply", {}, { text: " " }), false, "the text is missing"],
    [
      "comes after another actor's close",
      decided("close", { ...closed, closed_by: "Emil" }),
      false,
      "it was closed by Emil",
    ],
    [
      "returns what another escalation is about",
      decided("resume", closed, { hasSuccessor: true }),
      false,
      "it was closed by Dora",
    ],
    [
      "has no customer",
      decided("reply", {}, { text: "a", customer: null }),
      false,
      "not sent: it is about a channel, so there is no customer to answer",
    ],
    [
      "has a channel that cannot send",
      decided("reply", {}, { text: "a", kind: null }),
      false,
      "not sent: channel c cannot send now",
    ],
  ])("that %s changes nothing", (_what, { outcome, ...plan }, isDone, says) => {
    expect(outcome).toMatchObject({ done: isDone, says });
    expect(plan).toEqual({ note: null, relay: false, acknowledge: false, end: null });
  });

  it("sends no command to the customer", () => {
    const { outcome, relay } = decided("reply", {}, { text: "Hello\n#close" });
    expect([outcome.done, relay]).toEqual([false, false]);
    expect(outcome.says).toContain("looks like a command");
  });

  it("sends nothing of our own notification to the customer", () => {
    const text = "Hello\n> Still open: Escalation 417: refund";
    const { outcome, relay } = decided("reply", {}, { text });
    expect([outcome.done, relay]).toEqual([false, false]);
    expect(outcome.says).toContain("our own notification");
  });
});
