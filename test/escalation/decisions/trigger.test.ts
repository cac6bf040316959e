// The subject of a trigger and what it causes, on rows without a database.

import { expect, it } from "vitest";
import { aboutHealth, recoveredKey } from "../../../src/escalation/health/decide.ts";
import {
  aboutAgent,
  aboutConversation,
  aboutOf,
  effectOf,
  isOpenAfter,
  type Subject,
} from "../../../src/escalation/trigger/decide.ts";
import type { ChannelHealth, EscalationTrigger } from "../../../src/pipeline/escalation.ts";
import { escalationRow, triggerOf } from "../../support/rows.ts";

it("the subject is the conversation, or the channel and the cause, unless it is given", () => {
  const cause = "channel-down";
  expect(aboutConversation("k")).toBe("conversation:k");
  expect(aboutAgent("support", "p")).toBe("agent:support:p");
  expect(aboutOf({ conversation: "k", channel: "c", cause })).toBe("conversation:k");
  expect(aboutOf({ conversation: null, channel: "c", cause })).toBe("channel:c:channel-down");
  expect(aboutOf({ conversation: null, channel: "c", cause: "cap" })).toBe("channel:c:cap");
  expect(aboutOf({ conversation: "k", channel: "c", cause, about: "store" })).toBe("store");
});

it("the subject of an outage is the channel, unless it is given", () => {
  const health: ChannelHealth = { channel: "c", agent: "a", state: "degraded", reason: "no route", forMs: 0 };
  expect(aboutHealth(health)).toBe("channel:c:channel-down");
  expect(aboutHealth({ ...health, about: "store" })).toBe("store");
  expect(recoveredKey("e")).toBe("recovered:e");
});

const closed = escalationRow({ state: "closed", from_seq: 3 });

it.each<[string, boolean, Partial<EscalationTrigger>, Partial<Subject>]>([
  ["of a new escalation", true, {}, {}],
  ["of an open one", true, {}, { row: escalationRow() }],
  ["of an acknowledged one", true, {}, { row: escalationRow({ state: "acknowledged" }) }],
  ["that was recorded before", false, {}, { row: escalationRow(), triggered: true }],
  ["that is late for a closed one", false, {}, { row: closed, asked: 2 }],
  ["after a close, when the customer has written since", true, {}, { row: closed, asked: 3 }],
  ["after a close, of the daemon itself", true, { source: "ours" }, { row: closed, asked: 2 }],
  ["after a close, about a channel", true, { conversation: null }, { row: closed, asked: 2 }],
  ["after a close, of another cause", true, { cause: "held" }, { row: closed, asked: 2 }],
])("a trigger %s leaves an open escalation: %s", (_what, is, over, subject) => {
  expect(isOpenAfter(triggerOf(over), { row: null, triggered: false, asked: null, ...subject })).toBe(is);
});

it.each([
  ["topic", "webhook", ["topic"], "open"],
  ["topic", "ours", ["topic"], "open"],
  ["silent", "ours", ["topic"], null],
  ["topic", "response", [], null],
  ["topic", "webhook", null, "log"],
  ["topic", "response", null, "log"],
  ["silent", "ours", null, null],
] as const)("a trigger %s from %s under a policy with %j causes: %s", (cause, source, causes, effect) => {
  expect(effectOf({ cause, source }, causes && { causes })).toBe(effect);
});
