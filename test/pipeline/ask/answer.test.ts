// What stage ask leaves behind: every transition of a turn, under its lease, on a real store.

import { describe, expect, it } from "vitest";
import type { Answer } from "../../../src/agent/calls.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { AskDecision } from "../../../src/pipeline/ask/decide.ts";
import { type Asking, conclude } from "../../../src/pipeline/ask/stage.ts";
import type { Database } from "../../../src/store/driver.ts";
import { LeaseLost, leaseDeadline } from "../../../src/store/lanes.ts";
import { endLeases } from "../../../src/store/leases.ts";
import { attemptsOn } from "../../../src/store/operators/outbox.ts";
import { bindPlatform, readConversation } from "../../../src/store/tables/conversations.ts";
import { readTurn, recordAsking } from "../../../src/store/tables/turns.ts";
import { clock, lineOf, listen, reserveOf, watched } from "../../support/pipeline/stage.ts";
import { conversation, headTurn, leaseLanes, turn } from "../../support/store/databases.ts";

const answered = (answer: Answer): AskDecision => ({ kind: "answered", answer, rendered: null });
const retry = (outcome: "deferred" | "refused", reason: string, delay: number, penalty = 0): AskDecision => ({
  kind: "retry",
  outcome,
  reason,
  delay,
  penalty,
});
const unknown = (reason: string, questionId: string | null = null): AskDecision => ({
  kind: "unknown",
  reason,
  delay: 0,
  questionId,
  penalty: 0,
});
const failed = (reason: string): AskDecision => ({
  kind: "failed",
  outcome: "refused",
  reason,
  questionId: null,
});
const gone = (reason: string): AskDecision => ({ kind: "gone", reason });
const bound = (platformId: string): AskDecision => ({ kind: "bound", platformId, adopted: false });

/** Claims the turn as stage ask does, and records the attempt when it is a fresh one. */
async function claim(db: Database, on_permanent_failure: "continue" | "block" = "continue"): Promise<Asking> {
  return db.tx(async (q) => {
    const [lease] = await leaseLanes(q, "in", "c", "n", 60_000, 1);
    const row = lease && (await headTurn(q, lease));
    if (!row) throw new Error("no turn is due");
    const recorded = row.state === "waiting" && (await recordAsking(q, row, "n", lease.token));
    const line = lineOf({ rules: { on_permanent_failure } });
    return {
      line,
      lease,
      leaseDeadline: leaseDeadline(clock, 60_000),
      turn: row,
      conversation: await readConversation(q, "k"),
      isCreated: false,
      clock,
      log: listen().log,
      node: "n",
      rate: reserveOf(db, clock),
      timing: standardTiming,
      attempt: { recorded, obsolete: false, unbound: null, askedAt: null, early: null },
    };
  });
}

async function asked(
  on_permanent_failure: "continue" | "block" = "continue",
): Promise<{ db: Database; asking: Asking }> {
  const db = await watched();
  await db.tx(async (q) => {
    await conversation(q, "k");
    await turn(q, "t1", "k");
    await bindPlatform(q, "k", "p1");
  });
  return { db, asking: await claim(db, on_permanent_failure) };
}

const after = async (db: Database) => {
  const row = await db.read((q) => readTurn(q, "t1"));
  const [attempt] = await db.read((q) => attemptsOn(q, "t1"));
  const lane = await db.read((q) =>
    q.one<{ due: number | null }>("SELECT due_at - now_ms() AS due FROM lanes WHERE id = 'k/in'"),
  );
  const replies = await db.read((q) => q.all<{ text: string }>("SELECT text FROM replies"));
  return {
    state: row.state,
    outcome: attempt?.outcome,
    due: lane?.due ?? null,
    replies: replies.map((reply) => reply.text),
  };
};

describe("answer", () => {
  it("leaves the reply with the answered turn", async () => {
    const { db, asking } = await asked();
    await db.tx((q) => conclude(q, asking, answered({ questionId: "q1", replyId: "a1", text: "the answer" })));
    expect(await after(db)).toEqual({
      state: "answered",
      outcome: "sent",
      due: null,
      replies: ["the answer"],
    });
    expect((await db.read((q) => readTurn(q, "t1"))).question_id).toBe("q1");
  });

  it.each([null, "", "  \n"])("is silent when the platform answers %o", async (text) => {
    const { db, asking } = await asked();
    await db.tx((q) => conclude(q, asking, answered({ questionId: "q1", replyId: null, text })));
    expect(await after(db)).toEqual({ state: "silent", outcome: "sent", due: null, replies: [] });
  });

  it("waits for Retry-After, holds the rate limit back, and asks again", async () => {
    const { db, asking } = await asked();
    await db.tx((q) => conclude(q, asking, retry("deferred", "429", 30_000, 30_000)));
    const found = await after(db);
    expect(found).toMatchObject({ state: "waiting", outcome: "deferred" });
    expect(found.due).toBeGreaterThan(20_000);
    expect(await reserveOf(db, clock).take(1, 0)).toMatchObject({ taken: false });
  });

  it("counts lookups from the first one on, and keeps the question's id", async () => {
    const { db, asking } = await asked();
    await db.tx((q) => conclude(q, asking, unknown("cut", "q1")));
    expect(await after(db)).toMatchObject({ state: "unknown", outcome: "unknown" });
    for (const lookups of [1, 2]) {
      const again = await claim(db);
      await db.tx((q) => conclude(q, again, unknown("not there")));
      expect(await db.read((q) => readTurn(q, "t1"))).toMatchObject({
        lookups,
        question_id: "q1",
        attempts: 1,
      });
    }
    const last = await claim(db);
    await db.tx((q) => conclude(q, last, retry("refused", "never arrived", 0)));
    expect(await after(db)).toMatchObject({ state: "waiting", outcome: "refused" });
  });

  it.each([
    ["continue", "t2"],
    ["block", null],
  ] as const)("fails; on_permanent_failure %s", async (on_permanent_failure, next) => {
    const { db, asking } = await asked(on_permanent_failure);
    await db.tx((q) => turn(q, "t2", "k"));
    await db.tx((q) => conclude(q, asking, failed("400")));
    expect(await after(db)).toMatchObject({ state: "failed", outcome: "refused" });
    const [lease] = await db.tx((q) => leaseLanes(q, "in", "c", "n", 60_000, 1));
    expect(lease ? (await db.tx((q) => headTurn(q, lease)))?.id : null).toBe(next);
  });

  it("opens another conversation when the platform lost it, and gives up when it loses that too", async () => {
    const { db, asking } = await asked();
    await db.tx((q) => conclude(q, asking, gone("404")));
    expect((await db.read((q) => readConversation(q, "k"))).platform_id).toBeNull();
    expect(await after(db)).toMatchObject({ state: "waiting", outcome: "refused" });
    const opening = await claim(db);
    await db.tx((q) => conclude(q, opening, bound("p2")));
    expect((await db.read((q) => readConversation(q, "k"))).platform_id).toBe("p2");
    const again = await claim(db);
    await db.tx((q) => conclude(q, again, gone("404")));
    expect((await after(db)).state).toBe("failed");
  });

  it("writes nothing at all once the lane was taken over", async () => {
    const { db, asking } = await asked();
    await db.tx(endLeases);
    const answer = { questionId: "q", replyId: "a", text: "late" };
    const writes = [
      db.tx((q) => conclude(q, asking, answered(answer))),
      db.tx((q) => conclude(q, asking, bound("p9"))),
      db.tx((q) => conclude(q, asking, retry("deferred", "x", 0, 60_000))),
      db.tx((q) => conclude(q, asking, unknown("x"))),
      db.tx((q) => conclude(q, asking, failed("x"))),
      db.tx((q) => conclude(q, asking, gone("x"))),
    ];
    for (const write of writes) await expect(write).rejects.toThrow(LeaseLost);
    expect(await after(db)).toMatchObject({ state: "asking", outcome: null, replies: [] });
    expect((await db.read((q) => readConversation(q, "k"))).platform_id).toBe("p1");
    expect(await db.read((q) => q.all("SELECT * FROM rates"))).toEqual([]);
  });
});
