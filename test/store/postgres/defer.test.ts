// Deferred statements on PostgreSQL: their rows arrive with a later result, without a round trip of their own, and their
// failure ends the transaction.

import { expect, it } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { leaseTurns } from "../../../src/pipeline/ask/rows.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { leaseDrafts, Pauses } from "../../../src/pipeline/send/rows.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { guardLease, LeaseLost, releaseLane, returnLane } from "../../../src/store/lanes.ts";
import { revokeLease } from "../../../src/store/leases.ts";
import { enqueueDraft, insertReply, readDraft } from "../../../src/store/tables/drafts.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { endPause, writePause } from "../../../src/store/tables/pauses.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { concludeDraft, conversation, dueChannels, turn } from "../../support/store/databases.ts";
import { needPostgres, proxiedStore, roundTrips } from "../../support/store/postgres.ts";

describeReal("deferred statements on PostgreSQL", await needPostgres(), () => {
  /** A store with channel `c`, and the number of its round trips; `other` is a connection of another node. */
  async function counted(): Promise<{ db: Database; other: Database; trips: () => number }> {
    const { db, other, proxy } = await proxiedStore({ connections: 1 });
    await other.tx((q) => ensureChannel(q, "c"));
    const trips = roundTrips(proxy);
    await db.read((q) => q.one("SELECT 1"));
    return { db, other, trips };
  }

  const insert = "INSERT INTO agents (id, settings, read_at) VALUES ($1, '{}', 7) RETURNING id, read_at";
  const ids = async (db: Database) =>
    (await db.read((q) => q.all<{ id: string }>("SELECT id FROM agents ORDER BY id"))).map(({ id }) => id);
  const defer = (q: Query, id: string, seen: unknown[]) =>
    q.defer({ use: (rows) => seen.push(...rows), otherwise: () => new Error("not one") }, insert, id);

  it("sends them with COMMIT, and passes their rows before the transaction resolves", async () => {
    const { db, trips } = await counted();
    const seen: unknown[] = [];
    const before = trips();
    await db.tx(async (q) => {
      await defer(q, "a", seen);
      await q.defer({ use: (rows) => seen.push(...rows) }, insert, "b");
      expect(seen).toEqual([]);
    });
    expect(trips() - before).toBe(1);
    expect(seen).toEqual([expect.objectContaining({ id: "a", read_at: 7 }), { id: "b", read_at: 7 }]);
  });

  it("passes their rows with the next result", async () => {
    const { db, trips } = await counted();
    const seen: unknown[] = [];
    const before = trips();
    await db.tx(async (q) => {
      await defer(q, "a", seen);
      await q.one("SELECT 1");
      expect(seen).toHaveLength(1);
    });
    expect(trips() - before).toBe(2);
  });

  it("commits nothing when one of them fails, and passes no rows", async () => {
    const { db } = await counted();
    await db.tx((q) => q.run(insert, "a"));
    const seen: unknown[] = [];
    let undone = 0;
    const failing = (work: (q: Query) => Promise<void>) =>
      db.tx(async (q) => {
        q.onRollback(() => undone++);
        q.onDisk(() => seen.push("on disk"));
        await defer(q, "b", seen);
        await work(q);
      });
    await expect(failing((q) => defer(q, "a", seen))).rejects.toThrow("duplicate key");
    const none = "UPDATE agents SET read_at = 1 WHERE id = 'none' RETURNING id";
    const otherwise = () => new Error("not one");
    const use = (rows: readonly unknown[]) => void seen.push(...rows);
    await expect(failing((q) => q.defer({ use, otherwise }, none))).rejects.toThrow("not one");
    const all = "UPDATE agents SET read_at = 1 RETURNING id";
    await expect(failing((q) => q.defer({ use, otherwise }, all))).rejects.toThrow("not one");
    expect([seen, undone, await ids(db)]).toEqual([[], 3, ["a"]]);
  });

  it("undoes a savepoint alone when one of its own fails", async () => {
    const { db } = await counted();
    const seen: unknown[] = [];
    let failure: unknown;
    await db.tx(async (q) => {
      await q.run(insert, "a");
      const inner = q.savepoint(async () => {
        await defer(q, "b", seen);
        await defer(q, "a", seen);
      });
      failure = await inner.catch(String);
      await defer(q, "c", seen);
    });
    expect(failure).toContain("duplicate key");
    expect(seen).toEqual([expect.objectContaining({ id: "c" })]);
    expect(await ids(db)).toEqual(["a", "c"]);
  });

  it("claims lanes with their heads in one round trip, each once", async () => {
    const { db, trips } = await counted();
    await db.tx(async (q) => {
      for (const id of ["k", "l"]) await turn(q, `t${id}`, await conversation(q, id));
    });
    const claim = { channel: "c", holder: "n", leaseMs: 60_000, limit: 10, clock: systemClock };
    const before = trips();
    const held = await db.tx((q) => leaseTurns(q, claim));
    expect(trips() - before).toBe(2);
    const heads = Object.fromEntries(held.map(({ lease, head }) => [lease.conversation, head?.turn.id]));
    expect(heads).toEqual({ k: "tk", l: "tl" });
    expect(await db.tx((q) => leaseTurns(q, claim))).toEqual([]);
  });

  it("sends nothing of a sender that another node paused after the last claim", async () => {
    const { db, other } = await counted();
    await db.tx(async (q) => {
      await conversation(q, "k");
      await append(q, "d1");
    });
    const pauses = new Pauses(systemClock, 60_000, standardTiming);
    const line = { channel: "c", rules: {} } as ChannelRuntime;
    const claim = async (q: Query) => {
      const gate = await pauses.gate(q, line, Infinity);
      const closed = gate.closed();
      const held = await leaseDrafts(q, {
        channel: "c",
        holder: "n",
        leaseMs: 60_000,
        limit: 10,
        clock: systemClock,
        closed,
      });
      const admitted: boolean[] = [];
      for (const { lease, head } of held) {
        if (head) admitted.push(await gate.admits(head, lease.sender));
        await returnLane(q, lease, "out");
      }
      return admitted;
    };
    expect(await db.tx(claim)).toEqual([true]);
    const pause = { sender: "", cause: "rate", failures: 1, reason: "full", by_provider: true } as const;
    await other.tx((q) => writePause(q, "c", { ...pause, forMs: 60_000 }));
    expect(await db.tx(claim)).toEqual([false]);
    expect(await db.tx(claim)).toEqual([]);
    await other.tx((q) => endPause(q, "c", ""));
    expect(await db.tx(claim)).toEqual([true]);
  });

  it("rejects a transition whose lease was taken over, although nothing waits for its statements", async () => {
    const { db, other, trips } = await counted();
    await db.tx(async (q) => turn(q, "t", await conversation(q, "k")));
    const claim = { channel: "c", holder: "n", leaseMs: 60_000, limit: 10, clock: systemClock };
    const [held] = await db.tx((q) => leaseTurns(q, claim));
    if (!held) throw new Error("no lane is due");
    const release = () =>
      db.tx(async (q) => {
        await guardLease(q, held.lease);
        await q.write(insert, "a");
        await releaseLane(q, held.lease, "in");
      });
    await other.tx((q) => revokeLease(q, "k", "in"));
    const before = trips();
    await expect(release()).rejects.toThrow(LeaseLost);
    expect([trips() - before, await ids(db)]).toEqual([2, []]); // the second one is the rollback
    // Without its guard, too.
    await expect(db.tx((q) => releaseLane(q, held.lease, "in"))).rejects.toThrow(LeaseLost);
  });

  /** Enqueues a due draft in conversation `k`, like the answer to a question. */
  async function append(q: Query, id: string): Promise<void> {
    const common = { id: `r${id}`, conversation: "k", channel: "c", turn: null, platformId: null };
    await insertReply(q, { ...common, text: "text", state: "composed" });
    const draft = { ...common, id, reply: `r${id}`, recipient: "a@example.org", body: "{}" };
    await enqueueDraft(q, { ...draft, dueAt: 1, isDue: true });
  }

  it("appends a due draft without a round trip, in order", async () => {
    const { db, trips } = await counted();
    await db.tx((q) => conversation(q, "k"));
    const before = trips();
    const touched = await db.tx(async (q) => {
      await append(q, "d1");
      await append(q, "d2");
      return [...(q.touched.get("drafts") ?? [])];
    });
    expect([trips() - before, touched]).toEqual([1, ["c"]]);
    const seqs = await db.read((q) => q.all("SELECT id, seq FROM drafts ORDER BY seq"));
    expect(seqs).toEqual([
      { id: "d1", seq: 1 },
      { id: "d2", seq: 2 },
    ]);
    await expect(db.tx((q) => q.run("DELETE FROM lanes").then(() => append(q, "d3")))).rejects.toThrow(
      "there is no such lane",
    );
  });

  it("appends a draft to a lane whose blocked head is closed at the same time, and makes it due", async () => {
    const { db, other } = await counted();
    await db.tx(async (q) => {
      await conversation(q, "k");
      await append(q, "d1");
    });
    await db.tx((q) => concludeDraft(q, "d1", { state: "held", open: 1 }));
    await db.tx((q) => q.run("UPDATE lanes SET due_at = NULL WHERE id = 'k/out'"));
    const [has, waits] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const closing = other.tx(async (q) => {
      await q.run("UPDATE lanes SET next_seq = next_seq WHERE id = 'k/out'");
      has.resolve();
      await waits.promise;
      await concludeDraft(q, "d1", { state: "dropped", open: 0 });
    });
    await has.promise;
    const appending = db.tx((q) => append(q, "d2"));
    const blocked = "SELECT COUNT(*) AS count FROM pg_locks WHERE NOT granted";
    await expect.poll(() => other.read((q) => q.one(blocked))).toEqual({ count: 1 });
    waits.resolve();
    await Promise.all([closing, appending]);
    expect((await db.read((q) => readDraft(q, "d2")))?.state).toBe("queued");
    expect(await db.read((q) => dueChannels(q, "drafts"))).toEqual(["c"]);
  });
});
