// Retention keeps what is not finished, and the record of erasures.

import { expect, it } from "vitest";
import { standardTiming } from "../../src/ops/timing.ts";
import { listEvents, releaseEvent } from "../../src/store/operators/inbox.ts";
import { erasureAction, recordErasure } from "../../src/store/person/ledger.ts";
import { forget } from "../../src/store/retention.ts";
import { recordOutcome, recordOutcomesOf } from "../../src/store/tables/events.ts";
import {
  concludeTurn,
  conversation,
  draft,
  fresh,
  onEachDatabase,
  storeEvent,
  turn,
} from "../support/store/databases.ts";

const day = 86_400_000;

onEachDatabase((newDatabase) => {
  it("keeps the record of an erasure, for the restore of an older backup, and no other action", async () => {
    const db = await fresh(newDatabase);
    const nobody = { addresses: ["a@example.org"], conversations: [], events: [], platform: [], probable: [] };
    await db.tx(async (q) => {
      await recordErasure(q, nobody, { actor: "dora", deleted: [] });
      for (const channel of ["", "c"])
        await q.run("INSERT INTO actions (action, actor, channel, made_at) VALUES ('drop', 'dora', $1, 1)", channel);
      await q.run("UPDATE actions SET made_at = now_ms() - $1", 3 * day);
    });
    const rules = { rawMs: day, eventsMs: day };
    expect(await db.tx((q) => forget(q, rules, standardTiming.upkeep.retentionRecheck))).toMatchObject({ actions: 2 });
    expect(await db.read((q) => q.all("SELECT action FROM actions"))).toEqual([{ action: erasureAction }]);
  });

  it("keeps a message while its question waits, so that an operator can release it", async () => {
    const db = await fresh(newDatabase);
    const blob = { id: "b", bytes: Buffer.from("b") };
    const attachment = { name: "a.txt", mediaType: "text/plain", size: 1, blob, ref: null, named: true };
    const id = await db.tx(async (q) => {
      await conversation(q, "k");
      await turn(q, "t", "k");
      const stored = await storeEvent(q, "1", { raw: blob, attachments: [attachment] });
      await recordOutcome(q, stored, { state: "routed", conversation: "k", turn: "t" });
      await q.run("UPDATE events SET received_at = received_at - $1", 3 * day);
      await q.run("UPDATE turns SET received_at = received_at - $1", 3 * day);
      return stored;
    });
    const forgotten = () =>
      db.tx((q) => forget(q, { rawMs: day, eventsMs: day }, standardTiming.upkeep.retentionRecheck));
    expect(await forgotten()).toMatchObject({ raw: 0, attachments: 0, events: 0, turns: 0 });
    // The end of a long pause: it is too old to be asked.
    await db.tx(async (q) => {
      await concludeTurn(q, "t", { state: "failed", open: 0 });
      await recordOutcomesOf(q, "t", { state: "held", code: "too-old", reason: "old" });
    });
    expect(await forgotten()).toMatchObject({ raw: 0, attachments: 0, events: 0, turns: 0 });
    await db.tx((q) => releaseEvent(q, id));
    const { events } = await db.read((q) => listEvents(q, { state: "waiting", limit: 10 }));
    expect(events).toMatchObject([{ id, sender: "a@example.org" }]);
    await db.tx((q) => concludeTurn(q, "t", { state: "answered", open: 0 }));
    expect(await forgotten()).toMatchObject({ raw: 1, attachments: 1, events: 1, turns: 1 });
  });

  it("keeps a reply that is not composed, with its question, and one whose drafts are open or young", async () => {
    const db = await fresh(newDatabase, async (q) => {
      for (const id of ["blocks", "old", "ready", "resent"]) {
        await conversation(q, id);
        await turn(q, id, id);
        await draft(q, id, id);
      }
      await q.run("UPDATE turns SET state = 'answered', open = 0, received_at = received_at - $1", 3 * day);
      await q.run("UPDATE replies SET turn = conversation, state = 'composed', created_at = created_at - $1", 3 * day);
      await q.run("UPDATE drafts SET state = 'sent', open = 0, updated_at = updated_at - $1", 3 * day);
      await q.run("UPDATE drafts SET state = 'failed', open = 1 WHERE id = 'blocks'");
      await q.run("UPDATE drafts SET updated_at = now_ms() WHERE id = 'resent'");
      await q.run("DELETE FROM drafts WHERE id = 'ready'");
      await q.run("UPDATE replies SET state = 'ready' WHERE id = 'rready'");
    });
    const rules = { rawMs: day, eventsMs: day };
    const forgotten = await db.tx((q) => forget(q, rules, standardTiming.upkeep.retentionRecheck));
    expect(forgotten).toMatchObject({ turns: 3, replies: 1 });
    const kept = (table: string, column: string) =>
      db.read((q) => q.all(`SELECT id FROM ${table} WHERE ${column} <> '' ORDER BY id`));
    expect(await kept("turns", "question")).toEqual([{ id: "ready" }]);
    expect(await kept("replies", "text")).toEqual([{ id: "rblocks" }, { id: "rready" }, { id: "rresent" }]);
  });

  // Events include delivery receipts, so a batch erases questions and replies earlier than their messages.
  it.each(["question", "reply"])("releases no message whose %s was erased in an earlier batch", async (erased) => {
    const db = await fresh(newDatabase);
    const id = await db.tx(async (q) => {
      for (let receipt = 0; receipt < 200; receipt += 1)
        await storeEvent(q, `receipt ${receipt}`, { kind: "delivery" });
      await q.run("UPDATE events SET state = 'routed', received_at = received_at - $1", 4 * day);
      await conversation(q, "k");
      await turn(q, "t", "k");
      const stored = await storeEvent(q, "1");
      await recordOutcome(q, stored, { state: "routed", conversation: "k", turn: "t" });
      if (erased === "question") {
        await concludeTurn(q, "t", { state: "silent", open: 0 });
        await recordOutcomesOf(q, "t", { state: "ignored", code: "no-answer", reason: "silent" });
      } else {
        await draft(q, "d", "k");
        await q.run("DELETE FROM drafts");
        await q.run("UPDATE replies SET turn = 't', state = 'failed', created_at = created_at - $1", 3 * day);
        await concludeTurn(q, "t", { state: "answered", open: 0 });
        await recordOutcomesOf(q, "t", { state: "failed", code: "compose", reason: "too long" });
        await q.run("UPDATE turns SET received_at = received_at + $1", 9 * day);
      }
      await q.run("UPDATE events SET received_at = received_at - $1 WHERE id = $2", 3 * day, stored);
      await q.run("UPDATE turns SET received_at = received_at - $1", 3 * day);
      return stored;
    });
    const forgotten = await db.tx((q) =>
      forget(q, { rawMs: day, eventsMs: day }, standardTiming.upkeep.retentionRecheck),
    );
    expect(forgotten).toMatchObject({
      events: 200,
      turns: erased === "question" ? 1 : 0,
      replies: erased === "reply" ? 1 : 0,
    });
    await expect(db.tx((q) => releaseEvent(q, id))).rejects.toThrow("its text was erased (retention)");
  });
});
