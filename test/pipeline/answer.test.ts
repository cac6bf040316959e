// What stage ask leaves behind: every transition of a turn, under its lease, on a real store.

import { describe, expect, it } from "vitest";
import { leaseDeadline } from "../../src/engine/lease-deadline.ts";
import type { Asking } from "../../src/pipeline/ask/asking.ts";
import * as leave from "../../src/pipeline/ask/outcomes.ts";
import type { Database } from "../../src/store/driver.ts";
import { endLeases, LeaseLost, leaseLanes } from "../../src/store/lanes.ts";
import { takeRate } from "../../src/store/rates.ts";
import { bindPlatform, readConversation } from "../../src/store/tables/conversations.ts";
import { attemptsOn } from "../../src/store/tables/outbox.ts";
import { headTurn, readTurn, recordAsking } from "../../src/store/tables/turns.ts";
import { conversation, turn } from "../store/rig.ts";
import { clock, lineOf, watched } from "./rig.ts";

/** Claims the turn as stage ask does, and records the attempt when it is a fresh one. */
async function claim(db: Database, on_dead: "skip" | "block" = "skip"): Promise<Asking> {
  return db.tx(async (q) => {
    const [lease] = await leaseLanes(q, "in", "c", "n", 60_000, 1);
    const row = lease && (await headTurn(q, lease));
    if (!row) throw new Error("no turn is due");
    const recorded = row.state === "waiting" && (await recordAsking(q, row, "n", lease.token));
    const line = lineOf({ rules: { on_dead } });
    return {
      line,
      lease,
      leaseDeadline: leaseDeadline(clock, 60_000),
      turn: row,
      conversation: await readConversation(q, "k"),
      clock,
      node: "n",
      attempt: { recorded, obsolete: false },
    };
  });
}

async function asked(on_dead: "skip" | "block" = "skip"): Promise<{ db: Database; asking: Asking }> {
  const db = await watched();
  await db.tx(async (q) => {
    await conversation(q, "k");
    await turn(q, "t1", "k");
    await bindPlatform(q, "k", "p1");
  });
  return { db, asking: await claim(db, on_dead) };
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
    await db.tx((q) =>
      leave.answered(q, asking, { questionId: "q1", replyId: "a1", text: "the answer" }, clock),
    );
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
    await db.tx((q) => leave.answered(q, asking, { questionId: "q1", replyId: null, text }, clock));
    expect(await after(db)).toEqual({ state: "silent", outcome: "sent", due: null, replies: [] });
  });

  it("waits as long as told, holds the rate back, and is asked again", async () => {
    const { db, asking } = await asked();
    await db.tx((q) => leave.waiting(q, asking, "deferred", "429", 30_000, 30_000));
    const found = await after(db);
    expect(found).toMatchObject({ state: "waiting", outcome: "deferred" });
    expect(found.due).toBeGreaterThan(20_000);
    expect((await db.tx((q) => takeRate(q, "platform", { interval: 1, tolerance: 0 }, 1, 0))).taken).toBe(
      false,
    );
  });

  it("counts looks from the first one on, and keeps the question's id", async () => {
    const { db, asking } = await asked();
    await db.tx((q) => leave.unknown(q, asking, "cut", 0, "q1"));
    expect(await after(db)).toMatchObject({ state: "unknown", outcome: "unknown" });
    for (const looks of [1, 2]) {
      const again = await claim(db);
      await db.tx((q) => leave.unknown(q, again, "not there", 0));
      expect(await db.read((q) => readTurn(q, "t1"))).toMatchObject({
        looks,
        question_id: "q1",
        attempts: 1,
      });
    }
    const last = await claim(db);
    await db.tx((q) => leave.waiting(q, last, "refused", "never arrived", 0));
    expect(await after(db)).toMatchObject({ state: "waiting", outcome: "refused" });
  });

  it.each([
    ["skip", "t2"],
    ["block", null],
  ] as const)("fails; on_dead %s", async (on_dead, next) => {
    const { db, asking } = await asked(on_dead);
    await db.tx((q) => turn(q, "t2", "k"));
    await db.tx((q) => leave.failed(q, asking, "refused", "400"));
    expect(await after(db)).toMatchObject({ state: "failed", outcome: "refused" });
    const [lease] = await db.tx((q) => leaseLanes(q, "in", "c", "n", 60_000, 1));
    expect(lease ? (await db.tx((q) => headTurn(q, lease)))?.id : null).toBe(next);
  });

  it("opens another conversation when the platform lost it, and gives up when it loses that too", async () => {
    const { db, asking } = await asked();
    await db.tx((q) => leave.gone(q, asking, "404"));
    expect((await db.read((q) => readConversation(q, "k"))).platform_id).toBeNull();
    expect(await after(db)).toMatchObject({ state: "waiting", outcome: "refused" });
    const opening = await claim(db);
    await db.tx((q) => leave.bound(q, opening, "p2"));
    expect((await db.read((q) => readConversation(q, "k"))).platform_id).toBe("p2");
    const again = await claim(db);
    await db.tx((q) => leave.gone(q, again, "404"));
    expect((await after(db)).state).toBe("failed");
  });

  it("writes nothing at all once the lane was taken over", async () => {
    const { db, asking } = await asked();
    await db.tx(endLeases);
    const answer = { questionId: "q", replyId: "a", text: "late" };
    const writes = [
      db.tx((q) => leave.answered(q, asking, answer, clock)),
      db.tx((q) => leave.bound(q, asking, "p9")),
      db.tx((q) => leave.waiting(q, asking, "deferred", "x", 0, 60_000)),
      db.tx((q) => leave.unknown(q, asking, "x", 0)),
      db.tx((q) => leave.failed(q, asking, "refused", "x")),
      db.tx((q) => leave.gone(q, asking, "x")),
    ];
    for (const write of writes) await expect(write).rejects.toThrow(LeaseLost);
    expect(await after(db)).toMatchObject({ state: "asking", outcome: null, replies: [] });
    expect((await db.read((q) => readConversation(q, "k"))).platform_id).toBe("p1");
    expect(await db.read((q) => q.all("SELECT * FROM rates"))).toEqual([]);
  });
});
