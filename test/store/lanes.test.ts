// Lanes, leases and turns: strict order, fencing, caps.

import { cursor } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { moveCursor } from "../../src/pipeline/accept/rows.ts";
import { leaseTurns } from "../../src/pipeline/ask/rows.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { findDue } from "../../src/store/due.ts";
import {
  abandonLane,
  guardLease,
  type Lease,
  LeaseLost,
  nextSeq,
  refreshLane,
  releaseLane,
} from "../../src/store/lanes.ts";
import { dropLease, endLeases, leaseIdleLane, takeLease } from "../../src/store/leases.ts";
import { attemptsOn } from "../../src/store/operators/outbox.ts";
import { bindPlatform } from "../../src/store/tables/conversations.ts";
import { insertReply } from "../../src/store/tables/drafts.ts";
import { pauseChannel, resumeChannel } from "../../src/store/tables/pauses.ts";
import { countUnsent, endAttempt, platformIds, readTurn, recordAsking } from "../../src/store/tables/turns.ts";
import {
  concludeTurn,
  conversation,
  dueChannels,
  fresh,
  headTurn,
  leaseLanes,
  type NewDatabase,
  onEachDatabase,
  turn,
} from "../support/store/databases.ts";

const minute = 60_000;
const lease = (db: Database, node = "n", ms = minute, limit = 10): Promise<Lease[]> =>
  db.tx((q) => leaseLanes(q, "in", "c", node, ms, limit));

async function one(db: Database, node = "n", ms = minute): Promise<Lease> {
  const [found] = await lease(db, node, ms, 1);
  if (!found) throw new Error("no lane is due");
  return found;
}

/** Whether the reader of channel `c` with that token may move its cursor. */
const holds = (db: Database, token: number): Promise<boolean> =>
  db
    .tx((q) => moveCursor(q, "c", { cursor: cursor("1"), reader: { lease: "channel:c", token } }))
    .then(
      () => true,
      (error: unknown) => {
        expect(String(error)).toContain("another node reads it now");
        return false;
      },
    );

const head = async (db: Database, of: Lease) => (await db.tx((q) => headTurn(q, of)))?.id ?? null;

async function withTurns(newDatabase: NewDatabase, ids: readonly string[]): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    await conversation(q, "k");
    for (const id of ids) await turn(q, id, "k");
  });
  return db;
}

/** The turns of a claim like those of the scheduler. */
const announced = async (q: Query, limit = 1000): Promise<string[]> => {
  const held = await leaseTurns(q, {
    channel: "c",
    holder: "n",
    leaseMs: minute,
    limit,
    clock: systemClock,
    announced: true,
  });
  return held.flatMap(({ head }) => (head === null ? [] : [head.turn.id]));
};

/** Opens conversations with a turn that waits. */
const asking = (db: Database, ids: readonly string[]): Promise<void> =>
  db.tx(async (q) => {
    for (const id of ids) {
      await conversation(q, `k${id}`);
      await turn(q, id, `k${id}`);
    }
  });

onEachDatabase((newDatabase) => {
  it("counts the time of the claiming statement against the lease", async () => {
    const db = await withTurns(newDatabase, ["t"]);
    let now = 0;
    const waiting = (q: Query): Query => ({
      ...q,
      all: (sql, ...values) => {
        now += 5000;
        return q.all(sql, ...values);
      },
    });
    const claimClock = { now: () => now, monotonic: () => now };
    const claim = { channel: "c", holder: "n", leaseMs: minute, limit: 1, clock: claimClock };
    const [held] = await db.tx((q) => leaseTurns(waiting(q), claim));
    expect(held?.head?.turn.id).toBe("t");
    expect(held?.deadline.left()).toBe(minute - now);
  });

  it.each([
    ["due work", ["t"], async (q: Query, node: string) => (await leaseLanes(q, "in", "c", node, minute, 1))[0] ?? null],
    ["a poll", [], (q: Query, node: string) => leaseIdleLane(q, "k", node, minute)],
  ] as const)("a claim of %s that was rolled back releases no later lease", async (_work, turns, claim) => {
    const db = await withTurns(newDatabase, turns);
    const lost: Lease[] = [];
    const outage = db.tx(async (q) => {
      lost.push(...[(await claim(q, "n")) ?? []].flat());
      throw new Error("Connection terminated unexpectedly");
    });
    await expect(outage).rejects.toThrow("terminated");
    const later = await db.tx((q) => claim(q, "other"));
    expect([lost.length, later?.lane]).toEqual([1, "k/in"]);
    for (const lease of lost) await db.tx((q) => abandonLane(q, lease));
    if (later) await db.tx((q) => guardLease(q, later));
  });

  describe("announced lanes", () => {
    it("are all that a claim reads, however many questions wait for their answers", async () => {
      const db = await fresh(newDatabase);
      const asked = Array.from({ length: 300 }, (_, at) => `t${at}`);
      await asking(db, asked);
      expect((await db.tx((q) => announced(q))).toSorted()).toEqual(asked.toSorted());
      const lists: string[][] = [];
      const noted = (q: Query): Query => ({
        ...q,
        all: (sql, ...values) => {
          if (sql.includes("json_each($4)")) lists.push(JSON.parse(String(values[3])) as string[]);
          return q.all(sql, ...values);
        },
      });
      for (const id of ["new", "newer"]) {
        await asking(db, [id]);
        expect(await db.tx((q) => announced(noted(q)))).toEqual([id]);
      }
      expect(await db.tx((q) => announced(noted(q)))).toEqual([]);
      if (db.kind === "sqlite") expect(lists).toEqual([["knew/in"], ["knewer/in"], []]);
    });

    it("are claimed again when they are released with more work", async () => {
      const db = await fresh(newDatabase);
      expect(await db.tx((q) => announced(q))).toEqual([]);
      await asking(db, ["a"]);
      await db.tx((q) => turn(q, "b", "ka"));
      const [held] = await lease(db);
      await db.tx((q) => turn(q, "c", "ka"));
      expect(await db.tx((q) => announced(q))).toEqual([]);
      await db.tx(async (q) => {
        await concludeTurn(q, "a", { state: "answered", open: 0 });
        if (held) await releaseLane(q, held, "in");
      });
      expect(await db.tx((q) => announced(q))).toEqual(["b"]);
    });

    it("are not lost by a claim that is rolled back", async () => {
      const db = await fresh(newDatabase, (q) => announced(q));
      await asking(db, ["a"]);
      const failed = db.tx(async (q) => {
        expect(await announced(q)).toEqual(["a"]);
        throw new Error("full");
      });
      await expect(failed).rejects.toThrow("full");
      expect(await db.tx((q) => announced(q))).toEqual(["a"]);
    });

    it("are not lost when a claim has room for some of them", async () => {
      const db = await fresh(newDatabase, (q) => announced(q));
      await asking(db, ["a", "b", "c"]);
      const found = [await db.tx((q) => announced(q, 2)), await db.tx((q) => announced(q, 2))];
      expect(found.flat().toSorted()).toEqual(["a", "b", "c"]);
    });

    it("are joined by those that a search finds: they became due with time, or by another process", async () => {
      const db = await fresh(newDatabase);
      await asking(db, ["a"]);
      await db.tx((q) => q.run("UPDATE lanes SET due_at = now_ms() + 3600000 WHERE direction = 'in'"));
      expect(await db.tx((q) => announced(q))).toEqual([]);
      await db.tx((q) => q.run("UPDATE lanes SET due_at = now_ms() WHERE direction = 'in'"));
      const found = await db.tx(async (q) => {
        await findDue(q, "n", true);
        return announced(q);
      });
      expect(found).toEqual(["a"]);
    });

    it("of a channel that claims nothing are forgotten and searched for when there are many", async () => {
      const db = await fresh(newDatabase, (q) => announced(q));
      const ids = Array.from({ length: 1100 }, (_, at) => `t${at}`);
      await asking(db, ids);
      expect(await db.tx((q) => announced(q, 2000))).toHaveLength(ids.length);
    });

    it("of a paused channel are found by the search after the pause", async () => {
      const db = await fresh(newDatabase, (q) => announced(q));
      await db.tx((q) => pauseChannel(q, { channel: "c", code: "operator", reason: "r", event: null, forMs: null }));
      await asking(db, ["a"]);
      expect(await db.tx((q) => announced(q))).toEqual([]);
      const found = await db.tx(async (q) => {
        await resumeChannel(q, "c");
        await findDue(q, "n", false);
        return announced(q);
      });
      expect(found).toEqual(["a"]);
    });
  });

  describe("lanes", () => {
    it("numbers what is put in, in order", async () => {
      const db = await withTurns(newDatabase, []);
      expect(await db.tx(async (q) => [await nextSeq(q, "k", "in"), await nextSeq(q, "k", "in")])).toEqual([1, 2]);
      expect(await db.tx((q) => nextSeq(q, "k", "out"))).toBe(1);
      await expect(db.tx((q) => nextSeq(q, "nope", "in"))).rejects.toThrow("there is no such lane");
    });

    it("works the oldest first, one at a time", async () => {
      const db = await withTurns(newDatabase, ["t3", "t1", "t2"]);
      const seen: (string | null)[] = [];
      for (let i = 0; i < 3; i++) {
        const claim = { channel: "c", holder: "n", leaseMs: minute, limit: 1, clock: systemClock };
        const [held] = await db.tx((q) => leaseTurns(q, claim));
        if (!held) throw new Error("no lane is due");
        expect(await lease(db, "other")).toEqual([]);
        // The claim and the search for the head of a lane agree.
        expect(await head(db, held.lease)).toBe(held.head?.turn.id);
        seen.push(held.head?.turn.id ?? null);
        await db.tx(async (q) => {
          await concludeTurn(q, seen.at(-1) ?? "", { state: "answered", open: 0 });
          await releaseLane(q, held.lease, "in");
        });
      }
      expect(seen).toEqual(["t3", "t1", "t2"]);
      expect(await db.read((q) => dueChannels(q, "turns"))).toEqual([]);
    });

    it("never lets a younger one overtake a head that is delayed", async () => {
      const db = await withTurns(newDatabase, ["t1", "t2"]);
      const held = await one(db);
      await db.tx(async (q) => {
        await concludeTurn(q, "t1", { state: "waiting", open: 1, dueInMs: 3_600_000 });
        await releaseLane(q, held, "in");
      });
      expect(await lease(db)).toEqual([]);
      await db.tx(async (q) => {
        await concludeTurn(q, "t1", { state: "waiting", open: 1, dueInMs: 0 });
        await refreshLane(q, "k", "in");
      });
      expect((await lease(db, "m", 1))[0]?.lane).toBe("k/in");
      expect(await head(db, held)).toBe("t1");
    });

    it("stops while its head is failed and open, and continues when that is settled", async () => {
      const db = await withTurns(newDatabase, ["t1", "t2"]);
      await db.tx(async (q) => {
        await concludeTurn(q, "t1", { state: "failed", open: 1 });
        await refreshLane(q, "k", "in");
      });
      expect(await lease(db)).toEqual([]);
      await db.tx(async (q) => {
        await concludeTurn(q, "t1", { state: "failed", open: 0 });
        await refreshLane(q, "k", "in");
      });
      expect(await head(db, await one(db))).toBe("t2");
    });

    it("leases at most as many as asked for, longest due first", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let i = 0; i < 6; i++) await turn(q, `t${i}`, await conversation(q, `k${i}`));
        for (let i = 0; i < 6; i++) await q.run("UPDATE lanes SET due_at = $2 WHERE id = $1", `k${i}/in`, 100 - i);
      });
      const first = await lease(db, "n", minute, 2);
      expect(first.map((found) => found.conversation).sort()).toEqual(["k4", "k5"]);
      expect((await lease(db, "n", minute, 10)).map((found) => found.conversation).sort()).toEqual([
        "k0",
        "k1",
        "k2",
        "k3",
      ]);
      expect(await db.tx((q) => leaseLanes(q, "in", "other", "n", minute, 10))).toEqual([]);
    });

    it("names the channels with due lanes, each once", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (const channel of ["b", "a", "z"]) {
          for (let i = 0; i < 3; i++)
            await turn(q, `${channel}${i}`, await conversation(q, `${channel}${i}`, channel), { channel });
        }
        await conversation(q, "idle", "idle");
        await q.run("UPDATE lanes SET due_at = $1 WHERE channel = 'z' AND direction = 'in'", Date.now() + minute);
      });
      expect(await db.read((q) => dueChannels(q, "turns"))).toEqual(["a", "b"]);
      await db.tx((q) => leaseLanes(q, "in", "a", "n", minute, 10));
      expect(await db.read((q) => dueChannels(q, "turns"))).toEqual(["b"]);
      expect(await db.read((q) => dueChannels(q, "drafts"))).toEqual([]);
    });

    it("lets a presumed dead holder write nothing", async () => {
      const db = await withTurns(newDatabase, ["t1"]);
      const stale = await one(db, "n", 1);
      let next: Lease | undefined;
      await expect.poll(async () => (next = (await lease(db, "m"))[0]), { interval: 5 }).toBeDefined();
      expect(next?.token).toBe(stale.token + 1);
      await expect(db.tx((q) => guardLease(q, stale))).rejects.toThrow(LeaseLost);
      const writing = db.tx(async (q) => {
        await concludeTurn(q, "t1", { state: "answered", open: 0 });
        await releaseLane(q, stale, "in");
      });
      await expect(writing).rejects.toThrow(LeaseLost);
      expect((await db.read((q) => readTurn(q, "t1"))).state).toBe("waiting");
      await db.tx((q) => guardLease(q, next as Lease));
    });

    it("lets a holder with an expired lease write until another takes over", async () => {
      const db = await withTurns(newDatabase, ["t1"]);
      const late = await one(db, "n", 0);
      await db.tx((q) => guardLease(q, late));
      await db.tx((q) => releaseLane(q, late, "in"));
    });

    it("ends all leases at a start on a store of one's own", async () => {
      const db = await withTurns(newDatabase, ["t1"]);
      const old = await one(db);
      const token = await db.tx((q) => takeLease(q, "channel:c", "n", minute));
      await db.tx(endLeases);
      await expect(db.tx((q) => guardLease(q, old))).rejects.toThrow(LeaseLost);
      expect(await holds(db, token ?? 0)).toBe(false);
      expect((await one(db)).token).toBeGreaterThan(old.token);
    });

    it("counts a channel's reader by one token", async () => {
      const db = await fresh(newDatabase);
      const take = (holder: string, ms = minute) => db.tx((q) => takeLease(q, "channel:c", holder, ms));
      expect(await take("n")).toBe(1);
      expect(await take("n")).toBe(1);
      expect(await take("m")).toBeNull();
      await db.tx((q) => dropLease(q, "channel:c", "m"));
      expect(await holds(db, 1)).toBe(true);
      await db.tx((q) => dropLease(q, "channel:c", "n"));
      expect(await holds(db, 1)).toBe(false);
      expect(await take("m", 1)).toBe(2);
      await expect.poll(() => take("n"), { interval: 5 }).toBe(3);
      expect(await holds(db, 2)).toBe(false);
    });

    it("counts an attempt that was not sent, and records one only for the turn as it was claimed", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k");
      });
      const claimed = await db.read((q) => readTurn(q, "t1"));
      await db.tx(async (q) => {
        await countUnsent(q, "t1", "n", 7);
        await endAttempt(q, "t1", "deferred", "no connection");
        await concludeTurn(q, "t1", { state: "waiting", open: 1 });
      });
      const tried = await db.read((q) => readTurn(q, "t1"));
      expect([tried.state, tried.attempts, tried.trying_for !== null]).toEqual(["waiting", 1, true]);
      const rows = () => db.read((q) => q.all("SELECT number, node, token, outcome, detail FROM attempts"));
      expect(await rows()).toEqual([{ number: 1, node: "n", token: 7, outcome: "deferred", detail: "no connection" }]);
      const record = (row: typeof tried) => db.tx((q) => recordAsking(q, row, "n", 8));
      expect(await record({ ...tried, question: "other words" })).toBe(false);
      expect(await record({ ...tried, opening: "{}" })).toBe(false);
      expect(await record(claimed)).toBe(false);
      expect(await record(tried)).toBe(true);
      expect(await record(tried)).toBe(false);
      expect(await rows()).toHaveLength(2);
    });

    it("writes attempts down, and an outcome once", async () => {
      const db = await withTurns(newDatabase, ["t1"]);
      const held = await one(db, "n");
      await db.tx(async (q) => recordAsking(q, await readTurn(q, "t1"), "n", held.token));
      expect(await db.read((q) => readTurn(q, "t1"))).toMatchObject({ state: "asking", attempts: 1 });
      await db.tx((q) => endAttempt(q, "t1", "unknown", "reset"));
      // A turn is asked again only after it was found not to have been asked.
      await db.tx((q) => concludeTurn(q, "t1", { state: "waiting", open: 1 }));
      await db.tx(async (q) => recordAsking(q, await readTurn(q, "t1"), "n", held.token));
      await db.tx((q) => endAttempt(q, "t1", "unknown", null));
      await db.tx((q) => endAttempt(q, "t1", "sent", "found"));
      await db.tx((q) => endAttempt(q, "t1", "refused", "too late"));
      const tries = await db.read((q) => attemptsOn(q, "t1"));
      expect(tries.map(({ number, kind, outcome, detail }) => [number, kind, outcome, detail])).toEqual([
        [1, "ask", "unknown", "reset"],
        [2, "ask", "sent", "found"],
      ]);
    });

    it("reports which platform messages belong to other turns", async () => {
      const db = await withTurns(newDatabase, ["t1", "t2"]);
      await db.tx(async (q) => {
        await bindPlatform(q, "k", "p");
        await concludeTurn(q, "t1", { state: "answered", open: 0, questionId: "q1" });
        await insertReply(q, {
          id: "r1",
          conversation: "k",
          channel: "c",
          turn: "t1",
          text: "x",
          platformId: "a1",
        });
        await concludeTurn(q, "t2", { state: "unknown", open: 1, questionId: "q2" });
        await concludeTurn(q, "t2", { state: "unknown", open: 1 });
      });
      expect(await db.read((q) => platformIds(q, "p", "t2"))).toEqual(new Set(["q1", "a1"]));
      expect((await db.read((q) => readTurn(q, "t2"))).question_id).toBe("q2");
      await expect(db.read((q) => readTurn(q, "nope"))).rejects.toThrow("there is none");
    });
  });
});
