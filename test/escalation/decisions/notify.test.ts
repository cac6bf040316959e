// Decisions of stage notify on rows, without a database: the recipients of a step, its writes, and the groups of due
// notifications.

import { describe, expect, it } from "vitest";
import type { Tier } from "../../../src/domain/policy.ts";
import {
  addressKey,
  groupDue,
  groupedAddresses,
  notifyRecipients,
  planStep,
  recipient,
  type StepPlan,
  splitGone,
  type TargetState,
} from "../../../src/escalation/notify/decide.ts";
import type { DueEscalation } from "../../../src/store/tables/escalations.ts";
import type { DueNotification } from "../../../src/store/tables/responders.ts";
import {
  activeSettings,
  escalationRow,
  notification,
  policyOf,
  responder,
  runtimeOf,
  runtimesOf,
  targetRow,
} from "../../support/rows.ts";

const lines = runtimesOf("c", "sms", "mail", "escalations");
const without = (...gone: string[]) => new Map([...lines].filter(([channel]) => !gone.includes(channel)));

const ann = responder("ann", { name: "Ann", sms: "+1" });
const bob = responder("bob", { name: "Bob", email: "Bob@people.example" });
const tier = (over: Partial<Tier> = {}): Tier => ({ notify: ["ann"], by: null, repeat: 0, next: 600, ...over });
const policy = policyOf({
  responders: new Map([
    ["ann", ann],
    ["bob", bob],
  ]),
  tiers: [tier()],
  fallback: { notify: ["bob"], by: null, repeat: 300 },
  via: { email: "mail", sms: "sms" },
});

const due = (over: Partial<DueEscalation> = {}): DueEscalation => ({ ...escalationRow(), now: 1000, ...over });
const state = (over: Partial<TargetState> = {}): TargetState => ({
  target: targetRow(),
  notified: true,
  due: false,
  waiting: false,
  reached: true,
  ...over,
});
const entered = { entered_at: 900 };
const notified = { entered_at: 900, notified_at: 950 };

describe("the recipient of a target of the policy", () => {
  const to = (way: "sms" | "email" | "webhook", address: string) => ({ person: "ann", name: "Ann", way, address });
  const invalid = new Map([["sms", runtimeOf("sms", { address: () => null })]]);
  it.each([
    ["is on the channel for SMS", to("sms", "+1"), policy, lines, ["sms", "+1"]],
    ["is in lower case", to("email", "Bob@people.example"), policy, lines, ["mail", "bob@people.example"]],
    [
      "is on the channel of webhooks, unchanged",
      to("webhook", "https://A.example/X"),
      policy,
      lines,
      ["escalations", "https://A.example/X"],
    ],
    ["has no channel when the policy names none", to("sms", "+1"), policyOf(), lines, [null, null]],
    ["has no address when the channel does not run", to("sms", "+1"), policy, without("sms"), ["sms", null]],
    [
      "has no address when the channel cannot send",
      to("sms", "+1"),
      policy,
      new Map([["sms", runtimeOf("sms", { outbound: null })]]),
      ["sms", null],
    ],
    ["has no address when it is invalid on the channel", to("sms", "x"), policy, invalid, ["sms", null]],
  ] as const)("%s", (_, one, by, running, expected) => {
    const { channel, address } = recipient(by, one, running);
    expect([channel, address]).toEqual(expected);
  });
});

describe("a step of the policy", () => {
  const plan = (row: Partial<DueEscalation>, states: readonly TargetState[] = [], running = lines, by = policy) => {
    const { recipients, next } = planStep(by, due(row), states, running);
    const { tier, notifiedAt } = next.progress;
    return [recipients.map(({ to, channel }) => `${to.person} ${channel}`), tier, next.dueAt, notifiedAt];
  };
  const gone = state({ target: targetRow({ channel: "old" }), reached: false });
  it.each([
    ["notifies the first tier", entered, [], [["ann sms"], 0, 1500, 1000]],
    [
      "notifies the fallback and the tier after the timeout of the tier",
      { entered_at: 400, notified_at: 400 },
      [state()],
      [["bob mail", "ann sms"], 1, 1300, 1000],
    ],
    ["notifies no responder twice", notified, [state()], [[], 0, 1500, 950]],
    ["notifies a responder that the policy has now", notified, [], [["ann sms"], 0, 1500, 950]],
    [
      "notifies a responder whose number is new",
      notified,
      [state({ target: targetRow({ address: "+2" }) })],
      [["ann sms"], 0, 1500, 950],
    ],
    [
      "notifies a responder by the way of the policy now",
      notified,
      [state({ target: targetRow({ way: "email" }) })],
      [["ann sms"], 0, 1500, 950],
    ],
    [
      "notifies again when the channel was removed before the notification was sent",
      notified,
      [gone],
      [["ann sms"], 0, 1500, 950],
    ],
    ["does not when the notification was sent", notified, [{ ...gone, reached: true }], [[], 0, 1500, 950]],
  ] as const)("%s", (_, row, states, expected) => {
    expect(plan(row, states)).toEqual(expected);
  });

  it("skips a tier without a responder on duty, and begins with the fallback", () => {
    const away = { ...policy, responders: new Map([["bob", bob]]) };
    expect(plan(entered, [], lines, away)).toEqual([["bob mail"], 1, 1300, 1000]);
  });

  it("adds the agent's recipients to the first notification only", () => {
    const recipients = [{ channel: "sms" as const, value: "+9" }];
    const settings = { ...activeSettings(), escalations: [{ topic: null, recipients }] } as never;
    const running = new Map(lines).set("c", runtimeOf("c", { settings: () => settings }));
    const by = { ...policy, agentRecipients: true };
    expect(plan(entered, [], running, by)[0]).toEqual(["ann sms", "agent:+9 sms"]);
    expect(plan(notified, [state()], running, by)[0]).toEqual([]);
    expect(plan({ entered_at: 400, notified_at: 400 }, [state()], running, by)[0]).toEqual(["bob mail", "ann sms"]);
    // The last step failed, and is repeated.
    const again = { tier: 1, entered_at: 900, notified_at: null };
    expect(plan(again, [state()], running, by)[0]).toEqual(["bob mail", "ann sms"]);
    expect(plan(entered, [], running, policy)[0]).toEqual(["ann sms"]);
  });
});

const planned = (over: Partial<StepPlan> = {}, row: Partial<DueEscalation> = entered): StepPlan => ({
  ...planStep(policy, due(row), [], lines),
  ...over,
});

describe("the writes of a step", () => {
  const written = (plan: StepPlan, running = lines, group = 0, ago = new Map<string, number>()) => {
    let ids = 0;
    return notifyRecipients({ group }, plan, ago, running, () => `n${++ids}`, 77);
  };
  const withState = (over: Partial<TargetState>) => planned({ states: [state(over)] });

  it("are a new target and its first notification", () => {
    const target = targetRow({ id: "n1" });
    expect(written(planned())).toEqual({
      targets: [target],
      moved: [],
      retried: [],
      notifications: [{ id: "n2", target: "n1", kind: "opened", subject: "", text: null, inMs: 0 }],
      step: { id: "e", tier: 0, entered_at: 900, notified_at: 1000, due_at: 1500 },
      unreachable: [],
    });
  });

  const old = targetRow({ channel: "old", conversation: "k1" });
  const moved = { ...old, channel: "sms", conversation: null };
  it.each([
    ["a reminder when the last notification was sent", {}, [], [], ["reminder"]],
    ["none while the last one is due", { due: true }, [], [], []],
    [
      "none while the last one waits, which is tried at once",
      { waiting: true, target: targetRow({ conversation: "k1" }) },
      [],
      ["k1"],
      [],
    ],
    ["a first one when the target has none", { notified: false }, [], [], ["opened"]],
    ["a reminder over the new channel", { target: old }, [moved], [], ["reminder"]],
    [
      "a reminder when the last one waits on a removed channel",
      { target: old, waiting: true },
      [moved],
      [],
      ["reminder"],
    ],
    ["a move alone when the last one is due", { target: old, due: true }, [moved], [], []],
  ] as const)("%s", (_, known, moves, retried, kinds) => {
    const found = written(withState(known));
    expect([found.targets, found.moved, found.retried, found.notifications.map(({ kind }) => kind)]).toEqual([
      [],
      moves,
      retried,
      kinds,
    ]);
  });

  it("names a reminder by its time, so that a repetition of the step adds none", () => {
    expect(written(withState({})).notifications).toMatchObject([{ kind: "reminder", subject: "1000" }]);
  });

  it("keep a target on a channel that runs, although the policy names another", () => {
    const other = targetRow({ channel: "c" });
    expect(written(withState({ target: other }))).toMatchObject({ moved: [], notifications: [{ target: "t" }] });
  });

  it("notify an address once when two responders share it", () => {
    const [one] = planned().recipients;
    if (!one) throw new Error("the step has a recipient");
    const shared = { ...one, to: { ...one.to, person: "bob" } };
    const { targets, notifications } = written(planned({ recipients: [one, shared] }));
    expect([targets.map(({ person }) => person), notifications.length]).toEqual([["ann"], 1]);
  });

  it.each([
    ["is immediate without an earlier one", undefined, 0],
    ["waits for the end of the window", 20, 40],
    ["is immediate after the window", 61, 0],
    ["is immediate when the last one is dated in the future", -5, 0],
  ])("the notification %s", (_, ago, expected) => {
    const known = new Map(ago === undefined ? [] : [["sms +1", ago]]);
    expect(written(planned(), lines, 60, known).notifications).toMatchObject([{ inMs: expected }]);
  });

  it("are never delayed for a webhook", () => {
    const to = { person: "ann", name: "Ann", way: "webhook", address: "https://a.example" } as const;
    const plan = planned({ recipients: [{ to, channel: "escalations", address: to.address }] });
    const known = new Map([["escalations https://a.example", 1]]);
    expect(written(plan, lines, 60, known).notifications).toMatchObject([{ inMs: 0 }]);
  });

  it("wait for the window of the address of a known target, on its own channel", () => {
    const plan = withState({ target: targetRow({ channel: "c" }) });
    const known = (channel: string) => new Map([[`${channel} +1`, 20]]);
    expect(written(plan, lines, 60, known("c")).notifications).toMatchObject([{ inMs: 40 }]);
    expect(written(plan, lines, 60, known("sms")).notifications).toMatchObject([{ inMs: 0 }]);
  });

  describe("when no responder is reachable", () => {
    const unreachable = (plan: StepPlan) => ({
      ...plan,
      recipients: plan.recipients.map((one) => ({ ...one, address: null })),
    });
    it("begin the next tier at once", () => {
      expect(written(unreachable(planned()))).toMatchObject({
        notifications: [],
        unreachable: ["sms"],
        step: { tier: 0, entered_at: 0, notified_at: 1000, due_at: 1000 },
      });
    });
    it("repeat the last step after a delay", () => {
      const once = { ...policy, fallback: { ...policy.fallback, repeat: 0 } };
      const last = planStep(once, due({ tier: 1 }), [], lines);
      expect(written(unreachable(last)).step).toEqual({
        id: "e",
        tier: 1,
        entered_at: 0,
        notified_at: null,
        due_at: 1077,
      });
    });
    it("keep the policy's time while one is reachable", () => {
      const [one] = planned().recipients;
      if (!one) throw new Error("the step has a recipient");
      const found = written(planned({ recipients: [one, { ...one, address: null }] }));
      expect([found.unreachable, found.step.due_at]).toEqual([["sms"], 1500]);
    });
  });
});

describe("the addresses whose latest notifications may delay a step", () => {
  const hook = { url: "https://a.example", headers: {}, secret: null };
  const by = (over: Partial<typeof policy>) => ({ ...policy, ...over });
  const settings = {
    ...activeSettings(),
    escalations: [{ topic: null, recipients: [{ channel: "sms", value: "+9" }] }],
  };
  const running = new Map(lines).set("c", runtimeOf("c", { settings: () => settings as never }));
  it.each([
    ["are those of the step", policy, entered, ["sms +1"]],
    [
      "are those of the next tier after the timeout",
      policy,
      { entered_at: 400, notified_at: 400 },
      ["mail bob@people.example", "sms +1"],
    ],
    ["are those of the current step when none is due", policy, notified, ["sms +1"]],
    ["are those of the agent for the first notification", by({ agentRecipients: true }), entered, ["sms +1", "sms +9"]],
    ["are not those of the agent later", by({ agentRecipients: true }), notified, ["sms +1"]],
    ["are not on a channel that does not run", by({ via: { email: "mail", sms: "gone" } }), entered, []],
    ["are no webhooks", by({ responders: new Map([["ann", responder("ann", { webhook: hook })]]) }), entered, []],
  ] as const)("%s", (_, one, row, expected) => {
    expect(groupedAddresses(one, [due(row)], running).map(addressKey)).toEqual(expected);
  });

  it("are those of all steps", () => {
    const rows = [due(entered), due({ entered_at: 400, notified_at: 400 })];
    const found = groupedAddresses(policy, rows, lines).map(addressKey);
    expect(found).toEqual(["sms +1", "mail bob@people.example", "sms +1"]);
  });
});

const rows = new Map([
  ["e", escalationRow()],
  ["e2", escalationRow({ id: "e2", number: 3 })],
]);
const targets = new Map([
  ["t", targetRow()],
  ["t2", targetRow({ id: "t2", escalation: "e2" })],
  ["old", targetRow({ id: "old", channel: "old" })],
  ["hook", targetRow({ id: "hook", way: "webhook", channel: "escalations" })],
  ["hook2", targetRow({ id: "hook2", way: "webhook", channel: "escalations", escalation: "e2" })],
]);
const second = { target: "t2", escalation: "e2" };

it("notifications on a removed channel are split from the others, by escalation", () => {
  const [one, two, three] = [
    notification("1"),
    notification("2", { target: "old" }),
    notification("3", { target: "old", escalation: "unlocked" }),
  ];
  const found = splitGone([one, two, three], targets, rows, lines);
  expect(found.carried).toEqual([one, three]);
  expect([...found.gone]).toEqual([["e", [two]]]);
  expect(splitGone([one], targets, rows, lines).gone.size).toBe(0);
});

describe("due notifications", () => {
  const grouped = (all: readonly DueNotification[], state: "open" | "acknowledged" = "open") => {
    const known = new Map([...rows].map(([id, row]) => [id, { ...row, state }]));
    const { groups, cancelled } = groupDue(all, targets, known);
    return [groups.map((group) => group.map((one) => one.notification.id)), cancelled];
  };
  const both = (over: Partial<DueNotification>) => [notification("1", over), notification("2", { ...second, ...over })];
  it.each([
    ["of one address are one message, in the order of the escalations", both({}), [[["2", "1"]], []]],
    [
      "of an opened escalation and a reminder are one message",
      [notification("1"), notification("2", { ...second, kind: "reminder" })],
      [[["2", "1"]], []],
    ],
    [
      "about one responder's acknowledgements are one message",
      both({ kind: "acknowledged", subject: "Bob" }),
      [[["2", "1"]], []],
    ],
    [
      "about acknowledgements of two responders are two",
      [
        notification("1", { kind: "acknowledged", subject: "Bob" }),
        notification("2", { ...second, kind: "acknowledged", subject: "Eve" }),
      ],
      [[["1"], ["2"]], []],
    ],
    ["with a customer's message are single", both({ kind: "customer", text: "Hello" }), [[["1"], ["2"]], []]],
    ["with an answer to the responder are single", both({ kind: "message", text: "Done" }), [[["1"], ["2"]], []]],
    [
      "for a webhook are single",
      [notification("1", { target: "hook" }), notification("2", { target: "hook2", escalation: "e2" })],
      [[["1"], ["2"]], []],
    ],
    ["of an escalation that is not locked are left", [notification("1", { escalation: "unlocked" })], [[], []]],
    ["of a target that is not loaded are left", [notification("1", { target: "unknown" })], [[], []]],
  ] as const)("%s", (_, all, expected) => {
    expect(grouped(all)).toEqual(expected);
  });

  it.each([
    ["opened", [[], ["1"]]],
    ["reminder", [[], ["1"]]],
    ["acknowledged", [[["1"]], []]],
    ["customer", [[["1"]], []]],
    ["message", [[["1"]], []]],
  ] as const)("of kind %s, after the acknowledgement", (kind, expected) => {
    expect(grouped([notification("1", { kind })], "acknowledged")).toEqual(expected);
  });
});
