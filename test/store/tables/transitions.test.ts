// Changes of state: a transition that domain/states.ts does not list is not written.

import { describe, expect, it } from "vitest";
import { insertSession } from "../../../src/calls/rows.ts";
import { machines } from "../../../src/domain/states.ts";
import { insertPlatformWebhook } from "../../../src/escalation/platform-webhook/rows.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { changeDraft, changeReply } from "../../../src/store/tables/drafts.ts";
import { recordOutcome, recordOutcomesOf } from "../../../src/store/tables/events.ts";
import { changeTurn } from "../../../src/store/tables/turns.ts";
import { moves, movesToAny, stateWhere, type Table, TransitionRefused } from "../../../src/store/transitions.ts";
import {
  conversation,
  draft,
  event,
  fresh,
  insertEscalation,
  type NewDatabase,
  onEachDatabase,
  put,
  storeEvent,
  turn,
} from "../../support/store/databases.ts";

const tables = Object.keys(machines) as Table[];

/** A store with one row in each table; their ids. */
async function withRows(newDatabase: NewDatabase): Promise<{ db: Database; ids: Record<Table, string> }> {
  const db = await fresh(newDatabase);
  const ids = await db.tx(async (q) => {
    await conversation(q, "k");
    await turn(q, "t", "k");
    await draft(q, "d", "k");
    const about = { id: "e", about: "conversation:k", conversation: "k", channel: "c", agent: "a" };
    await insertEscalation(q, { ...about, cause: "topic", topic: null, reason: "r" });
    await insertSession(q, { channel: "c", id: "s", conversation: "k", node: "n" });
    const stored = String(await storeEvent(q, "1"));
    await insertPlatformWebhook(q, { agent: "a", id: "w", kind: "message", body: "{}" }, null);
    const others = { escalations: "e", sessions: "s", platform_webhooks: "w" };
    return { events: stored, turns: "t", replies: "rd", drafts: "d", ...others };
  });
  return { db, ids };
}

const stateIn = async (q: Query, table: Table, id: string): Promise<string | undefined> =>
  (await q.one<{ state: string }>(`SELECT state FROM ${table} WHERE id = $1`, id))?.state;

onEachDatabase((newDatabase) => {
  describe("transitions", () => {
    it.each(tables)("of %s are written when they are listed, and only then", async (table) => {
      const { db, ids } = await withRows(newDatabase);
      const machine: Readonly<Record<string, readonly string[]>> = machines[table];
      const updates: Readonly<Record<string, string>> = movesToAny(table, { where: "id = $1" });
      await db.tx(async (q) => {
        for (const [from, followers] of Object.entries(machine))
          for (const [to, update] of Object.entries(updates)) {
            await put(q, table, ids[table], `state = '${from}'`);
            const changed = await q.run(update, ids[table]);
            const listed = followers.includes(to);
            expect([from, to, changed], `${from} -> ${to}`).toEqual([from, to, listed ? 1 : 0]);
            expect(await stateIn(q, table, ids[table])).toBe(listed ? to : from);
          }
      });
    });

    it("throw where a row of the pipeline may not change, and nothing of the transaction is written", async () => {
      const { db, ids } = await withRows(newDatabase);
      await db.tx(async (q) => {
        await put(q, "turns", "t", "state = 'answered'");
        await put(q, "replies", "rd", "state = 'composed'");
        await put(q, "drafts", "d", "state = 'delivered'");
        await put(q, "events", ids.events, "state = 'routed'");
      });
      const row = await db.read((q) => q.one("SELECT * FROM drafts WHERE id = 'd'"));
      const refused: readonly ((q: Query) => Promise<unknown>)[] = [
        (q) => changeTurn(q, "t", { state: "waiting", open: 1 }),
        (q) => changeReply(q, "rd", "failed", "r"),
        (q) => changeDraft(q, "d", { state: "queued", open: 1 }),
        (q) => recordOutcome(q, Number(ids.events), { state: "stored" }),
        (q) => changeDraft(q, "no such draft", { state: "sent", open: 0 }),
      ];
      for (const write of refused)
        await expect(
          db.tx(async (q) => {
            await put(q, "conversations", "k", "subject = 'written'");
            await write(q);
          }),
        ).rejects.toThrow(TransitionRefused);
      expect(await db.read((q) => q.one("SELECT * FROM drafts WHERE id = 'd'"))).toEqual(row);
      expect(await db.read((q) => q.one("SELECT subject FROM conversations"))).not.toEqual({
        subject: "written",
      });
      expect(await db.read((q) => q.all("SELECT * FROM attempts"))).toEqual([]);
    });

    it("skip the messages of a turn that may not change, and change the others", async () => {
      const { db, ids } = await withRows(newDatabase);
      await db.tx(async (q) => {
        const other = await storeEvent(q, "2");
        await put(q, "events", ids.events, "state = 'held', turn = 't'");
        await put(q, "events", String(other), "state = 'routed', turn = 't'");
        await recordOutcomesOf(q, "t", { state: "failed", code: "x", reason: null });
        const rows = await q.all("SELECT state, code FROM events ORDER BY id");
        expect(rows).toEqual([
          { state: "held", code: null },
          { state: "failed", code: "x" },
        ]);
      });
    });

    it("leave a state next to other assignments as it is", async () => {
      const { db, ids } = await withRows(newDatabase);
      const update = `UPDATE events SET attempts = attempts + 1, ${stateWhere("events", "failed")} WHERE id = $1`;
      await db.tx(async (q) => {
        for (const [from, to] of [
          ["stored", "failed"],
          ["held", "held"],
        ]) {
          await put(q, "events", ids.events, `state = '${from}', attempts = 0`);
          await q.run(update, ids.events);
          expect(await q.one("SELECT state, attempts FROM events")).toEqual({ state: to, attempts: 1 });
        }
      });
    });

    it("to a state that follows no other are a defect of the statement", () => {
      expect(() => moves("events", event("1").kind as never, { where: "id = $1" })).toThrow(
        "message follows no state of events",
      );
    });
  });
});
