// Whose turn it is. Times in comments are of the person's own clock.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readWindow } from "../../src/domain/hours.ts";
import {
  type About,
  begin,
  contactsOf,
  forecast,
  type Person,
  type Policy,
  type Progress,
  step,
  type Tier,
  tiersFor,
} from "../../src/domain/policy.ts";

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const about: About = { topic: "refund", agent: "support", channel: "mail", cause: "topic" };
/** A Wednesday, 10:00 in Berlin. */
const t0 = Date.parse("2026-07-08T10:00:00+02:00");

const windows = (texts: readonly string[]) =>
  texts.map((text) => readWindow(text) ?? expect.fail(`no window: ${text}`));
function person(id: string, over: Partial<Omit<Person, "hours">> & { hours?: string[] } = {}): Person {
  const { hours = [], ...rest } = over;
  return {
    id,
    name: id,
    email: `${id}@example.com`,
    sms: null,
    webhook: null,
    timeZone: "Europe/Berlin",
    hours: windows(hours),
    away: [],
    ...rest,
  };
}
const tier = (notify: string[], over: Partial<Tier> = {}): Tier => ({
  notify,
  by: null,
  repeat: 10 * minute,
  next: 15 * minute,
  ...over,
});
function policy(people: readonly Person[], over: Partial<Policy> = {}): Policy {
  return {
    responders: new Map(people.map((one) => [one.id, one])),
    tiers: [],
    routes: [],
    fallback: { notify: ["chief"], by: null, repeat: 15 * minute },
    agentRecipients: true,
    group: 0,
    link: { expires: hour, actions: ["ack", "reply", "note", "resume", "close"], addresses: "full" },
    causes: ["topic"],
    downAfter: 0,
    poll: minute,
    pollOpen: minute,
    via: { email: "mail", sms: "texts" },
    platformWebhook: null,
    allowPrivate: [],
    ...over,
  };
}
const day = ["mon-fri 08:00-18:00"];
const night = ["22:00-06:00"];

/** The recipients notified at each step until `until`, as `+minutes: names`. */
function diary(own: Policy, from: number, until: number, first: Progress = begin(from)): string[] {
  const told: string[] = [];
  let [progress, now]: [Progress, number | null] = [first, from];
  while (now !== null && now <= until) {
    const done: ReturnType<typeof step> = step(own, about, progress, now);
    if (done.notify.length > 0)
      told.push(`+${(now - from) / minute}: ${done.notify.map((one) => one.person).join(" ")}`);
    [progress, now] = [done.progress, done.dueAt];
  }
  return told;
}

describe("step", () => {
  const people = [person("anna"), person("ben"), person("cleo", { hours: night }), person("chief")];

  it("notifies the first tier at once and again, then the next, and at last the fallback without end", () => {
    const own = policy(people, { tiers: [tier(["anna"]), tier(["ben"], { repeat: 0 })] });
    expect(diary(own, t0, t0 + hour)).toEqual([
      "+0: anna",
      "+10: anna",
      "+15: ben",
      "+30: chief anna ben",
      "+45: chief anna ben",
      "+60: chief anna ben",
    ]);
  });

  it("says what is due, and changes nothing when nothing is", () => {
    const own = policy(people, { tiers: [tier(["anna"])] });
    const first = step(own, about, begin(t0), t0);
    expect(first).toEqual({
      notify: [{ person: "anna", name: "anna", way: "email", address: "anna@example.com" }],
      progress: { tier: 0, enteredAt: t0, notifiedAt: t0 },
      dueAt: t0 + 10 * minute,
    });
    expect(step(own, about, first.progress, t0 + minute)).toEqual({ ...first, notify: [] });
  });

  it("skips tiers without a responder on duty", () => {
    const own = policy(people, { tiers: [tier(["cleo"]), tier(["cleo", "ben"])] });
    expect(step(own, about, begin(t0), t0)).toMatchObject({
      notify: [{ person: "ben" }],
      progress: { tier: 1 },
    });
  });

  it("goes to the fallback at once when no responder is on duty, and ignores the fallback's hours", () => {
    const busy = [person("anna", { hours: night }), person("chief", { hours: night })];
    const own = policy(busy, { tiers: [tier(["anna"])] });
    expect(diary(own, t0, t0 + 15 * minute)).toEqual(["+0: chief", "+15: chief"]);
  });

  it("notifies responders who come on duty in the meantime, and no longer those who go off duty", () => {
    const shifts = [
      person("early", { hours: ["06:00-14:00"] }),
      person("late", { hours: ["14:00-22:00"] }),
      person("chief"),
    ];
    const own = policy(shifts, {
      tiers: [tier(["early", "late"], { repeat: 5 * minute, next: 20 * minute })],
    });
    const before = Date.parse("2026-07-08T13:50:00+02:00");
    expect(diary(own, before, before + 20 * minute)).toEqual([
      "+0: early",
      "+5: early",
      "+10: late",
      "+15: late",
      "+20: chief late",
    ]);
  });

  it("passes a tier when the last of it goes off duty", () => {
    const own = policy([person("anna", { hours: day }), person("chief")], {
      tiers: [tier(["anna"], { next: 8 * hour })],
    });
    const before = Date.parse("2026-07-08T17:55:00+02:00");
    expect(diary(own, before, before + 10 * minute)).toEqual(["+0: anna", "+10: chief"]);
  });

  it("ends only when the fallback does not repeat", () => {
    const own = policy(people, { fallback: { notify: ["chief"], by: null, repeat: 0 } });
    const first = step(own, about, begin(t0), t0);
    expect(first).toMatchObject({ notify: [{ person: "chief" }], dueAt: null });
    expect(step(own, about, first.progress, t0 + 99 * hour)).toMatchObject({ notify: [], dueAt: null });
  });

  it("notifies once when the clock is put forward by days", () => {
    const own = policy(people, { tiers: [tier(["anna"]), tier(["ben"])] });
    const first = step(own, about, begin(t0), t0);
    const later = t0 + 72 * hour;
    const second = step(own, about, first.progress, later);
    expect(second).toMatchObject({ notify: [{ person: "ben" }], progress: { tier: 1, enteredAt: later } });
    expect(step(own, about, second.progress, later)).toMatchObject({
      notify: [],
      dueAt: later + 10 * minute,
    });
  });

  it("is not stopped by a clock that is put back by days", () => {
    const own = policy(people, { tiers: [tier(["anna"]), tier(["ben"])] });
    const first = step(own, about, begin(t0), t0);
    const earlier = t0 - 72 * hour;
    const again = step(own, about, first.progress, earlier);
    expect(again).toMatchObject({ notify: [], dueAt: earlier + 10 * minute });
    expect(diary(own, earlier, earlier + 15 * minute, again.progress)).toEqual(["+10: anna", "+15: ben"]);
  });

  it("finds the fallback when a policy has fewer tiers than before", () => {
    const own = policy(people, { tiers: [tier(["anna"])] });
    const done = step(own, about, { tier: 5, enteredAt: t0, notifiedAt: t0 }, t0 + minute);
    expect(done).toMatchObject({ notify: [{ person: "chief" }, { person: "anna" }], progress: { tier: 1 } });
    expect(step(own, about, done.progress, t0 + minute).notify).toEqual([]);
  });

  it("notifies an address of two responders once", () => {
    const shared = [person("anna"), person("ben", { email: "anna@example.com" }), person("chief")];
    const own = policy(shared, { tiers: [tier(["ben", "anna"])] });
    expect(step(own, about, begin(t0), t0).notify.map((one) => one.person)).toEqual(["ben"]);
  });
});

describe("contacts", () => {
  const webhook = { url: "https://pager.example.com/", headers: {}, secret: null };
  const all = person("anna", { sms: "+1", webhook });

  it.each<[string, Policy["via"], Tier["by"], string[]]>([
    [
      "every way there is",
      { email: "mail", sms: "texts" },
      null,
      ["sms +1", "email anna@example.com", `webhook ${webhook.url}`],
    ],
    [
      "those chosen, in that order",
      { email: "mail", sms: "texts" },
      ["email", "sms"],
      ["email anna@example.com", "sms +1"],
    ],
    ["only those that a channel carries", { email: null, sms: "texts" }, null, ["sms +1", `webhook ${webhook.url}`]],
  ])("are %s", (_what, via, by, expected) => {
    const found = contactsOf(policy([all], { via }), "anna", by);
    expect(found.map(({ way, address }) => `${way} ${address}`)).toEqual(expected);
  });

  it("pass a tier whose only way has no channel", () => {
    const own = policy([person("anna"), person("ben", { webhook }), person("chief", { webhook })], {
      via: { email: null, sms: null },
      tiers: [tier(["anna"]), tier(["ben"])],
    });
    expect(step(own, about, begin(t0), t0)).toMatchObject({
      notify: [{ person: "ben" }],
      progress: { tier: 1 },
    });
  });
});

describe("routes", () => {
  const route = (over: object, who: string) => ({
    topics: null,
    agents: null,
    channels: null,
    causes: null,
    tiers: [tier([who])],
    ...over,
  });
  const own = policy([], {
    tiers: [tier(["else"])],
    routes: [
      route({ topics: ["Billing*", "refund"], agents: ["support"] }, "money"),
      route({ causes: ["channel-down"] }, "admin"),
      route({ channels: ["phone"], topics: ["*"] }, "phones"),
    ],
  });

  it.each<[Partial<About>, string]>([
    [{}, "money"],
    [{ topic: "BILLING question" }, "money"],
    [{ topic: "rebilling" }, "else"],
    [{ agent: "sales" }, "else"],
    [{ topic: null }, "else"],
    [{ topic: null, cause: "channel-down" }, "admin"],
    [{ topic: null, channel: "phone" }, "phones"],
    [{ cause: "channel-down" }, "money"],
  ])("%j is for %s", (over, who) => {
    expect(tiersFor(own, { ...about, ...over })[0]?.notify).toEqual([who]);
  });
});

describe("for any policy and clock", () => {
  const ids = ["anna", "ben", "cleo"];
  const some = fc.record({
    hours: fc.tuple(...ids.map(() => fc.constantFrom<string[]>([], day, night, ["sat,sun 00:00-24:00"]))),
    tiers: fc.array(
      fc.record({
        notify: fc.subarray(ids, { minLength: 1 }),
        by: fc.constant(null),
        repeat: fc.constantFrom(0, 5 * minute, hour),
        next: fc.constantFrom(minute, 15 * minute, 12 * hour),
      }),
      { maxLength: 4 },
    ),
    jumps: fc.array(fc.constantFrom(0, 0, 0, 1, -1, 3 * hour, -3 * hour, 240 * hour, -240 * hour), {
      maxLength: 12,
    }),
    start: fc.integer({ min: 0, max: 168 }).map((hours) => t0 + hours * hour),
  });

  it("a notification is sent within the time of all tiers, and the fallback repeats", () => {
    fc.assert(
      fc.property(some, ({ hours, tiers, jumps, start }) => {
        const people = ids.map((id, index) => person(id, { hours: hours[index] ?? [] }));
        const own = policy([...people, person("chief")], { tiers });
        let now = start;
        let done = step(own, about, begin(now), now);
        expect(done.notify).not.toEqual([]);
        // As the daemon does it: asked when it is due, or when the clock was put back.
        for (const jump of jumps) {
          now = jump === 0 ? (done.dueAt ?? now) : now + jump;
          done = step(own, about, done.progress, now);
          expect(done.dueAt).toBeGreaterThan(now);
          expect(step(own, about, done.progress, now).notify).toEqual([]);
        }
        const most = tiers.reduce((sum, { next }) => sum + next, 15 * minute);
        const end = now + most;
        while (done.dueAt !== null && done.dueAt <= end) {
          now = done.dueAt;
          done = step(own, about, done.progress, now);
        }
        expect(done.progress.tier).toBe(tiers.length);
        const again = step(own, about, done.progress, done.dueAt ?? 0);
        expect(again.notify[0]?.person).toBe("chief");
      }),
      { numRuns: 200 },
    );
  });
});

describe("forecast", () => {
  it("lists every step until the fallback, skipped tiers, and the responders who are deferred", () => {
    const people = [person("anna", { hours: day }), person("ben"), person("cleo", { hours: night }), person("chief")];
    const own = policy(people, { tiers: [tier(["cleo"]), tier(["anna", "ben", "cleo"])] });
    const { steps, complete } = forecast(own, about, t0);
    expect(complete).toBe(true);
    const shown = steps.map(({ at, tier: number, notify, spared }) => [
      (at - t0) / minute,
      number,
      notify.map((one) => one.person),
      spared.map((one) => one.person.id),
    ]);
    expect(shown).toEqual([
      [0, 0, [], ["cleo"]],
      [0, 1, ["anna", "ben"], ["cleo"]],
      [10, 1, ["anna", "ben"], ["cleo"]],
      [15, null, ["chief", "anna", "ben"], ["cleo"]],
    ]);
    expect(steps[0]?.spared[0]?.duty).toEqual({
      on: false,
      why: "hours",
      until: Date.parse("2026-07-08T22:00:00+02:00"),
    });
  });

  it("is only the fallback where there are no tiers", () => {
    const { steps } = forecast(policy([person("chief")]), about, t0);
    expect(steps).toMatchObject([{ at: t0, tier: null, notify: [{ person: "chief" }], spared: [] }]);
  });

  it("ends with a policy that notifies every second for a year", () => {
    const own = policy([person("anna"), person("chief")], {
      tiers: [tier(["anna"], { repeat: second, next: 365 * 24 * hour })],
    });
    const { steps, complete } = forecast(own, about, t0);
    expect([steps.length, complete]).toEqual([2000, false]);
  });
});
