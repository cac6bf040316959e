// Stages compose, send and reconcile on a real store: each outcome, each finding, each policy.

import {
  type Attempt,
  externalId,
  type Finding,
  type Outbound,
  type Reply,
  type SendOutcome,
} from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { CallSessions } from "../../../src/calls/sessions.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import { standardTiming, timingWith } from "../../../src/ops/timing.ts";
import type { ChannelRules } from "../../../src/pipeline/channel-runtime.ts";
import { composeStage } from "../../../src/pipeline/compose/stage.ts";
import { recordSending } from "../../../src/pipeline/send/rows.ts";
import { sendStage } from "../../../src/pipeline/send/stage.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { refreshLane } from "../../../src/store/lanes.ts";
import { attemptsOn, resendDraft } from "../../../src/store/operators/outbox.ts";
import { citeAll } from "../../../src/store/tables/conversations.ts";
import { insertReply, readDraft } from "../../../src/store/tables/drafts.ts";
import { pausesOf, wholeChannel } from "../../../src/store/tables/pauses.ts";
import { strike, suppression } from "../../../src/store/tables/suppressions.ts";
import { activeSettings, clock, lineOf, listen, put, watched } from "../../support/pipeline/stage.ts";
import { conversation, draft, stateOf, storeEvent, turn } from "../../support/store/databases.ts";

const sent: SendOutcome = { kind: "sent", id: externalId("x1"), also: [externalId("x2")] };

function outboundOf(send: (attempt: Attempt) => SendOutcome | Promise<SendOutcome>, finding?: Finding): Outbound {
  return {
    compose: (reply) => [{ text: reply.text }, { text: reply.signature }],
    send: async (_, attempt) => send(attempt),
    ...(finding ? { reconcile: async () => finding } : {}),
  };
}

/** One look at what is due; ends when what began has ended. */
async function round(db: Database, outbound: Outbound, rules: Partial<ChannelRules> = {}): Promise<string[]> {
  const heard = listen();
  const lines = () => new Map([["c", lineOf({ outbound, rules })]]);
  const scheduler = new Scheduler({
    db,
    node: "n",
    clock,
    log: heard.log,
    timing: standardTiming,
    transactional: [],
    stages: [
      sendStage({
        lines,
        sessions: new CallSessions(standardTiming.calls),
        db,
        clock,
        log: heard.log,
        node: "n",
        timing: timingWith({ send: { attempt: 1000 } }),
      }),
    ],
    capacity: () => 1,
  });
  await scheduler.sweep();
  await scheduler.drain(5000);
  return heard.lines;
}

async function withDrafts(...due: number[]): Promise<Database> {
  const db = await watched();
  await db.tx(async (q) => {
    await conversation(q, "k");
    for (const [i, inMs] of due.entries()) await draft(q, `d${i + 1}`, "k", inMs);
  });
  return db;
}

const row = async (db: Database, id: string) => {
  const found = await db.read((q) => readDraft(q, id));
  if (!found) throw new Error(`no draft ${id}`);
  return found;
};
/** Makes the lane's head `unknown`, or `sending` as a dead process leaves it. */
async function half(q: Query, state: "unknown" | "sending", left: number | null): Promise<void> {
  const found = await readDraft(q, "d1");
  if (found) await recordSending(q, found, "n", 1);
  await put(
    q,
    "drafts",
    "d1",
    `state = '${state}', reconcile_until = ${left === null ? "NULL" : `now_ms() + ${left}`}`,
  );
}

describe("send", () => {
  it.each<[string, SendOutcome, string, string]>([
    ["sent", sent, "sent", "sent"],
    ["refused", { kind: "refused", code: "550", reason: "no" }, "failed", "refused"],
    ["deferred", { kind: "deferred", reason: "later" }, "queued", "deferred"],
    ["unknown", { kind: "unknown", reason: "cut" }, "unknown", "unknown"],
  ])("%s", async (_, outcome, state, noted) => {
    const db = await withDrafts(0);
    await round(
      db,
      outboundOf(() => outcome),
    );
    expect(await row(db, "d1")).toMatchObject({ state, attempts: 1 });
    expect(await db.read((q) => attemptsOn(q, "d1"))).toMatchObject([{ number: 1, outcome: noted, node: "n" }]);
  });

  it("suppresses a person who opted out at the provider, but not one who has said START since the attempt", async () => {
    const outcome = { kind: "refused", code: "opted-out", reason: "21610", scope: "recipient" } as const;
    const suppressedAfter = async (code: string, sent: string) => {
      const db = await withDrafts(0);
      const outbound = outboundOf(async () => {
        const set = `state = 'ignored', code = '${code}', sender = 'a@example.org', sent_at = now_ms() ${sent}`;
        await db.tx(async (q) => put(q, "events", String(await storeEvent(q, "keyword")), set));
        return outcome;
      });
      await round(db, outbound);
      expect(await row(db, "d1")).toMatchObject({ state: "failed" });
      return db.read((q) => suppression(q, "c", "a@example.org"));
    };
    expect(await suppressedAfter("opt-in", "+ 1000")).toBeNull();
    expect(await suppressedAfter("opt-in", "- 60000")).toContain("opted out: 21610");
    expect(await suppressedAfter("help", "+ 1000")).toContain("opted out: 21610");
  });

  it("remembers every id it was sent under, also one that an answer has cited before", async () => {
    const db = await withDrafts(0);
    const { conversation } = await row(db, "d1");
    await db.tx((q) => citeAll(q, [{ channel: "c", externalId: "x2", conversation, draft: null }]));
    await round(
      db,
      outboundOf(() => sent),
    );
    const ids = await db.read((q) => q.all("SELECT external_id, draft FROM citations ORDER BY external_id"));
    expect(ids).toEqual([
      { external_id: "x1", draft: "d1" },
      { external_id: "x2", draft: "d1" },
    ]);
  });

  it("gives the adapter the same key with a rising number, and waits as the schedule says", async () => {
    const db = await withDrafts(0);
    const seen: [string, number][] = [];
    const outbound = outboundOf((attempt) => {
      seen.push([attempt.key, attempt.number]);
      return { kind: "deferred", reason: "later" };
    });
    await round(db, outbound);
    expect((await row(db, "d1")).due_in).toBeGreaterThan(20_000);
    await round(db, outbound);
    expect(seen).toEqual([["d1", 1]]);
    await db.tx(async (q) => {
      await q.run("UPDATE drafts SET due_at = 0");
      await q.run("UPDATE lanes SET due_at = 0 WHERE id = 'k/out'");
    });
    await round(db, outbound);
    expect(seen).toEqual([
      ["d1", 1],
      ["d1", 2],
    ]);
    expect((await row(db, "d1")).due_in).toBeGreaterThan(200_000);
  });

  it("knows a throw before the crossing from one after it", async () => {
    for (const [crossed, state] of [
      [false, "queued"],
      [true, "unknown"],
    ] as const) {
      const db = await withDrafts(0);
      await round(
        db,
        outboundOf(async (attempt) => {
          if (crossed) await attempt.crossing();
          throw new Error("reset");
        }),
      );
      expect((await row(db, "d1")).state).toBe(state);
    }
  });

  it("gives up on what was deferred for days, counted from the first try of the round", async () => {
    const db = await withDrafts(0);
    const later = outboundOf(() => ({ kind: "deferred", reason: "later" }));
    const daysAgo = (column: string) =>
      db.tx(async (q) => {
        await q.run(`UPDATE drafts SET ${column} = now_ms() - 4 * 86400000, due_at = now_ms()`);
        await refreshLane(q, "k", "out");
      });
    await daysAgo("created_at");
    await round(db, later);
    expect((await row(db, "d1")).state).toBe("queued");
    await daysAgo("tried_at");
    await round(db, later);
    expect((await row(db, "d1")).state).toBe("failed");
    // An operator's resend begins a new round.
    await db.tx((q) => resendDraft(q, "d1"));
    await round(db, later);
    expect(await row(db, "d1")).toMatchObject({ state: "queued", attempts: 3 });
  });

  it("pauses the channel, strikes the recipient, as far as the outcome says", async () => {
    const db = await withDrafts(0);
    await round(
      db,
      outboundOf(() => ({ kind: "deferred", reason: "quota", scope: "channel", retryAfterMs: 60_000 })),
    );
    expect(await db.read((q) => pausesOf(q, "c", 3_700_000))).toMatchObject([
      { sender: wholeChannel, cause: "unreachable", by_provider: 1, reason: "quota" },
    ]);
    const other = await withDrafts(0, 0);
    const refused: SendOutcome = { kind: "refused", code: "550", reason: "unknown", scope: "recipient" };
    await round(
      other,
      outboundOf(() => refused),
    );
    await round(
      other,
      outboundOf(() => refused),
    );
    expect(await other.read((q) => suppression(q, "c", "a@example.org"))).toBe("unknown");
  });

  it("drops what is suppressed, and sends nothing early in its place", async () => {
    const db = await withDrafts(0, 60_000);
    await db.tx((q) => strike(q, "c", "a@example.org", 1, "bounced"));
    await round(
      db,
      outboundOf(() => sent),
    );
    expect([(await row(db, "d1")).state, (await row(db, "d2")).state]).toEqual(["dropped", "queued"]);
    await db.tx((q) => q.run("DELETE FROM suppressions"));
    await round(
      db,
      outboundOf(() => sent),
    );
    expect((await row(db, "d2")).state).toBe("queued");
  });

  it.each([
    ["continue", 0, "sent"],
    ["block", 1, "queued"],
  ] as const)("a dead draft, on_permanent_failure %s", async (on_permanent_failure, open, next) => {
    const db = await withDrafts(0, 0);
    let calls = 0;
    const outbound = outboundOf(() => (++calls === 1 ? { kind: "refused", code: "550", reason: "no" } : sent));
    for (let i = 0; i < 2; i++) await round(db, outbound, { on_permanent_failure });
    expect((await db.read((q) => q.one("SELECT open FROM drafts WHERE id = 'd1'")))?.["open"]).toBe(open);
    expect((await row(db, "d2")).state).toBe(next);
  });
});

describe("reconcile", () => {
  const found: Finding = { kind: "sent", id: externalId("x") };

  it.each<["unknown" | "sending", Finding | undefined, Partial<ChannelRules>, number | null, string, string | null]>([
    ["unknown", found, {}, 60_000, "sent", "sent"],
    ["sending", found, {}, null, "sent", "sent"],
    ["sending", { kind: "not-sent" }, {}, null, "queued", "deferred"],
    ["sending", undefined, {}, null, "unknown", "unknown"],
    ["sending", undefined, { unknown_window: 0 }, null, "held", "unknown"],
    ["unknown", undefined, { on_unknown: "drop" }, 0, "dropped", "unknown"],
    ["unknown", undefined, { on_unknown: "resend" }, 0, "queued", "unknown"],
  ])("a draft %s, finding %o, %o", async (state, finding, over, left, after, noted) => {
    const db = await withDrafts(0);
    await db.tx((q) => half(q, state, left));
    const outbound = outboundOf(() => {
      throw new Error("nothing is sent by a look");
    }, finding);
    await round(db, outbound, over);
    expect(await row(db, "d1")).toMatchObject({ state: after, attempts: 1 });
    expect((await db.read((q) => attemptsOn(q, "d1")))[0]?.outcome).toBe(noted);
    if (finding?.kind === "sent") {
      expect(await db.read((q) => q.all("SELECT external_id, draft FROM citations"))).toEqual([
        { external_id: "x", draft: "d1" },
      ]);
    }
  });

  it.each([
    [1, "now_ms()", "queued", 0],
    [2, "now_ms()", "queued", 24_000],
    [3, "now_ms()", "queued", 240_000],
    [7, "now_ms() - 80 * 3600000", "failed", 0],
  ])("after %i attempts since %s with an unknown outcome, sent again: %s", async (attempts, tried, state, wait) => {
    const db = await withDrafts(0);
    await db.tx((q) => half(q, "unknown", 0));
    await db.tx((q) => put(q, "drafts", "d1", `attempts = ${attempts}, tried_at = ${tried}`));
    const outbound = outboundOf(() => {
      throw new Error("nothing is sent by a look");
    });
    await round(db, outbound, { on_unknown: "resend" });
    const found = await db.read((q) =>
      q.one<{ state: string; open: number; wait: number }>(
        "SELECT state, open, due_at - updated_at AS wait FROM drafts WHERE id = 'd1'",
      ),
    );
    expect(found).toMatchObject({ state, open: state === "failed" ? 0 : 1 });
    expect(found?.wait).toBeGreaterThanOrEqual(wait);
    expect(found?.wait).toBeLessThanOrEqual(wait * 1.5);
  });

  it("lets a receipt that came during the look stand", async () => {
    const db = await withDrafts(0);
    await db.tx((q) => half(q, "unknown", 60_000));
    await round(db, {
      ...outboundOf(() => sent),
      async reconcile() {
        await db.tx((q) => q.run("UPDATE drafts SET state = 'delivered', open = 0 WHERE id = 'd1'"));
        return { kind: "not-sent" };
      },
    });
    expect((await row(db, "d1")).state).toBe("delivered");
  });

  it("looks at the second attempt for as long as at the first", async () => {
    const db = await withDrafts(0);
    await db.tx((q) => half(q, "unknown", 5));
    await round(
      db,
      outboundOf(() => sent, { kind: "not-sent" }),
    );
    await db.tx(async (q) => {
      const found2 = await readDraft(q, "d1");
      if (found2) await recordSending(q, found2, "n", 1); // and the process dies
    });
    await round(
      db,
      outboundOf(() => sent, { kind: "unsure" }),
    );
    expect(await row(db, "d1")).toMatchObject({ state: "unknown", attempts: 2 });
  });
});

describe("compose", () => {
  async function composed(receivedAgo: number, delay: number, compose?: Outbound["compose"]) {
    const db = await watched();
    const seen: Reply[] = [];
    const outbound: Outbound = {
      ...outboundOf(() => sent),
      compose: compose ?? ((reply) => (seen.push(reply), [{ text: "one" }, { text: "two" }])),
    };
    const stage = composeStage({
      lines: () => new Map([["c", lineOf({ outbound, settings: activeSettings({ delay }) })]]),
      log: listen().log,
    });
    await db.tx(async (q) => {
      await conversation(q, "k");
      await turn(q, "t1", "k", { receivedAt: Date.now() - receivedAgo });
      await q.run(
        "UPDATE turns SET address = $1",
        '{"to":[{"address":"B@x"}],"cc":[],"subject":null,"answers":null,"history":[],"hops":1,"session":null}',
      );
      for (const id of ["r1", "r2"]) {
        await insertReply(q, { id, conversation: "k", channel: "c", turn: "t1", text: id, platformId: null });
      }
    });
    await db.tx((q) => stage.run(q, new Set(["c"])));
    const drafts = await db.read((q) =>
      q.all<{ seq: number; reply: string; body: string; recipient: string; wait: number }>(
        "SELECT seq, reply, body, recipient, due_at - now_ms() AS wait FROM drafts ORDER BY seq",
      ),
    );
    return { db, drafts, seen };
  }

  it("leaves drafts in order, for whom the turn was to be answered, in the skill's dress", async () => {
    const { db, drafts, seen } = await composed(0, 0);
    expect(drafts.map((one) => [one.seq, one.reply, one.body, one.recipient])).toEqual([
      [1, "r1", '{"text":"one"}', "b@x"],
      [2, "r1", '{"text":"two"}', "b@x"],
      [3, "r2", '{"text":"one"}', "b@x"],
      [4, "r2", '{"text":"two"}', "b@x"],
    ]);
    expect(seen.map((reply) => [reply.introduction, reply.signature, reply.subject, reply.senderName])).toEqual([
      ["Hello!", "-- us", "Your message", "Us"],
      [null, "-- us", "Your message", "Us"],
    ]);
    expect(await db.read((q) => q.all("SELECT DISTINCT state FROM replies"))).toEqual([{ state: "composed" }]);
  });

  it.each([
    [0, 0, 0],
    [0, 100, 100_000],
    [40_000, 100, 60_000],
    [200_000, 100, 0],
  ])("received %i ms ago with a delay of %i s: due in %i ms", async (ago, delay, wait) => {
    const { drafts } = await composed(ago, delay);
    for (const one of drafts) expect(Math.abs(one.wait - wait)).toBeLessThan(10_000);
  });

  it("fails a reply that the adapter cannot compose, and sends the next", async () => {
    const { db, drafts } = await composed(0, 0, ({ text }) => {
      if (text === "r1") throw new Error("a defect");
      return [{ text: "x" }];
    });
    expect(drafts.map((one) => one.reply)).toEqual(["r2"]);
    expect(await db.read((q) => q.all("SELECT id, state, reason FROM replies ORDER BY id"))).toEqual([
      { id: "r1", state: "failed", reason: "Error: a defect" },
      { id: "r2", state: "composed", reason: null },
    ]);
    expect(await db.read((q) => stateOf(q, "turns", "t1"))).toBe("waiting");
  });
});
