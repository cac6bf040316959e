// Repair of many messages and replies: what a selection matches, what becomes of it, and what is left alone.

import { describe, expect, it } from "vitest";
import type { Database } from "../../src/store/driver.ts";
import { dropDraft } from "../../src/store/operators/outbox.ts";
import { previewRepair, type Repair, repair, type Selection } from "../../src/store/operators/repair.ts";
import { ensureChannel, settleEvent } from "../../src/store/tables/events.ts";
import {
  conversation,
  draft,
  fresh,
  type NewPlace,
  onEachDatabase,
  put,
  storeEvent,
  turn,
} from "../support/store/databases.ts";

const operator = { actor: "op", reason: "tidying up" };

/** Drafts `d0` ... of conversation `k` in channel `c`, and `o` in channel `other`, held with codes. */
async function withDrafts(place: NewPlace, codes: readonly string[]): Promise<Database> {
  const db = await fresh(place);
  await db.tx(async (q) => {
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
  repair(db, "outbox", action, selection, operator);

onEachDatabase((place) => {
  describe("repair", () => {
    it("counts what it would change, and changes nothing", async () => {
      const db = await withDrafts(place, ["shadow", "shadow", "too-old"]);
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
      const db = await withDrafts(place, ["shadow", "too-old", "shadow"]);
      const none = { skipped: [] };
      expect(await outbox(db, "release", { code: "shadow" })).toEqual({ matched: 2, changed: 2, ...none });
      expect(await states(db)).toEqual(["queued", "held", "queued", "failed"]);
      expect(await outbox(db, "retry", { code: "shadow" })).toEqual({ matched: 1, changed: 1, ...none });
      expect(await states(db)).toEqual(["queued", "held", "queued", "queued"]);
      expect(await outbox(db, "retry", { code: "shadow" })).toEqual({ matched: 0, changed: 0, ...none });
    });

    it("drops with the operator's reason, keeps the code, and records who did it", async () => {
      const db = await withDrafts(place, ["shadow", "too-old"]);
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
        place,
        Array.from({ length: 120 }, () => "shadow"),
      );
      await db.tx((q) => put(q, "drafts", "d7", "body = ''"));
      const steps: number[] = [];
      const counts = await repair(db, "outbox", "release", { code: "shadow" }, operator, (done) => {
        steps.push(done);
      });
      expect(counts).toMatchObject({ matched: 120, changed: 119, skipped: [{ id: "d7" }] });
      expect(counts.skipped[0]?.why).toContain("retention");
      expect(steps).toEqual([50, 100, 120]);
      const actions = await db.read((q) => q.all("SELECT id FROM actions"));
      expect(actions).toHaveLength(119);
    });

    it("releases the parts of a reply together, and drops them together", async () => {
      const db = await fresh(place);
      await db.tx(async (q) => {
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

    it("releases and drops the parts of replies in their order, whatever their ids are", async () => {
      const db = await fresh(place);
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
      const db = await fresh(place);
      const settled = (name: string, state: "held" | "ignored" | "failed", code: string) =>
        db.tx(async (q) => {
          const id = await storeEvent(q, name, { body: '{"kind":"message","x":1}' });
          await settleEvent(q, id, { state, code });
          return id;
        });
      const held = await settled("a", "held", "cap-sender");
      const failed = await settled("b", "failed", "cap-sender");
      const ignored = await settled("c", "ignored", "loop");
      const copy = await settled("d", "ignored", "duplicate");
      const inbox = (action: Repair, selection: Selection) =>
        repair(db, "inbox", action, selection, operator);
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
        q.all<{ id: number; state: string; reason: string | null }>(
          "SELECT id, state, reason FROM events ORDER BY id",
        ),
      );
      expect(rows).toEqual([
        { id: held, state: "stored", reason: null },
        { id: failed, state: "ignored", reason: "dropped by an operator: tidying up" },
        { id: ignored, state: "stored", reason: null },
        { id: copy, state: "ignored", reason: null },
      ]);
    });

    it("lets later questions pass a dropped one that blocked its conversation", async () => {
      const db = await fresh(place);
      const id = await db.tx(async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k");
        await turn(q, "t2", "k");
        await put(q, "turns", "t1", "state = 'failed'");
        await q.run("UPDATE lanes SET due_at = NULL WHERE id = 'k/in'");
        const event = await storeEvent(q, "a");
        await settleEvent(q, event, { state: "routed", turn: "t1" });
        await settleEvent(q, event, { state: "failed", code: "not-asked" });
        return event;
      });
      await repair(db, "inbox", "drop", { ids: [id] }, operator);
      const lane = await db.read((q) =>
        q.one<{ due_at: number | null }>("SELECT due_at FROM lanes WHERE id = 'k/in'"),
      );
      expect(lane?.due_at).not.toBeNull();
    });
  });
});
