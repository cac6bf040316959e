import { describe, expect, it, onTestFinished } from "vitest";
import type { Policy } from "../../src/domain/policy.ts";
import { type Alarm, alarmText, isSilenced } from "../../src/escalation/alarm/decide.ts";
import { defineAlarmGauges, logAlarm, readAlarm } from "../../src/escalation/alarm/stage.ts";
import { endNotifications } from "../../src/escalation/notify/rows.ts";
import { Metrics } from "../../src/ops/metrics.ts";
import { Statistics } from "../../src/ops/statistics.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Database } from "../../src/store/driver.ts";
import { addTargets } from "../../src/store/tables/responders.ts";
import { eventually } from "../support/clock.ts";
import { chiefPolicy } from "../support/escalation/policy.ts";
import { testClock } from "../support/pipeline/pipeline.ts";
import {
  addNotification,
  conversation,
  draft,
  fresh,
  insertEscalation,
  sqliteDatabase,
} from "../support/store/databases.ts";

const chief = chiefPolicy().responders.get("chief");
if (!chief) throw new Error("there is no chief");
/** People by mail (channel `mail`) and text (channel `sms`). */
const twoWays = chiefPolicy({
  responders: new Map([["chief", { ...chief, sms: "+12025550191" }]]),
  via: { email: "mail", sms: "sms" },
});

async function fixture(policy: Policy | null = twoWays) {
  const clock = testClock(true);
  const db: Database = await fresh(() => sqliteDatabase(() => clock.now()));
  const down = new Set<string>();
  let made = 0;
  const deps = { db, policy: () => policy, isDown: (channel: string) => down.has(channel) };
  return {
    db,
    clock,
    down,
    deps,
    /** An escalation of which these channels tell, with what became of the draft. */
    async opened(id: string, drafts: Readonly<Record<string, string>>) {
      await db.tx(async (q) => {
        const about = {
          id,
          about: id,
          conversation: null,
          channel: "c",
          agent: "a",
          cause: "topic",
          topic: null,
        };
        await insertEscalation(q, { ...about, reason: "because" });
        await q.run("UPDATE escalations SET notified_at = now_ms() WHERE id = $1", id);
      });
      for (const [channel, is] of Object.entries(drafts)) await this.told(id, channel, is);
    },
    async told(escalation: string, channel: string, is: string) {
      const n = String(++made);
      await db.tx(async (q) => {
        const way = channel === "sms" ? "sms" : "email";
        const who = { person: "p", name: "P", way, address: n, channel } as const;
        const id = `c${n}`;
        await addTargets(q, [{ id, escalation, ...who }]);
        await addNotification(q, { id: `n${n}`, target: id, kind: "opened", subject: "", text: null }, 0);
        await conversation(q, `k${n}`, channel);
        await draft(q, `d${n}`, `k${n}`, 0, channel);
        await endNotifications(q, [`n${n}`], `rd${n}`);
        await q.run(`UPDATE drafts SET ${is} WHERE id = $1`, `d${n}`);
      });
    },
    look: () => readAlarm(deps),
  };
}

const sent = "state = 'sent', attempts = 1, open = 0";
const deferred = "state = 'queued', attempts = 1";
const fresher = "state = 'queued', attempts = 0";
const failed = "state = 'failed', attempts = 1, open = 0";

describe("what is counted", () => {
  it("nothing without a policy, unless something is left of one", async () => {
    const one = await fixture(null);
    expect(await one.look()).toBe(null);
    await one.opened("e1", {});
    expect(await one.look()).toMatchObject({ unacknowledged: 1, unreached: 1, paths: [] });
  });

  it("unacknowledged, acknowledged, the oldest, and their numbers", async () => {
    const one = await fixture();
    expect(await one.look()).toMatchObject({
      unacknowledged: 0,
      acknowledged: 0,
      oldest_seconds: 0,
      numbers: [],
      dead: [],
    });
    await one.opened("e1", { mail: sent });
    one.clock.forward(90_000);
    await one.opened("e2", { mail: sent });
    await one.opened("e3", { mail: sent });
    await one.opened("e4", {});
    await one.db.tx(async (q) => {
      await q.run("UPDATE escalations SET state = 'acknowledged' WHERE id = 'e3'");
      await q.run("UPDATE escalations SET state = 'closed' WHERE id = 'e4'");
    });
    expect(await one.look()).toMatchObject({
      unacknowledged: 2,
      acknowledged: 1,
      oldest_seconds: 90,
      numbers: [1, 2],
      unreached: 0,
    });
  });

  const notices: [string, Record<string, string>, Partial<Alarm>][] = [
    ["one on its way", { mail: fresher }, { unreached: 0, notifications_stuck: 0, dead: [] }],
    ["one being sent", { mail: "state = 'sending', attempts = 1" }, { unreached: 0, notifications_stuck: 0, dead: [] }],
    ["one deferred", { mail: deferred }, { unreached: 1, notifications_stuck: 1, dead: ["mail"] }],
    [
      "one tried again",
      { mail: "state = 'sending', attempts = 2" },
      { unreached: 1, notifications_stuck: 1, dead: ["mail"] },
    ],
    [
      "one unknown",
      { mail: "state = 'unknown', attempts = 1" },
      { unreached: 1, notifications_stuck: 1, dead: ["mail"] },
    ],
    ["one refused", { mail: failed }, { unreached: 1, notifications_stuck: 1, dead: ["mail"] }],
    ["one held", { mail: "state = 'held'" }, { unreached: 1, notifications_stuck: 1, dead: ["mail"] }],
    ["one dropped", { mail: "state = 'dropped', open = 0" }, { unreached: 1, notifications_stuck: 1, dead: ["mail"] }],
    ["one of two", { mail: failed, sms: sent }, { unreached: 0, notifications_stuck: 1, dead: ["mail"] }],
    ["both", { mail: failed, sms: deferred }, { unreached: 1, notifications_stuck: 2, dead: ["mail", "sms"] }],
    ["nobody to be told", {}, { unreached: 1, notifications_stuck: 0, dead: [] }],
  ];
  for (const [what, drafts, wanted] of notices)
    it(`of notices: ${what}`, async () => {
      const one = await fixture();
      await one.opened("e1", drafts);
      expect(await one.look()).toMatchObject(wanted);
    });

  it("a path that has carried another notice works", async () => {
    const one = await fixture();
    await one.opened("e1", { mail: failed });
    await one.opened("e2", { mail: sent });
    expect(await one.look()).toMatchObject({ unreached: 1, dead: [] });
  });

  it("a reply that became no message", async () => {
    const one = await fixture();
    await one.opened("e1", { mail: fresher });
    await one.db.tx(async (q) => {
      await q.run("DELETE FROM drafts");
      await q.run("UPDATE replies SET state = 'failed'");
    });
    expect(await one.look()).toMatchObject({ unreached: 1, notifications_stuck: 1 });
  });

  it("a channel that is known to be down", async () => {
    const one = await fixture();
    one.down.add("mail");
    expect(await one.look()).toMatchObject({ paths: ["mail", "sms"], dead: ["mail"] });
    expect(isSilenced(await one.look())).toBe(false);
    one.down.add("sms");
    expect(isSilenced(await one.look())).toBe(true);
  });
});

it("says in one line what is worst, first", async () => {
  const one = await fixture();
  expect(alarmText(null)).toBe("");
  expect(alarmText(await one.look())).toBe("");
  await one.opened("e1", { mail: sent });
  one.clock.forward(125_000);
  expect(alarmText(await one.look())).toBe("1 ESCALATION NOT ACKNOWLEDGED, the oldest for 2 min; ");
  await one.opened("e2", { mail: failed });
  one.down.add("mail").add("sms");
  expect(alarmText(await one.look())).toBe(
    "NO RESPONDER CAN BE NOTIFIED OF ESCALATIONS; NO RESPONDER WAS REACHED ABOUT 1 ESCALATION; 2 ESCALATIONS NOT ACKNOWLEDGED, the oldest for 2 min; ",
  );
});

it("says it in the log at the start and every five minutes, until it is over", async () => {
  const one = await fixture();
  await one.opened("e1", { mail: sent });
  await one.opened("e2", { mail: failed, sms: failed });
  const lines: string[] = [];
  const quiet = () => undefined;
  const log = {
    debug: quiet,
    info: quiet,
    warn: quiet,
    error: (_: unknown, text: string) => void lines.push(text),
  };
  const life = new AbortController();
  const ended = logAlarm({ ...one.deps, clock: one.clock, log, timing: standardTiming }, life.signal);
  onTestFinished(async () => {
    life.abort();
    await ended;
  });
  const said = [
    expect.stringContaining("no responder was reached"),
    expect.stringContaining("escalations not acknowledged"),
  ];
  await eventually(() => expect(one.clock.sleeping()).toBe(1));
  expect(lines).toEqual(said);
  one.clock.forward(299_000);
  expect(one.clock.sleeping()).toBe(1);
  one.clock.forward(1000);
  await eventually(() => expect(lines).toEqual([...said, ...said]));
  await eventually(() => expect(one.clock.sleeping()).toBe(1));
  await one.db.tx((q) => q.run("UPDATE escalations SET state = 'closed'"));
  one.clock.forward(300_000);
  await eventually(() => expect(one.clock.sleeping()).toBe(1));
  expect(lines).toHaveLength(4);
});

it("reports responders whose only notification channel is down", async () => {
  const responders = new Map([
    ["chief", { ...chief, sms: "+12025550191" }],
    ["second", { ...chief, id: "second", sms: null }],
  ]);
  const one = await fixture(chiefPolicy({ responders, via: { email: "mail", sms: "sms" } }));
  expect(await one.look()).toMatchObject({ cut_off: 0, dead: [] });
  one.down.add("mail");
  expect(await one.look()).toMatchObject({ cut_off: 1, dead: ["mail"] });
  const metrics = new Metrics(new Statistics());
  defineAlarmGauges(metrics, one.deps);
  const { body } = await metrics.expose();
  expect(body).toContain("bridgehead_responders_unreachable 1");
  expect(body).toContain('bridgehead_notification_paths{state="up"} 1');
  one.down.add("sms");
  expect(await one.look()).toMatchObject({ cut_off: 2 });
});

it("is measured, with one look at the store a scrape", async () => {
  const one = await fixture();
  await one.opened("e1", { mail: failed });
  one.clock.forward(60_000);
  let looks = 0;
  const db = { read: ((work) => (looks++, one.db.read(work))) as Database["read"] };
  const metrics = new Metrics(new Statistics());
  defineAlarmGauges(metrics, { ...one.deps, db });
  const { body } = await metrics.expose();
  expect(body).toContain('bridgehead_escalations{state="open"} 1');
  expect(body).toContain('bridgehead_escalations{state="acknowledged"} 0');
  expect(body).toContain('bridgehead_escalations{state="unreached"} 1');
  expect(body).toContain("bridgehead_escalation_oldest_seconds 60");
  expect(body).toContain("bridgehead_notifications_stuck 1");
  expect(looks).toBe(1);
});
