// Decisions of stage move on rows, without a database: where the targets on removed channels move, and what becomes of
// their notifications.

import { describe, expect, it } from "vitest";
import type { Policy } from "../../../src/domain/policy.ts";
import { type KnownTarget, planMove, type UnsentNotification } from "../../../src/escalation/move/decide.ts";
import type { EscalationRow } from "../../../src/store/tables/escalations.ts";
import {
  activeSettings,
  escalationRow,
  notification,
  policyFor,
  responder,
  runtimeOf,
  runtimesOf,
  targetRow,
} from "../../support/rows.ts";

const lines = runtimesOf("sms", "mail");
const ann = responder("ann", { name: "Ann", sms: "+1" });
const withMail = { ...ann, email: "ann@people.example" };
const policy = policyFor(ann);
const emptyPolicy = policyFor();

const known = (over: Partial<KnownTarget> = {}): KnownTarget => ({ ...targetRow(), notified: true, ...over });
/** Ann, who acknowledged from the removed channel `old`. */
const gone = known({ channel: "old", conversation: "k1" });
const mail = known({ id: "m", way: "email", address: "ann@people.example", channel: "mail" });
const unsent = (id: string, over: Partial<UnsentNotification> = {}): UnsentNotification => ({
  ...notification(id),
  due: false,
  ...over,
});
const customer = (over: Partial<UnsentNotification> = {}) =>
  unsent("1", { kind: "customer", subject: "m1", text: "Hello", ...over });

function planned(
  by: Policy,
  targets: readonly KnownTarget[],
  undelivered: readonly UnsentNotification[] = [],
  row: Partial<EscalationRow> = {},
  running = lines,
) {
  let ids = 0;
  const acknowledged = escalationRow({ state: "acknowledged", acknowledged_target: "t", ...row });
  return planMove(by, acknowledged, targets, undelivered, running, () => `n${++ids}`);
}

const nothing = {
  moved: [],
  added: [],
  owner: null,
  moves: [],
  notifications: [],
  ended: [],
  repeated: [],
  left: [],
  lost: false,
  failed: [],
  unreachable: false,
};

describe("a target", () => {
  it("on a channel that runs stays", () => {
    const { row, ...plan } = planned(policy, [known()], [customer()]);
    expect([row.id, plan]).toEqual(["e", nothing]);
  });

  it.each([
    [
      "moves to the channel that carries its address now",
      policy,
      [gone],
      { moved: [{ id: "t", channel: "sms" }], owner: null, moves: [{ from: "old", to: "sms" }] },
    ],
    [
      "is replaced by another one of the same responder",
      policyFor({ ...withMail, sms: null }),
      [gone, mail],
      { owner: "m", added: [], moves: [{ from: "old", to: "mail" }] },
    ],
    [
      "is replaced by another address of the responder",
      policyFor({ ...withMail, sms: null }),
      [gone],
      {
        owner: "n1",
        added: [
          targetRow({ id: "n1", way: "email", address: "ann@people.example", channel: "mail", conversation: null }),
        ],
        moves: [{ from: "old", to: "mail" }],
      },
    ],
    ["keeps its address although there is another", policyFor(withMail), [gone, mail], { owner: null, added: [] }],
    ["of a responder who is not in the policy is lost", emptyPolicy, [gone], { unreachable: true }],
    ["without a channel for its address is lost", policyFor({ ...ann, sms: null }), [gone], { unreachable: true }],
    [
      "is not replaced by one on a removed channel",
      emptyPolicy,
      [gone, { ...mail, channel: "older" }],
      { owner: null, unreachable: true },
    ],
    [
      "is replaced by one of its responder although the policy has no such responder",
      emptyPolicy,
      [gone, mail],
      { owner: "m", unreachable: false },
    ],
  ] as const)("%s", (_, by, targets, expected) => {
    expect(planned(by, targets)).toMatchObject(expected);
  });

  it("is replaced by one that has a conversation rather than another", () => {
    const other = { ...mail, id: "m2", address: "ann2@people.example", conversation: "k2" };
    expect(planned(emptyPolicy, [gone, mail, other]).owner).toBe("m2");
  });

  it("that is shared with another responder serves both", () => {
    const bob = responder("bob", { email: "ann@people.example" });
    const shared = { ...mail, person: "bob" };
    expect(planned(policyFor({ ...withMail, sms: null }, bob), [gone, shared])).toMatchObject({
      owner: "m",
      added: [],
    });
  });

  it("of a responder who did not acknowledge is not replaced by another address", () => {
    const bob = known({ id: "b", person: "bob", address: "+2", channel: "old" });
    const people = policyFor(ann, responder("bob", { email: "bob@people.example" }));
    const plan = planned(people, [known(), bob]);
    expect([plan.added, plan.moves, plan.unreachable]).toEqual([[], [], false]);
    const text = customer({ target: "b" });
    expect(planned(people, [known(), bob], [text]).added).toMatchObject([{ person: "bob", channel: "mail" }]);
    const notWritten = planned(people, [known(), bob], [{ ...text, due: true }]);
    expect([notWritten.added.length, notWritten.moves]).toEqual([1, [{ from: "old", to: "mail" }]]);
  });

  it("of the agent's skill moves while the policy notifies the agent's recipients", () => {
    const recipients = [{ channel: "email" as const, value: "desk@people.example" }];
    const settings = { ...activeSettings(), escalations: [{ topic: null, recipients }] } as never;
    const running = new Map(lines).set("c", runtimeOf("c", { settings: () => settings }));
    const target = known({
      person: "agent:desk@people.example",
      way: "email",
      address: "desk@people.example",
      channel: "old",
    });
    const asked = { ...policy, agentRecipients: true };
    expect(planned(asked, [target], [], {}, running).moved).toEqual([{ id: "t", channel: "mail" }]);
    expect(planned(policy, [target], [], {}, running)).toMatchObject({ moved: [], unreachable: true });
  });
});

describe("an escalation that was acknowledged by a command", () => {
  const command = { acknowledged_target: null };
  const bob = known({ id: "b", person: "bob", address: "+2", channel: "old" });
  it.each([
    ["is unreachable when no notified responder is reachable", [gone, bob], true],
    ["stays with a responder who is reachable", [known(), bob], false],
    ["is not unreachable when no responder was notified", [{ ...gone, notified: false }], false],
  ] as const)("%s", (_, targets, expected) => {
    expect(planned(emptyPolicy, targets, [], command).unreachable).toBe(expected);
  });
});

describe("an unsent notification", () => {
  const replaced = policyFor({ ...withMail, sms: null });
  const list = (plan: ReturnType<typeof planned>) => ({
    to: plan.notifications.map(({ target, kind, text }) => [target, kind, text]),
    ended: plan.ended,
    repeated: plan.repeated,
    left: plan.left,
    lost: plan.lost,
    failed: plan.failed.map(({ id }) => id),
  });
  const none = { to: [], ended: [], repeated: [], left: [], lost: false, failed: [] };
  const asks = unsent("1");
  const answer = unsent("1", { kind: "message", text: "Done" });
  const [dueAsk, dueText, dueAnswer] = [asks, customer(), answer].map((one) => ({ ...one, due: true }));
  it.each([
    // One that is not written yet is written to the moved target as it is.
    ["due, to the same address", policy, dueText, none],
    ["due, to another address", replaced, dueText, { ...none, to: [["m", "customer", "Hello"]], ended: ["1"] }],
    ["due, to no address", emptyPolicy, dueText, { ...none, ended: ["1"], lost: true, failed: ["1"] }],
    ["due, an answer to no address", emptyPolicy, dueAnswer, { ...none, ended: ["1"], lost: true }],
    ["due, without a text, to another address", replaced, dueAsk, { ...none, ended: ["1"] }],
    ["due, without a text, to no address", emptyPolicy, dueAsk, { ...none, ended: ["1"], lost: true }],
    [
      "written, to the same address",
      policy,
      customer(),
      { ...none, to: [["t", "customer", "Hello"]], repeated: ["1"] },
    ],
    [
      "written, to another address",
      replaced,
      customer(),
      { ...none, to: [["m", "customer", "Hello"]], repeated: ["1"] },
    ],
    ["written, to no address", emptyPolicy, customer(), { ...none, left: ["1"], lost: true, failed: ["1"] }],
    ["written, an answer to no address", emptyPolicy, answer, { ...none, left: ["1"], lost: true }],
    ["written, without a text, to no address", emptyPolicy, asks, none],
    ["written, without a text, to another address", replaced, asks, none],
  ] as const)("%s", (_, by, one, expected) => {
    if (one === undefined) throw new Error("the table has a notification");
    const targets = by === replaced ? [gone, mail] : [gone];
    expect(list(planned(by, targets, [one]))).toEqual(expected);
  });

  it("keeps kind and subject, by which it is stored once", () => {
    expect(planned(policy, [gone], [customer()]).notifications).toEqual([
      { id: "n1", target: "t", kind: "customer", subject: "m1", text: "Hello", inMs: 0 },
    ]);
  });

  it("moves with a target that did not acknowledge, which is then among the moves", () => {
    const other = known({ id: "b", channel: "old" });
    const owner = known({ way: "email", address: "ann@people.example", channel: "mail" });
    const plan = planned(policyFor({ ...withMail, sms: null }), [owner, other], [customer({ target: "b" })]);
    expect([plan.notifications.map(({ target }) => target), plan.moves, plan.owner]).toEqual([
      ["t"],
      [{ from: "old", to: "mail" }],
      null,
    ]);
  });
});
