// Decisions of stage reconcile on rows: no database, no clock, no chance.

import { type DeliveryEvent, externalId, type Finding, type Outbound, sendKey } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRules } from "../../../src/pipeline/channel-runtime.ts";
import {
  addressesOf,
  changeAfter,
  chooseDraft,
  isEndedByReply,
  mayBeEarly,
  notificationRules,
  receiptEffect,
  recipientsOf,
} from "../../../src/pipeline/reconcile/decide.ts";
import { lineOf, receipt } from "../../support/rows.ts";

const backoff = { pace: "mail", timing: standardTiming, jitter: (ms: number) => ms } as const;
const rules = (over: Partial<ChannelRules> = {}) => lineOf({ rules: over }).rules;

describe("a finding about an unknown draft", () => {
  const found: Finding = { kind: "sent", id: externalId("x") };
  const days = 24 * 3_600_000;
  it.each<[Finding, number, number | null, Partial<ChannelRules>, object]>([
    [found, 0, 1000, {}, { state: "sent", open: 0, externalId: "x" }],
    [found, 9, -1, { on_unknown: "drop" }, { state: "sent", open: 0, externalId: "x" }],
    [{ kind: "not-sent" }, 0, -1, { on_unknown: "drop" }, { state: "queued", open: 1 }],
    [{ kind: "unsure" }, 0, null, {}, { state: "unknown", open: 1, dueInMs: 500, lookups: 1 }],
    [{ kind: "unsure" }, 3, 60_000, {}, { state: "unknown", open: 1, dueInMs: 15_000, lookups: 4 }],
    [{ kind: "unsure" }, 3, 90_000, { unknown_window: 60_000 }, { state: "unknown", reconcileForMs: 60_000 }],
    [{ kind: "unsure" }, 3, 700, {}, { state: "unknown", open: 1, dueInMs: 700 }],
    [{ kind: "unsure", lookAgainAfterMs: 9 }, 3, 700, {}, { state: "unknown", dueInMs: 500 }],
    [{ kind: "unsure", lookAgainAfterMs: 9 }, 3, 0, { on_unknown: "hold" }, { state: "held", open: 0 }],
    [{ kind: "unsure" }, 3, 0, { on_unknown: "hold", on_permanent_failure: "block" }, { state: "held", open: 1 }],
    [{ kind: "unsure" }, 3, -1, { on_unknown: "resend" }, { state: "queued", open: 1 }],
    [{ kind: "unsure" }, 3, -1, { on_unknown: "drop" }, { state: "dropped", open: 0 }],
  ])("%o after %i lookups with %s ms left under %o", (finding, looks, left, policy, change) => {
    const draft = { lookups: looks, reconcile_left: left, attempts: 1, trying_for: 0, absences: 0 };
    expect(changeAfter(finding, draft, rules(policy), backoff)).toMatchObject(change);
  });

  it.each<[ChannelRules["on_unknown"], object]>([
    ["hold", { state: "held", open: 0 }],
    ["drop", { state: "dropped", open: 0 }],
    ["resend", { state: "queued", open: 1, dueInMs: 30_000 }],
  ])("that is missing at the provider for the second time is treated by policy: %s", (on_unknown, change) => {
    const draft = { lookups: 0, reconcile_left: 1000, attempts: 2, trying_for: 0, absences: 1 };
    expect(changeAfter({ kind: "not-sent" }, draft, rules({ on_unknown }), backoff)).toMatchObject(change);
  });

  it("about a notification is treated by rules that send it again, after the shorter window", () => {
    const own = rules({ on_unknown: "drop", unknown_window: 60_000, on_permanent_failure: "block" });
    const resent = { ...own, on_unknown: "resend", on_permanent_failure: "continue" };
    expect(notificationRules(own, 5000)).toEqual({ ...resent, unknown_window: 5000 });
    expect(notificationRules(own, 90_000)).toEqual({ ...resent, unknown_window: 60_000 });
  });

  it("is retried by policy with a growing backoff, until the lifetime is over", () => {
    const after = (attempts: number, tried: number) =>
      changeAfter(
        { kind: "unsure" },
        { lookups: 3, reconcile_left: 0, attempts, trying_for: tried, absences: 0 },
        rules({ on_unknown: "resend" }),
        backoff,
      );
    expect([1, 2, 3].map((attempts) => after(attempts, 0).dueInMs)).toEqual([undefined, 30_000, 300_000]);
    expect(after(2, standardTiming.send.lifetime)).toMatchObject({ state: "queued" });
    expect(after(2, 4 * days)).toMatchObject({ state: "failed", open: 0 });
  });
});

describe("a delivery receipt", () => {
  const facts = {
    draft: { state: "sent", attempts: 1, recipient: "a@x" },
    recipients: ["a@x", "cc@x"],
    certain: true,
    platform: "email",
  };
  const event = (over: Partial<DeliveryEvent>) => receipt({ about: { recipient: "A@x" }, ...over });
  const bounce = { state: "failed", permanent: true } as const;
  const of = (state: string) => ({ ...facts, draft: { ...facts.draft, state } });
  const strike = { address: "a@x", by: "strike", reason: "hard bounce" };
  it.each<[string, typeof facts, DeliveryEvent, object | string]>([
    ["of a draft that was never tried", { ...facts, draft: { ...facts.draft, attempts: 0 } }, event({}), {}],
    ["advances sent to delivered", facts, event({}), { change: { state: "delivered" } }],
    ["of a later status changes nothing", of("delivered"), event({ state: "accepted" }), {}],
    ["ends an unknown draft", of("unknown"), event({ state: "accepted" }), { change: { state: "sent" }, ends: "sent" }],
    ["may be forged: ends nothing", { ...of("unknown"), certain: false }, event({}), {}],
    ["bounces", facts, event(bounce), { change: { state: "failed" }, suppress: strike, notifies: true }],
    ["bounces twice", of("failed"), event(bounce), {}],
    ["fails for now", facts, event({ state: "failed" }), { change: { state: "failed" }, notifies: true }],
    ["may be forged: suppresses nothing", { ...facts, certain: false }, event(bounce), { change: { state: "failed" } }],
    [
      "bounces for a copy",
      facts,
      event({ ...bounce, about: { recipient: "cc@x" } }),
      { suppress: { address: "cc@x", by: "strike" } },
    ],
    [
      "bounces for the address to which the server of the only recipient forwards",
      { ...facts, recipients: ["a@x"] },
      event({ ...bounce, about: { recipient: "private@y" } }),
      {
        change: { state: "failed", open: 0, code: "not-delivered", reason: null, externalId: null },
        notifies: true,
      },
    ],
    ["bounces for a third address", facts, event({ ...bounce, about: { recipient: "z@x" } }), {}],
    ["names none of its recipients", facts, event({ ...bounce, about: { mentioned: ["y@x", "z@x"] } }), {}],
    [
      "has the id that the response to the attempt would have had",
      of("unknown"),
      event({ state: "accepted", about: { sent: [externalId("p1")] } }),
      { change: { state: "sent", externalId: "p1" }, ends: "sent" },
    ],
    [
      "tells of an opt-out",
      of("failed"),
      event({ ...bounce, code: "opted-out", detail: "error 21610" }),
      { suppress: { address: "a@x", by: "opt-out", reason: "error 21610" } },
    ],
    ["contradicts", { ...of("delivered"), platform: "sms" }, event(bounce), "contradicts"],
  ])("%s", (_, given, reported, effect) => {
    const found = receiptEffect(given, reported);
    if (typeof effect === "string" || Object.keys(effect).length === 0) expect(found).toEqual(effect);
    else expect(found).toMatchObject(effect);
    if (typeof effect === "object") expect("suppress" in Object(found)).toBe("suppress" in effect);
  });

  const ids = { about: { sent: [externalId("p1")] } };
  const change = { open: 0, reason: null, externalId: null };
  const failed = { ...change, state: "failed", code: "not-delivered" };
  it.each<[string, typeof facts, DeliveryEvent, object]>([
    ["delivers what was sent", facts, event(ids), { change: { ...change, state: "delivered" } }],
    [
      "fails what was unknown",
      of("unknown"),
      event({ ...ids, state: "failed" }),
      { change: failed, ends: "refused", notifies: true },
    ],
    ["fails what was sent", facts, event({ state: "failed" }), { change: failed, notifies: true }],
    ["fails, and may be forged", { ...facts, certain: false }, event({ state: "failed" }), { change: failed }],
  ])("%s, and does nothing else", (_, given, reported, effect) => {
    expect(receiptEffect(given, reported)).toEqual(effect);
  });

  it.each<[string, boolean, Partial<DeliveryEvent>]>([
    ["opted-out", true, { state: "failed", code: "opted-out" }],
    ["opted-out", false, { state: "failed", code: "30003" }],
    ["opted-out", false, { state: "delivered", code: "opted-out" }],
  ])("reports %s: %s by %o, unless it may be forged", (_, expected, over) => {
    for (const certain of [true, false]) {
      const effect = receiptEffect({ ...facts, certain }, event(over));
      expect(effect !== "contradicts" && effect.suppress?.by === "opt-out").toBe(expected && certain);
    }
  });

  it("is about the draft of its key, then of its ids, then of its addresses, each in the order of the report", () => {
    const found = (certain: 0 | 1, place: number) => ({ certain, place });
    const all = [found(0, 0), found(1, 2), found(1, 1), found(1, -1), found(0, 1)];
    const chosen = [];
    for (let rest = all; rest.length > 0; ) {
      const next = chooseDraft(rest);
      chosen.push(next);
      rest = rest.filter((one) => one !== next);
    }
    expect(chosen).toEqual([found(1, -1), found(1, 1), found(1, 2), found(0, 0), found(0, 1)]);
    expect(chooseDraft([])).toBeNull();
  });

  it("is looked up by at most five of its addresses, that of the recipient first", () => {
    const mentioned = ["B@x", "c@x", "d@x", "e@x", "f@x"];
    expect(addressesOf({ recipient: "A@x", mentioned })).toEqual(["a@x", "b@x", "c@x", "d@x", "e@x"]);
    expect(addressesOf({ mentioned: ["B@x"] })).toEqual(["b@x"]);
    expect(addressesOf({})).toEqual([]);
  });

  it("may precede the response to its attempt only when it names the provider's ids alone", () => {
    const sent = [externalId("p1")];
    expect([
      mayBeEarly({ sent }),
      mayBeEarly({ key: sendKey("d"), sent }),
      mayBeEarly({ sent: [] }),
      mayBeEarly({}),
    ]).toEqual([true, false, false, false]);
  });

  it.each([
    ["unknown", 1, "c", true],
    ["held", 1, "c", true],
    ["failed", 1, "c", true],
    ["queued", 1, "c", true],
    ["queued", 0, "c", false],
    ["sent", 1, "c", false],
    ["delivered", 1, "c", false],
    ["unknown", 1, "d", false],
  ])("is a reply to a draft that is %s after %i attempts on channel %s: %s", (state, attempts, channel, expected) => {
    expect(isEndedByReply({ state, attempts, channel }, "c")).toBe(expected);
  });

  it("is about every recipient of the draft, or the main one when the adapter cannot read it", () => {
    const outbound = { recipients: () => ["A@x", "CC@x"] } as unknown as Outbound;
    const unreadable = { recipients: () => JSON.parse("") } as unknown as Outbound;
    const draft = { recipient: "a@x", body: "{}" };
    expect(recipientsOf(outbound, draft)).toEqual(["a@x", "cc@x"]);
    expect(recipientsOf(unreadable, draft)).toEqual(["a@x"]);
    expect(recipientsOf(outbound, { ...draft, body: "" })).toEqual(["a@x"]);
    expect(recipientsOf(null, draft)).toEqual(["a@x"]);
  });
});
