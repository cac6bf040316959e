// The alarm, derived from rows without a database.

import { describe, expect, it } from "vitest";
import type { Policy } from "../../../src/domain/policy.ts";
import { type Alarm, alarmOf, alarmText, isSilenced } from "../../../src/escalation/alarm/decide.ts";
import type { AlarmRows, NotificationsOn } from "../../../src/escalation/alarm/rows.ts";
import { policyFor, policyOf, responder } from "../../support/rows.ts";

const on = (escalation: string, over: Partial<NotificationsOn> = {}): NotificationsOn => ({
  escalation,
  state: "open",
  notified: 1,
  channel: "mail",
  delivered: 0,
  failed: 0,
  stuck: 0,
  ...over,
});
const rows = (notifications: readonly NotificationsOn[], over: Partial<AlarmRows> = {}): AlarmRows => ({
  notifications,
  oldest: null,
  numbers: [],
  ...over,
});
const ann = responder("ann", { email: "ann@people.example", sms: "+1" });
const bob = responder("bob", { email: "bob@people.example" });
const hook = responder("hook", { webhook: { url: "https://a.example", headers: {}, secret: null } });
const policy = policyFor(ann, bob);

const alarm = (
  notifications: readonly NotificationsOn[],
  { by = policy, down = [] }: { by?: Policy | null; down?: readonly string[] } = {},
) => alarmOf(rows(notifications), by, (channel) => down.includes(channel));

describe("escalations", () => {
  const acknowledged = { state: "acknowledged" } as const;
  it.each([
    ["without rows", [], [0, 0]],
    ["open ones, by escalation", [on("1"), on("1", { channel: "sms" }), on("2")], [2, 0]],
    ["acknowledged ones, by escalation", [on("1", acknowledged), on("1", { ...acknowledged, channel: "sms" })], [0, 1]],
    ["both", [on("1"), on("2", acknowledged)], [1, 1]],
  ] as const)("are counted: %s", (_, found, expected) => {
    const { unacknowledged, acknowledged: owned } = alarm(found);
    expect([unacknowledged, owned]).toEqual(expected);
  });

  it.each([
    [null, 0],
    [89_400, 89],
    [89_500, 90],
    // The clock stepped backward.
    [-5000, 0],
  ])("the oldest of %s ms is %s s old", (oldest, expected) => {
    const found = alarmOf(rows([on("1")], { oldest, numbers: [4] }), policy, () => false);
    expect([found.oldest_seconds, found.numbers]).toEqual([expected, [4]]);
  });

  it.each([
    ["nothing was attempted", [on("1")], 0],
    ["a notification has failed", [on("1", { failed: 1 })], 1],
    [
      "one has failed and another was delivered",
      [on("1", { failed: 1 }), on("1", { channel: "sms", delivered: 1 })],
      0,
    ],
    ["the policy has notified no responder", [on("1", { channel: null })], 1],
    ["the policy has not run", [on("1", { channel: null, notified: 0 })], 0],
    ["it is acknowledged", [on("1", { failed: 1, state: "acknowledged" })], 0],
    ["another one was delivered", [on("1", { failed: 1 }), on("2", { delivered: 1 })], 1],
  ] as const)("are unreached or not when %s", (_, found, expected) => {
    expect(alarm(found).unreached).toBe(expected);
  });

  it("add their notifications that are stuck, also acknowledged ones", () => {
    expect(alarm([on("1", { stuck: 2 }), on("2", { stuck: 1, state: "acknowledged" })]).notifications_stuck).toBe(3);
  });
});

describe("the channels of notifications", () => {
  it.each([
    ["of no policy", null, []],
    ["of a policy without responders", policyFor(), []],
    ["for mail", policyFor(bob), ["mail"]],
    ["for both", policyFor(bob, ann), ["mail", "sms"]],
    ["for webhooks", policyFor(hook), ["escalations"]],
    ["only those that the policy names", policyOf({ responders: new Map([["ann", ann]]) }), ["c"]],
  ])("%s", (_, by, expected) => {
    expect(alarm([], { by }).paths).toEqual(expected);
  });

  const failed = on("1", { failed: 1 });
  it.each([
    ["works without a failure", [on("1")], [], []],
    ["is dead when it is down", [], ["mail"], ["mail"]],
    ["is dead when it refuses everything", [failed], [], ["mail"]],
    ["works while it delivers another", [failed, on("2", { delivered: 1 })], [], []],
    ["works when the failure is of an acknowledged escalation", [{ ...failed, state: "acknowledged" }], [], []],
    ["is not in the list when it notifies no responder", [], ["old"], []],
  ] as const)("%s", (_, found, down, expected) => {
    expect(alarm(found, { down }).dead).toEqual(expected);
  });

  it.each([
    ["all work", [], policy, 0],
    ["the only one of Bob is down", ["mail"], policy, 1],
    ["both are down", ["mail", "sms"], policy, 2],
    ["a responder has none", ["mail", "sms"], policyFor(responder("eve")), 0],
    ["there is no policy", ["mail"], null, 0],
  ] as const)("responders without one are counted: %s", (_, down, by, expected) => {
    expect(alarm([], { down, by }).cut_off).toBe(expected);
  });
});

it.each([
  ["all channels are dead", ["mail", "sms"], policy, true],
  ["one works", ["mail"], policy, false],
  ["the policy needs none", ["mail"], policyFor(), false],
] as const)("no responder can be notified when %s", (_, down, by, expected) => {
  expect(isSilenced(alarm([], { down, by }))).toBe(expected);
});

it("an alarm that was not read silences nothing", () => {
  expect(isSilenced(null)).toBe(false);
});

describe("the status text", () => {
  const calm: Alarm = { ...alarm([]), paths: ["mail"] };
  it.each([
    ["is empty before the first read", null, ""],
    ["is empty when nothing is open", calm, ""],
    ["is empty for acknowledged ones", { ...calm, acknowledged: 2 }, ""],
    [
      "counts one in the singular, its age in whole minutes",
      { ...calm, unacknowledged: 1, oldest_seconds: 119 },
      "1 ESCALATION NOT ACKNOWLEDGED, the oldest for 1 min; ",
    ],
    [
      "begins with the worst",
      { ...calm, dead: ["mail"], unreached: 1, unacknowledged: 2, oldest_seconds: 120 },
      "NO RESPONDER CAN BE NOTIFIED OF ESCALATIONS; NO RESPONDER WAS REACHED ABOUT 1 ESCALATION; 2 ESCALATIONS NOT ACKNOWLEDGED, the oldest for 2 min; ",
    ],
  ])("%s", (_, found, expected) => {
    expect(alarmText(found)).toBe(expected);
  });
});
