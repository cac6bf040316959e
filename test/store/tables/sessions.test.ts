// Sessions and what hangs on them: pins, nodes that fall silent, what is not wanted any more.

import { describe, expect, it } from "vitest";
import { endLost, loseOrphans, reclaimSessions } from "../../../src/calls/heartbeat/rows.ts";
import {
  closeSession,
  dropDrafts,
  dropRest,
  freeConversation,
  insertSession,
  loseSession,
  loseSessions,
  markTransferring,
  openTurns,
  recordHeard,
  resumeSession,
  reviveSession,
  speakingState,
} from "../../../src/calls/rows.ts";
import type { Hop } from "../../../src/ops/hops.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { endLeases, forgetNodes, nodeLease, takeLease } from "../../../src/store/leases.ts";
import { overview } from "../../../src/store/operators/overview.ts";
import { forget } from "../../../src/store/retention.ts";
import { readSession, type SessionRow } from "../../../src/store/tables/sessions.ts";
import {
  conversation,
  draft,
  dueChannels,
  fresh,
  leaseLanes,
  type NewDatabase,
  onEachDatabase,
  stateOf,
  turn,
} from "../../support/store/databases.ts";

const minute = 60_000;
const day = 1440 * minute;
const over = { reason: null, durationMs: null };

/** Conversation `k` with a due turn, a due draft and session `s`, held by node `a`. */
async function withCall(newDatabase: NewDatabase): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    await conversation(q, "k");
    await turn(q, "t", "k");
    await draft(q, "d", "k");
    await q.run("UPDATE drafts SET session = 's'");
    await insertSession(q, { channel: "c", id: "s", conversation: "k", node: "a" });
  });
  return db;
}

async function session(db: Database): Promise<SessionRow> {
  const row = await db.read((q) => readSession(q, "c", "s"));
  if (!row) throw new Error("there is no session");
  return row;
}

const s = { id: "s", conversation: "k" };

async function lostFor(db: Database): Promise<number | null | "ended"> {
  return (await db.read((q) => speakingState(q, "c", "s", "rd"))).lostFor;
}

/** How many lanes that node may work on now. */
async function open(db: Database, node: string): Promise<number> {
  let count = 0;
  for (const direction of ["in", "out"] as const) {
    const due = await db.read((q) => dueChannels(q, direction === "in" ? "turns" : "drafts", node));
    const leased = await db.tx((q) => leaseLanes(q, direction, "c", node, minute, 9));
    expect(leased.length).toBe(due.length);
    count += leased.length;
  }
  await db.tx(endLeases);
  return count;
}

onEachDatabase((newDatabase) => {
  describe("sessions", () => {
    it("pins the lanes to the node of an open session, and otherwise to none", async () => {
      const db = await withCall(newDatabase);
      expect([await open(db, "b"), await open(db, "a")]).toEqual([0, 2]);
      const row = await session(db);
      await db.tx((q) => loseSession(q, row, "socket"));
      expect([await open(db, "b"), await open(db, "a")]).toEqual([2, 2]);
      await db.tx((q) => resumeSession(q, row, "b", 20_000));
      expect([await open(db, "b"), await open(db, "a")]).toEqual([2, 0]);
      expect(await session(db)).toMatchObject({ state: "open", node: "b", openings: 2, reason: null });
      await db.tx((q) => closeSession(q, row, over));
      expect([await open(db, "b"), await open(db, "a")]).toEqual([2, 2]);
    });

    it("keeps the pin of the current call when an older one in the conversation ends", async () => {
      const db = await withCall(newDatabase);
      const row = await session(db);
      await db.tx(async (q) => {
        await q.run("UPDATE sessions SET opened_at = opened_at - 1000");
        await insertSession(q, { channel: "c", id: "s2", conversation: "k", node: "b" });
        await closeSession(q, row, over);
      });
      expect([await open(db, "a"), await open(db, "b")]).toEqual([0, 2]);
    });

    it("stays ended, and keeps what was known of the end", async () => {
      const db = await withCall(newDatabase);
      const row = await session(db);
      await db.tx(async (q) => {
        await markTransferring(q, row, "asked");
        await closeSession(q, row, { reason: "hung-up", durationMs: 1500.5 });
        await loseSession(q, row, "socket");
        await closeSession(q, row, over);
      });
      expect(await session(db)).toMatchObject({ state: "closed", reason: "hung-up", transferring: "asked" });
      const [end] = await db.read((q) => q.all("SELECT duration FROM sessions"));
      expect(end).toEqual({ duration: 1501 });
      expect(await lostFor(db)).toBe("ended");
    });

    it("counts the time without a connection from its first report, and anew after each return", async () => {
      const db = await withCall(newDatabase);
      const loses = () => db.tx(async (q) => loseSession(q, await of(q), "cut"));
      const of = async (q: Query) => (await readSession(q, "c", "s")) as SessionRow;
      const pass = () => db.tx((q) => q.run("UPDATE sessions SET lost_at = lost_at - $1", minute));
      for (const returns of [
        (q: Query, row: SessionRow) => reviveSession(q, row, "a"),
        (q: Query, row: SessionRow) => resumeSession(q, row, "a", minute),
      ]) {
        await loses();
        expect(await lostFor(db)).toBeLessThan(minute);
        await pass();
        await loses();
        expect(await lostFor(db)).toBeGreaterThanOrEqual(minute);
        await db.tx(async (q) => returns(q, await of(q)));
        expect(await lostFor(db)).toBeNull();
      }
      await db.tx(async (q) => closeSession(q, await of(q), over));
      await db.tx(async (q) => reviveSession(q, await of(q), "a"));
      expect((await session(db)).state, "only a lost session revives").toBe("closed");
      await db.tx((q) => q.run("UPDATE sessions SET closed_at = 7"));
      const closedAt = () => db.read((q) => q.one("SELECT closed_at FROM sessions"));
      await db.tx(async (q) => closeSession(q, await of(q), over));
      expect(await closedAt()).toEqual({ closed_at: 7 });
      await db.tx(async (q) => resumeSession(q, await of(q), "a", minute));
      expect(await closedAt()).toEqual({ closed_at: null });
    });

    it("tells the open turns and the newer questions of a call from those of others, and from openings", async () => {
      const db = await withCall(newDatabase);
      const set = (q: Query, id: string, column: string, value: string) =>
        q.run(`UPDATE turns SET ${column} = $1 WHERE id = $2`, value, id);
      await db.tx(async (q) => {
        await q.run("UPDATE turns SET session = NULL");
        for (const id of ["own", "earlier", "opening"]) await turn(q, id, "k");
        for (const id of ["own", "opening"]) await set(q, id, "session", "s");
        await set(q, "earlier", "session", "before");
        await set(q, "opening", "opening", "{}");
        await q.run("UPDATE replies SET turn = 'own' WHERE id = 'rd'");
      });
      const { turns } = await db.tx((q) => openTurns(q, { channel: "c", id: "s", conversation: "k" }));
      expect(turns.map(({ id, opening }) => [id, opening])).toEqual([
        ["own", false],
        ["opening", true],
      ]);
      const isOutdated = async () => (await db.read((q) => speakingState(q, "c", "s", "rd"))).outdated;
      expect(await isOutdated()).toBe(false);
      await db.tx(async (q) => {
        await turn(q, "newer", "k");
        await set(q, "newer", "session", "s");
      });
      expect(await isOutdated()).toBe(true);
    });

    it("finds the person's newest conversation in which no call lives", async () => {
      const db = await withCall(newDatabase);
      const free = async () =>
        (await db.read((q) => freeConversation(q, "c", "a@example.org", 2 * minute)))?.id ?? null;
      expect(await free()).toBeNull();
      await db.tx((q) => conversation(q, "j"));
      expect(await free()).toBe("j");
      const row = await session(db);
      await db.tx((q) => loseSession(q, row, null));
      expect(await free()).toBe("j");
      await db.tx((q) => closeSession(q, row, over));
      expect(await free()).toBe("k");
      expect(await db.read((q) => freeConversation(q, "c", "b@example.org", 2 * minute))).toBeNull();
    });

    it("gives a person's conversation to their next call when the last one has not come back for two minutes", async () => {
      const db = await withCall(newDatabase);
      const free = async () =>
        (await db.read((q) => freeConversation(q, "c", "a@example.org", 2 * minute)))?.id ?? null;
      await db.tx(async (q) => loseSession(q, await session(db), null));
      expect(await free()).toBeNull();
      await db.tx((q) => q.run("UPDATE sessions SET lost_at = lost_at - 121000"));
      expect(await free()).toBe("k");
    });

    it("knows whether the free conversation is bound, or an open turn will bind it", async () => {
      const db = await withCall(newDatabase);
      await db.tx(async (q) => closeSession(q, await session(db), over));
      const begun = async () => (await db.read((q) => freeConversation(q, "c", "a@example.org", 2 * minute)))?.begun;
      expect(await begun()).toBe(true);
      await db.tx((q) => q.run("UPDATE turns SET state = 'failed', open = 0"));
      expect(await begun()).toBe(false);
      await db.tx((q) => q.run("UPDATE conversations SET platform_id = 'p'"));
      expect(await begun()).toBe(true);
    });

    it("treats the calls of silent nodes as lost, and schedules their work at once", async () => {
      const db = await withCall(newDatabase);
      await db.tx(async (q) => {
        await takeLease(q, nodeLease("a"), "a", minute);
        await leaseLanes(q, "in", "c", "a", 10 * minute, 1);
      });
      expect(await db.tx((q) => loseOrphans(q, 20_000))).toBe(0);
      expect(await lostFor(db)).toBeNull();
      await db.tx((q) => q.run("UPDATE leases SET until = now_ms()"));
      expect(await db.tx((q) => loseOrphans(q, 20_000))).toBe(1);
      expect(await lostFor(db)).toBeGreaterThanOrEqual(0);
      if (db.kind === "postgres") {
        const lane = await db.read((q) =>
          q.one<{ rest: number }>("SELECT lease_until - now_ms() AS rest FROM lanes WHERE id = 'k/in'"),
        );
        const left = lane?.rest ?? 0;
        expect(left).toBeGreaterThan(10_000);
        expect(left).toBeLessThanOrEqual(20_000);
      }
      // No send was in progress.
      expect(await open(db, "b")).toBe(1);
    });

    it("returns to a node the calls that were reassigned while it was cut off, and no others", async () => {
      const db = await withCall(newDatabase);
      await db.tx((q) => loseOrphans(q, 20_000));
      await db.tx((q) => reclaimSessions(q, "b"));
      expect((await session(db)).state).toBe("lost");
      await db.tx((q) => reclaimSessions(q, "a"));
      expect(await session(db)).toMatchObject({ state: "open", node: "a", openings: 1 });
      expect([await open(db, "b"), await open(db, "a")]).toEqual([0, 2]);
      const row = await session(db);
      await db.tx((q) => loseSession(q, row, "socket"));
      await db.tx((q) => reclaimSessions(q, "a"));
      expect((await session(db)).state).toBe("lost");
    });

    it("loses every call at a start, and pins nothing", async () => {
      const db = await withCall(newDatabase);
      expect(await db.tx(loseSessions)).toBe(1);
      expect(await session(db)).toMatchObject({ state: "lost", reason: "restarted" });
      expect(await db.tx(loseSessions)).toBe(0);
      expect(await open(db, "new")).toBe(2);
    });

    it("ends what stays lost, and forgets processes that are long gone", async () => {
      const db = await withCall(newDatabase);
      const hops: Hop[] = [];
      db.observe((report) => void hops.push(...report.hops));
      await db.tx(async (q) => {
        await loseSessions(q);
        await endLost(q, minute);
        await takeLease(q, nodeLease("a"), "a", minute);
        await takeLease(q, "c", "a", minute);
        await forgetNodes(q, day);
      });
      expect([(await session(db)).state, hops]).toEqual(["lost", []]);
      await db.tx(async (q) => {
        await q.run("UPDATE sessions SET lost_at = lost_at - 61000");
        await q.run("UPDATE leases SET until = 0");
        await endLost(q, minute);
        await forgetNodes(q, day);
      });
      expect((await session(db)).state).toBe("closed");
      await db.tx((q) => endLost(q, minute));
      expect(hops).toMatchObject([{ name: "call", channel: "c", session: "s", state: "closed", code: "lost" }]);
      expect(await db.read((q) => q.all("SELECT name FROM leases"))).toEqual([{ name: "c" }]);
    });

    it("drops a waiting answer, or the rest of a started one", async () => {
      const db = await withCall(newDatabase);
      await db.tx(async (q) => {
        await draft(q, "e", "k");
        await q.run("UPDATE drafts SET session = 's', reply = 'rd'");
        await dropRest(q, s);
      });
      expect(await db.read((q) => stateOf(q, "drafts", "e"))).toBe("queued");
      await db.tx(async (q) => {
        await q.run("UPDATE drafts SET state = 'sent', open = 0 WHERE id = 'd'");
        await draft(q, "f", "k");
        await q.run("UPDATE drafts SET session = 's'");
        await dropRest(q, s);
      });
      const states = () => db.read((q) => Promise.all(["d", "e", "f"].map((id) => stateOf(q, "drafts", id))));
      expect(await states()).toEqual(["sent", "dropped", "queued"]);
      await db.tx((q) => dropDrafts(q, { ...s, id: "another" }));
      expect(await states()).toEqual(["sent", "dropped", "queued"]);
      await db.tx((q) => dropDrafts(q, s));
      expect(await states()).toEqual(["sent", "dropped", "dropped"]);
      expect(await db.read((q) => dueChannels(q, "drafts", "a"))).toEqual([]);
    });

    it("deletes the played text, and the text of dropped questions", async () => {
      const db = await withCall(newDatabase);
      const row = await session(db);
      await db.tx(async (q) => {
        await q.run("UPDATE drafts SET state = 'sent', open = 0");
        await recordHeard(q, row, "tex", null);
        await q.run("UPDATE turns SET state = 'dropped', open = 0, received_at = received_at - 61000");
        await q.run("UPDATE drafts SET updated_at = updated_at - 61000");
        await q.run("UPDATE replies SET state = 'composed', created_at = created_at - 61000");
      });
      expect(await db.read((q) => q.one("SELECT heard FROM drafts"))).toEqual({ heard: "tex" });
      await db.tx((q) => forget(q, { rawMs: minute, eventsMs: minute }, standardTiming.upkeep.retentionRecheck));
      expect(await db.read((q) => q.one("SELECT heard FROM drafts"))).toEqual({ heard: null });
      expect(await db.read((q) => q.one("SELECT question FROM turns"))).toEqual({ question: "" });
    });

    it("counts the living", async () => {
      const db = await withCall(newDatabase);
      const counted = async () => (await db.read(overview)).find(({ channel }) => channel === "c")?.sessions;
      expect(await counted()).toEqual({ open: 1 });
      const row = await session(db);
      await db.tx((q) => loseSession(q, row, null));
      expect(await counted()).toEqual({ lost: 1 });
      await db.tx((q) => closeSession(q, row, over));
      expect(await counted()).toEqual({});
    });
  });
});
