// Repair of many messages and replies: what a selection matches, what becomes of it, and what is left alone.

import { describe, expect, it, vi } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { leaseDrafts, recordSending } from "../../../src/pipeline/send/rows.ts";
import type { Database } from "../../../src/store/driver.ts";
import { refreshLane } from "../../../src/store/lanes.ts";
import { dropDraft } from "../../../src/store/operators/outbox.ts";
import {
  besideDaemon,
  previewRepair,
  type Repair,
  repair,
  type Selection,
} from "../../../src/store/operators/repair.ts";
import { ensureChannel, recordOutcome } from "../../../src/store/tables/events.ts";
import { pauseChannel } from "../../../src/store/tables/pauses.ts";
import {
  conversation,
  draft,
  fresh,
  type NewDatabase,
  onEachDatabase,
  put,
  storeEvent,
  turn,
} from "../../support/store/databases.ts";

const operator = { actor: "op", reason: "tidying up" };

/** Drafts `d0` ... of conversation `k` in channel `c`, and `o` in channel `other`, held with codes. */
async function withDrafts(newDatabase: NewDatabase, codes: readonly string[]): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    await ensureChannel(q, "other");
    await conversation(q, "k");
    await conversation(q, "ko", "other");
    for (const [at, code] of codes.entries()) {
      await draft(q, `d${at}`, "k");
      await put(q, "drafts", `d${at}`, `state = 'held', open = 0, code = '${code}'`);
    }
    await draft(q, "o", "ko", 0, "other");
    await put(q, "drafts", "o", "state = 'failed', open = 0, code = 'shadow'");
  });
  return db;
}

const drafts = (db: Database) =>
  db.read((q) =>
    q.all<{ id: string; state: string; code: string | null; reason: string | null }>(
      "SELECT id, state, code, reason FROM drafts ORDER BY id",
    ),
  );
const states = async (db: Database) => (await drafts(db)).map(({ state }) => state);
const outbox = (db: Database, action: Repair, selection: Selection) =>
  repair(besideDaemon(db), "outbox", action, selection, operator);

onEachDatabase((newDatabase) => {
  describe("repair", () => {
    it("counts what it would change, and changes nothing", async () => {
      const db = await withDrafts(newDatabase, ["shadow", "shadow", "too-old"]);
      const before = await drafts(db);
      expect(await previewRepair(db, "outbox", "retry", { code: "shadow" })).toEqual([
        { channel: "c", state: "held", code: "shadow", count: 2 },
        { channel: "other", state: "failed", code: "shadow", count: 1 },
      ]);
      expect(await previewRepair(db, "outbox", "release", { code: "shadow" })).toHaveLength(1);
      expect(await previewRepair(db, "outbox", "drop", { channel: "c" })).toHaveLength(2);
      expect(await previewRepair(db, "outbox", "drop", { ids: ["o", "none"] })).toMatchObject([
        { channel: "other", count: 1 },
        { state: "missing", count: 1 },
      ]);
      expect(await drafts(db)).toEqual(before);
    });

    it("releases held drafts of one code, and retries failed ones too", async () => {
      const db = await withDrafts(newDatabase, ["shadow", "too-old", "shadow"]);
      const none = { skipped: [] };
      expect(await outbox(db, "release", { code: "shadow" })).toEqual({ matched: 2, changed: 2, ...none });
      expect(await states(db)).toEqual(["queued", "held", "queued", "failed"]);
      expect(await outbox(db, "retry", { code: "shadow" })).toEqual({ matched: 1, changed: 1, ...none });
      expect(await states(db)).toEqual(["queued", "held", "queued", "queued"]);
      expect(await outbox(db, "retry", { code: "shadow" })).toEqual({ matched: 0, changed: 0, ...none });
    });

    it("drops with the operator's reason, keeps the code, and records who did it", async () => {
      const db = await withDrafts(newDatabase, ["shadow", "too-old"]);
      await outbox(db, "drop", { code: "shadow", channel: "c" });
      expect(await drafts(db)).toMatchObject([
        { state: "dropped", code: "shadow", reason: "dropped by an operator: tidying up" },
        { state: "held" },
        { state: "failed" },
      ]);
      const [action] = await db.read((q) => q.all("SELECT action, actor, detail, draft FROM actions"));
      expect(action).toEqual({ action: "drop", actor: "op", detail: "tidying up", draft: "d0" });
    });

    it("works in several transactions, and reports what could not be changed without losing the rest", async () => {
      const db = await withDrafts(
        newDatabase,
        Array.from({ length: 120 }, () => "shadow"),
      );
      await db.tx((q) => put(q, "drafts", "d7", "body = ''"));
      const store = besideDaemon(db);
      const transactions = vi.spyOn(store, "commit");
      const counts = await repair(store, "outbox", "release", { code: "shadow" }, operator);
      expect(counts).toMatchObject({ matched: 120, changed: 119, skipped: [{ id: "d7" }] });
      expect(counts.skipped[0]?.why).toContain("retention");
      expect(transactions).toHaveBeenCalledTimes(3);
      const actions = await db.read((q) => q.all("SELECT id FROM actions"));
      expect(actions).toHaveLength(119);
    });

    it("releases the parts of a reply together, and drops them together", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        for (const id of ["a1", "a2", "b1", "b2"]) {
          await draft(q, id, "k");
          await put(q, "drafts", id, "state = 'held', open = 0, code = 'shadow'");
        }
        for (const id of ["a2", "b2"])
          await q.run("UPDATE drafts SET reply = $2, code = 'earlier-part' WHERE id = $1", id, `r${id[0]}1`);
      });
      await outbox(db, "release", { ids: ["a1"] });
      await outbox(db, "drop", { ids: ["b1"] });
      expect(await states(db)).toEqual(["queued", "queued", "dropped", "dropped"]);
      const released = await db.read((q) => q.all("SELECT released FROM drafts ORDER BY id"));
      expect(released).toEqual([1, 1, 0, 0].map((one) => ({ released: one })));
    });

    it("releases and drops the parts of replies in their order, with any ids", async () => {
      const db = await fresh(newDatabase);
      const parts = async (reply: string, ids: readonly string[]) =>
        db.tx(async (q) => {
          await conversation(q, reply);
          for (const id of ids) {
            await draft(q, id, reply);
            await put(q, "drafts", id, `state = 'held', open = 0, code = 'shadow', reply = 'r${ids[0]}'`);
          }
        });
      await parts("k1", ["z1", "m2", "a3"]);
      expect(await outbox(db, "release", { code: "shadow" })).toEqual({
        matched: 3,
        changed: 1,
        skipped: [],
      });
      const actions = await db.read((q) => q.all("SELECT draft FROM actions"));
      expect(actions).toEqual([{ draft: "z1" }]);
      expect(await states(db)).toEqual(["queued", "queued", "queued"]);
      await parts("k2", ["x1", "c2", "b3"]);
      await db.tx((q) => dropDraft(q, "x1"));
      expect((await drafts(db)).filter(({ state }) => state === "dropped").map(({ id }) => id)).toEqual([
        "b3",
        "c2",
        "x1",
      ]);
    });

    it("answers, releases and drops messages by their code; a copy is never answered", async () => {
      const db = await fresh(newDatabase);
      const settled = (name: string, state: "held" | "ignored" | "failed", code: string) =>
        db.tx(async (q) => {
          const id = await storeEvent(q, name, { body: '{"kind":"message","x":1}' });
          await recordOutcome(q, id, { state, code });
          return id;
        });
      const held = await settled("a", "held", "cap-sender");
      const failed = await settled("b", "failed", "cap-sender");
      const ignored = await settled("c", "ignored", "loop");
      const copy = await settled("d", "ignored", "duplicate");
      const inbox = (action: Repair, selection: Selection) =>
        repair(besideDaemon(db), "inbox", action, selection, operator);
      expect(await inbox("release", { code: "cap-sender" })).toMatchObject({ matched: 1, changed: 1 });
      expect(await inbox("drop", { code: "cap-sender" })).toMatchObject({ matched: 1, changed: 1 });
      expect(await inbox("retry", { code: "loop" })).toMatchObject({ matched: 1, changed: 1 });
      expect(await inbox("retry", { ids: [copy, 999] })).toMatchObject({
        changed: 0,
        skipped: [
          { id: String(copy), why: expect.stringContaining("copy") },
          { id: "999", why: expect.stringContaining("there is none") },
        ],
      });
      const rows = await db.read((q) =>
        q.all<{ id: number; state: string; reason: string | null }>("SELECT id, state, reason FROM events ORDER BY id"),
      );
      expect(rows).toEqual([
        { id: held, state: "stored", reason: null },
        { id: failed, state: "ignored", reason: "dropped by an operator: tidying up" },
        { id: ignored, state: "stored", reason: null },
        { id: copy, state: "ignored", reason: null },
      ]);
    });

    it("retries in one state only, and without one leaves alone what an operator has dropped", async () => {
      const db = await fresh(newDatabase);
      const ids = await db.tx(async (q) => {
        const found: number[] = [];
        for (const name of ["dropped", "refused", "held"]) {
          const id = await storeEvent(q, name, { body: '{"kind":"message","x":1}' });
          await recordOutcome(q, id, { state: name === "refused" ? "ignored" : "held", code: "cap-sender" });
          found.push(id);
        }
        return found;
      });
      const inbox = (action: Repair, selection: Selection) =>
        repair(besideDaemon(db), "inbox", action, selection, operator);
      await inbox("drop", { ids: ids.slice(0, 1) });
      const code = "cap-sender";
      expect(await inbox("retry", { code, states: ["held"] })).toMatchObject({ matched: 1, changed: 1 });
      expect(await inbox("retry", { code })).toMatchObject({ matched: 1, changed: 1 });
      expect(await inbox("retry", { code, states: ["ignored"] })).toMatchObject({ matched: 1, changed: 1 });
      expect(await inbox("drop", { code, states: ["ignored"] })).toMatchObject({ matched: 0 });
    });

    it("reports one hop for every item, also for parts of a reply that change with another part", async () => {
      const db = await withDrafts(newDatabase, ["shadow", "too-old"]);
      const hops: string[] = [];
      db.observe((report) => {
        for (const { name, draft: id, event, code } of report.hops) hops.push([name, id ?? event, code].join(" "));
      });
      await db.tx(async (q) => {
        await draft(q, "d9", "k");
        await put(q, "drafts", "d9", "state = 'held', open = 0, code = 'earlier-part', reply = 'rd0'");
      });
      await outbox(db, "release", { code: "shadow" });
      await outbox(db, "drop", { code: "too-old" });
      const id = await db.tx(async (q) => {
        const event = await storeEvent(q, "a", { body: '{"kind":"message","x":1}' });
        await recordOutcome(q, event, { state: "held", code: "cap-sender" });
        return event;
      });
      const inbox = (action: Repair) => repair(besideDaemon(db), "inbox", action, { code: "cap-sender" }, operator);
      await inbox("drop");
      await repair(besideDaemon(db), "inbox", "retry", { ids: [id] }, operator);
      expect(hops.filter((hop) => !hop.startsWith("received"))).toEqual([
        "replyReleased d0 ",
        "replyReleased d9 ",
        "dropped d1 operator",
        `held ${id} cap-sender`,
        `refused ${id} operator`,
        `released ${id} `,
      ]);
    });

    describe("send now", () => {
      const hour = 3_600_000;
      /** Drafts `d0` ... of conversation `k`, each due an hour later than the one before. */
      const withDelayed = async (many: number): Promise<Database> => {
        const db = await fresh(newDatabase, async (q) => {
          await conversation(q, "k");
          for (let n = 0; n < many; n++) await draft(q, `d${n}`, "k", (n + 1) * hour);
        });
        return db;
      };
      const waits = (db: Database) =>
        db.read((q) =>
          q.all<{ id: string; waits: number; released: number }>(
            "SELECT id, CASE WHEN due_at > now_ms() THEN 1 ELSE 0 END AS waits, released FROM drafts ORDER BY seq",
          ),
        );
      const claim = { channel: "c", holder: "n", leaseMs: 60_000, limit: 9, clock: systemClock };

      it("makes a delayed draft due with the earlier ones of its conversation, and records it", async () => {
        const db = await withDelayed(3);
        expect(await db.tx((q) => leaseDrafts(q, claim))).toEqual([]);
        expect(await outbox(db, "send-now", { ids: ["d1"] })).toEqual({
          matched: 1,
          changed: 1,
          skipped: [],
        });
        expect(await waits(db)).toEqual([
          { id: "d0", waits: 0, released: 0 },
          { id: "d1", waits: 0, released: 1 },
          { id: "d2", waits: 1, released: 0 },
        ]);
        expect(await db.read((q) => q.all("SELECT action, actor, draft FROM actions"))).toEqual([
          { action: "send-now", actor: "op", draft: "d1" },
        ]);
        const [first] = await db.tx((q) => leaseDrafts(q, claim));
        expect(first?.head?.id).toBe("d0");
      });

      it("includes the later parts of a reply, and counts a reply in parts once", async () => {
        const db = await withDelayed(3);
        await db.tx((q) => put(q, "drafts", "d1", "reply = 'rd0'"));
        const selection = { code: "queued" };
        expect(await outbox(db, "send-now", selection)).toEqual({ matched: 3, changed: 2, skipped: [] });
        expect((await waits(db)).filter((one) => one.waits === 1)).toEqual([]);
        expect(await outbox(db, "send-now", selection)).toMatchObject({ matched: 3, changed: 0 });
      });

      it("includes the earlier parts of a reply, and drops the later ones with the first", async () => {
        const db = await withDelayed(3);
        await db.tx((q) => put(q, "drafts", "d1", "reply = 'rd0'"));
        await outbox(db, "send-now", { ids: ["d1"] });
        expect((await waits(db)).map((one) => one.released)).toEqual([1, 1, 0]);
        await outbox(db, "drop", { ids: ["d0"] });
        const left = await db.read((q) => q.all("SELECT id FROM drafts WHERE state = 'queued'"));
        expect(left).toEqual([{ id: "d2" }]);
      });

      it.each(["failed", "unknown"])("refuses when an earlier draft is %s", async (state) => {
        const db = await withDelayed(2);
        await db.tx((q) => put(q, "drafts", "d0", `state = '${state}'`));
        const [skipped] = (await outbox(db, "send-now", { ids: ["d1"] })).skipped;
        expect(skipped?.why).toBe("the earlier draft d0 blocks its conversation");
      });

      it("changes nothing about a draft that is being sent, was sent, or is on a paused channel", async () => {
        const db = await withDelayed(2);
        await db.tx((q) => put(q, "drafts", "d0", "state = 'sending'"));
        const why = async (id: string) => (await outbox(db, "send-now", { ids: [id] })).skipped[0]?.why;
        expect(await why("d0")).toBe("it is sending");
        const pause = { channel: "c", code: "operator", reason: "r", event: null, forMs: null } as const;
        await db.tx((q) => pauseChannel(q, pause));
        expect(await why("d1")).toBe("its channel is paused (see resume)");
        expect(await why("none")).toBe("there is none (see outbox list)");
        expect((await waits(db)).map((one) => one.released)).toEqual([0, 0]);
      });

      it("sends a draft once that is claimed at the same time", async () => {
        const db = await withDelayed(1);
        await db.tx((q) => put(q, "drafts", "d0", "due_at = now_ms()"));
        await db.tx((q) => refreshLane(q, "k", "out"));
        const [held] = await db.tx((q) => leaseDrafts(q, claim));
        const head = held?.head;
        if (!held || !head) throw new Error("nothing was claimed");
        await outbox(db, "send-now", { ids: ["d0"] });
        expect(await db.tx((q) => leaseDrafts(q, { ...claim, holder: "other" }))).toEqual([]);
        expect(await db.tx((q) => recordSending(q, head, "n", held.lease.token))).toBe(true);
        expect((await outbox(db, "send-now", { ids: ["d0"] })).skipped).toHaveLength(1);
        expect(await db.tx((q) => recordSending(q, head, "n", held.lease.token))).toBe(false);
      });
    });

    it("lets later questions pass a dropped one that blocked its conversation", async () => {
      const db = await fresh(newDatabase);
      const id = await db.tx(async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k");
        await turn(q, "t2", "k");
        await put(q, "turns", "t1", "state = 'failed'");
        await q.run("UPDATE lanes SET due_at = NULL WHERE id = 'k/in'");
        const event = await storeEvent(q, "a");
        await recordOutcome(q, event, { state: "routed", turn: "t1" });
        await recordOutcome(q, event, { state: "failed", code: "not-asked" });
        return event;
      });
      await repair(besideDaemon(db), "inbox", "drop", { ids: [id] }, operator);
      const lane = await db.read((q) => q.one<{ due_at: number | null }>("SELECT due_at FROM lanes WHERE id = 'k/in'"));
      expect(lane?.due_at).not.toBeNull();
    });
  });
});
