// Retention of closed escalations: texts, names and addresses are erased, and the keys for deduplication are kept.

import { describe, expect, it } from "vitest";
import { bindTargets, endNotifications } from "../../src/escalation/notify/rows.ts";
import { acknowledgeEscalation, citedTargets } from "../../src/escalation/reply/rows.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Database } from "../../src/store/driver.ts";
import { lockLane, refreshLane } from "../../src/store/lanes.ts";
import { migrate } from "../../src/store/migrate.ts";
import { releaseEvent } from "../../src/store/operators/inbox.ts";
import { erasePerson } from "../../src/store/person/erase.ts";
import { findPerson } from "../../src/store/person/find.ts";
import { forget } from "../../src/store/retention.ts";
import { cite, schedulePoll } from "../../src/store/tables/conversations.ts";
import { closeEscalation, escalationByNumber, isTriggered } from "../../src/store/tables/escalations.ts";
import { ensureChannel, recordOutcome } from "../../src/store/tables/events.ts";
import { giveLinks } from "../../src/store/tables/responders.ts";
import {
  addParticipant,
  addTrigger,
  concludeDraft,
  concludeTurn,
  contact,
  conversation,
  draft,
  fresh,
  type NewDatabase,
  notice,
  onEachDatabase,
  opens,
  storeEvent,
  turn,
} from "../support/store/databases.ts";

const day = 86_400_000;
const clean = (db: Database) =>
  db.tx((q) => forget(q, { rawMs: day, eventsMs: 2 * day }, standardTiming.upkeep.retentionRecheck));

/** Everything there is lies so many days back. */
async function ages(db: Database, days: number): Promise<void> {
  await db.tx(async (q) => {
    const ms = days * day;
    await q.run("UPDATE escalations SET opened_at = opened_at - $1, closed_at = closed_at - $1", ms);
    await q.run("UPDATE replies SET state = 'composed', created_at = created_at - $1", ms);
    await q.run("UPDATE drafts SET state = 'sent', open = 0, updated_at = updated_at - $1", ms);
    await q.run("UPDATE conversations SET seen_at = seen_at - $1", ms);
    await q.run("UPDATE platform_webhooks SET received_at = received_at - $1", ms);
  });
}

/** Escalation `e` about the customer's conversation `k`; Dora and Emil were notified in `to-dora` and `to-emil`. */
async function withEscalation(newDatabase: NewDatabase): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    await conversation(q, "k");
    await addParticipant(q, "k", "a@example.org");
    await schedulePoll(q, { id: "k", channel: "c" }, day);
    await opens(q, "e", {
      about: "conversation:k",
      conversation: "k",
      reason: "Anna wants a refund",
      topic: "refund",
    });
    await addTrigger(q, { key: "mode:k:1", escalation: "e", source: "mode", detail: "Anna's words" });
    for (const id of ["dora", "emil"]) {
      await conversation(q, `to-${id}`);
      await contact(q, id, "e");
      await bindTargets(q, [{ target: id, conversation: `to-${id}` }]);
      await giveLinks(q, [{ target: id, link: `hash-${id}` }], day);
      await notice(q, `n-${id}`, id);
      await draft(q, `d-${id}`, `to-${id}`);
      await endNotifications(q, [`n-${id}`], `rd-${id}`);
      await cite(q, "c", `<${id}>`, `to-${id}`, `d-${id}`);
    }
    await q.run(
      `INSERT INTO notifications (id, target, kind, subject, text, due_at, made_at)
       VALUES ('acknowledged', 'emil', 'acknowledged', 'Dora Dahl', 'Dora Dahl has it', now_ms(), now_ms())`,
    );
    await acknowledgeEscalation(q, "e", { name: "Dora Dahl", target: "dora" });
  });
  return db;
}

/** Every word of the new tables. */
const words = (db: Database): Promise<string> =>
  db.read(async (q) =>
    JSON.stringify([
      await q.all("SELECT * FROM escalations"),
      await q.all("SELECT * FROM triggers"),
      await q.all("SELECT * FROM notification_targets"),
      await q.all("SELECT * FROM notifications"),
    ]),
  );
const names = /Anna|Dora|Dahl|Name|example\.org|hash-|"person":"(dora|emil)"/;

onEachDatabase((newDatabase) => {
  describe("escalations are forgotten", () => {
    it("erases by the age of the channel, notices to responders by the strictest, and nothing unfinished", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await ensureChannel(q, "strict");
        for (const channel of ["c", "strict"]) {
          const of = (name: string) => `${name}-${channel}`;
          for (const kind of ["done", "open"]) {
            const k = await conversation(q, of(kind), channel);
            const id = await storeEvent(q, of(kind), { channel });
            await turn(q, `t${k}`, k, { channel, receivedAt: Date.now() - 3 * day });
            await draft(q, `d${k}`, k, 0, channel);
            if (kind === "open") continue;
            await recordOutcome(q, id, { state: "routed", turn: `t${k}` });
            await concludeTurn(q, `t${k}`, { state: "answered", open: 0 });
            await concludeDraft(q, `d${k}`, { state: "sent", open: 0 });
          }
          await storeEvent(q, of("held"), { channel });
          await q.run("UPDATE events SET state = 'held' WHERE external_id = $1", of("held"));
          await draft(q, of("held"), await conversation(q, of("held"), channel), 0, channel);
          await concludeDraft(q, of("held"), { state: "held", open: 0, code: "shadow" });
        }
        await conversation(q, "responder");
        await draft(q, "notice", "responder");
        await concludeDraft(q, "notice", { state: "sent", open: 0 });
        await q.run("UPDATE drafts SET internal = 1 WHERE id = 'notice'");
        await q.run("UPDATE replies SET internal = 1 WHERE id = 'rnotice'");
        await q.run("UPDATE events SET received_at = received_at - $1", 3 * day);
        await q.run("UPDATE replies SET state = 'composed', created_at = created_at - $1", 3 * day);
        await q.run("UPDATE drafts SET updated_at = updated_at - $1", 3 * day);
        await q.run("UPDATE conversations SET seen_at = seen_at - $1", 3 * day);
      });
      const long = { rawMs: 9 * day, eventsMs: 9 * day, peopleMs: 9 * day };
      const short = { rawMs: day, eventsMs: 2 * day, peopleMs: 2 * day };
      const rules = { ...long, channels: new Map([["strict", short]]) };
      for (let n = 0; n < 3; n++) await db.tx((q) => forget(q, rules, standardTiming.upkeep.retentionRecheck));
      const kept = await db.read(async (q) => {
        const ids = async (sql: string) => (await q.all<{ id: string }>(sql)).map(({ id }) => id);
        return {
          events: await ids("SELECT external_id AS id FROM events WHERE body <> '{}' ORDER BY external_id"),
          turns: await ids("SELECT id FROM turns WHERE question <> '' ORDER BY id"),
          drafts: await ids("SELECT id FROM drafts WHERE body <> '' ORDER BY id"),
          people: await ids("SELECT id FROM conversations WHERE person <> '' ORDER BY id"),
        };
      });
      expect(kept).toEqual({
        events: ["done-c", "held-c", "held-strict", "open-c", "open-strict"],
        turns: ["tdone-c", "topen-c", "topen-strict"],
        drafts: ["ddone-c", "dopen-c", "dopen-strict", "held-c", "held-strict"],
        people: ["done-c", "held-c", "held-strict", "open-c", "open-strict", "responder"],
      });
    });

    it("keeps the question of a held message, and an erased one is not asked again", async () => {
      const db = await fresh(newDatabase);
      const [held, failed] = await db.tx(async (q) => {
        await conversation(q, "k");
        const ids: number[] = [];
        for (const state of ["held", "failed"] as const) {
          const id = await storeEvent(q, state);
          await turn(q, state, "k");
          await recordOutcome(q, id, { state: "routed", turn: state });
          await recordOutcome(q, id, { state, code: "too-old" });
          await concludeTurn(q, state, { state: "failed", open: 0 });
          ids.push(id);
        }
        await q.run("UPDATE events SET received_at = received_at - $1", 3 * day);
        await q.run("UPDATE turns SET received_at = received_at - $1", 3 * day);
        await q.run("UPDATE conversations SET seen_at = seen_at - $1", 3 * day);
        return ids;
      });
      expect(await clean(db)).toMatchObject({ events: 1, turns: 1 });
      await clean(db);
      expect(await db.read((q) => q.all("SELECT id, question, address FROM turns ORDER BY id"))).toEqual([
        { id: "failed", question: "", address: "{}" },
        { id: "held", question: "question held", address: '{"to":[]}' },
      ]);
      await expect(db.tx((q) => releaseEvent(q, failed ?? 0))).rejects.toThrow("its text was erased");
      await db.tx((q) => releaseEvent(q, held ?? 0));
      expect(await db.read((q) => q.all("SELECT id, state FROM turns ORDER BY id"))).toEqual([
        { id: "failed", state: "failed" },
        { id: "held", state: "waiting" },
      ]);
    });

    it("when they have been closed for long enough, and not sooner", async () => {
      const db = await withEscalation(newDatabase);
      await ages(db, 3);
      expect(await clean(db)).toMatchObject({ escalations: 0 });
      await db.tx((q) => closeEscalation(q, "e", "Dora Dahl"));
      expect(await clean(db)).toMatchObject({ escalations: 0 });
      expect(await words(db)).toMatch(names);
      await ages(db, 3);
      expect(await clean(db)).toMatchObject({ escalations: 1 });
      expect(await clean(db)).toMatchObject({ escalations: 0 });
      expect(await words(db)).not.toMatch(names);
    });

    it("but not their existence, the triggers, nor which of our messages were notifications", async () => {
      const db = await withEscalation(newDatabase);
      await db.tx((q) => closeEscalation(q, "e", "Dora Dahl"));
      await ages(db, 3);
      await clean(db);
      expect(await db.read((q) => escalationByNumber(q, 1))).toMatchObject({
        id: "e",
        number: 1,
        state: "closed",
        cause: "cap",
        topic: "refund",
        reason: "",
        acknowledged_by: null,
        closed_by: null,
        due_at: null,
      });
      expect(await db.read((q) => isTriggered(q, "mode:k:1"))).toBe(true);
      expect(await db.tx((q) => addTrigger(q, { key: "mode:k:1", escalation: "e", source: "mode", detail: "x" }))).toBe(
        false,
      );
      for (const id of ["dora", "emil"]) {
        const cited = { answers: [`<${id}>`], tokens: [], number: null, sender: "other", closedMs: 0 };
        expect((await db.read((q) => citedTargets(q, "c", cited))).targets).toMatchObject([
          { by: "notification", target: { id, name: "", address: id } },
        ]);
        const own = { ...cited, answers: [], tokens: [`tokento-${id}`] };
        expect((await db.read((q) => citedTargets(q, "c", own))).targets).toMatchObject([
          { by: "thread", target: { id } },
        ]);
      }
      expect(await db.tx((q) => opens(q, "next", { about: "conversation:k", conversation: "k" }))).toMatchObject({
        number: 2,
      });
    });

    it("and with them their subjects and recipients; never while they are open", async () => {
      const db = await withEscalation(newDatabase);
      await ages(db, 3);
      await clean(db);
      const people = async () =>
        (
          await db.read((q) => q.all<{ id: string }>("SELECT id FROM conversations WHERE person <> '' ORDER BY id"))
        ).map(({ id }) => id);
      expect(await people()).toEqual(["k", "to-dora", "to-emil"]);
      await db.tx((q) => closeEscalation(q, "e", "Dora Dahl"));
      await ages(db, 3);
      await clean(db);
      expect(await people()).toEqual([]);
      expect(await db.read((q) => q.all("SELECT conversation FROM polls"))).toEqual([]);
      expect(await db.read((q) => q.all("SELECT conversation FROM participants"))).toEqual([]);
    });

    it("in bounded batches until nothing is left", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let n = 0; n < 250; n++) {
          await opens(q, `e${n}`, { reason: "" });
          await closeEscalation(q, `e${n}`, "Dora");
        }
      });
      await ages(db, 3);
      const counts = [await clean(db), await clean(db), await clean(db)].map(({ escalations }) => escalations);
      expect(counts).toEqual([200, 50, 0]);
    });
  });

  describe("deliveries of the platform's webhooks are forgotten", () => {
    it("when nothing is left to do with them; each is still known", async () => {
      const db = await fresh(newDatabase);
      await db.tx((q) =>
        q.run(
          `INSERT INTO platform_webhooks (agent, id, kind, body, state, received_at) VALUES
           ('agent', 'done', 'escalation', 'words of done', 'done', now_ms()),
           ('agent', 'lost', 'escalation', 'words of lost', 'lost', now_ms()),
           ('agent', 'waiting', 'escalation', 'words of waiting', 'stored', now_ms())`,
        ),
      );
      expect(await clean(db)).toMatchObject({ platformWebhooks: 0 });
      await ages(db, 3);
      expect(await clean(db)).toMatchObject({ platformWebhooks: 2 });
      expect(await clean(db)).toMatchObject({ platformWebhooks: 0 });
      expect(await db.read((q) => q.all("SELECT id, body FROM platform_webhooks ORDER BY id"))).toEqual([
        { id: "done", body: "" },
        { id: "lost", body: "" },
        { id: "waiting", body: "words of waiting" },
      ]);
    });

    it("lets the daemon write between the parts of an erasure, and waits for its transactions", async () => {
      const where = await newDatabase();
      const [db, daemon] = [await where.open(), await where.open()];
      await migrate(db);
      await db.tx(async (q) => {
        await ensureChannel(q, "c");
        for (let n = 0; n < 20; n++) {
          await conversation(q, `k${n}`, "c", n % 2 === 0 ? "anna@example.org" : "bob@example.org");
          await draft(q, `d${n}`, `k${n}`);
        }
      });
      const records = await db.read((q) => findPerson(q, ["anna@example.org"]));
      let [isErasing, between] = [true, 0];
      const written: Promise<void>[] = [];
      // As the daemon does: the lane first, then the draft. Both of the person and of others.
      const write = async (n: number) => {
        await daemon.tx(async (q) => {
          await lockLane(q, `k${n}`, "out");
          await q.run("UPDATE drafts SET lookups = lookups + 1 WHERE id = $1", `d${n}`);
          await refreshLane(q, `k${n}`, "out");
        });
        if (isErasing) between += 1;
      };
      let part = 0;
      const done = () => {
        part += 1;
        written.push(write(part), write(19 - part));
      };
      const erased = await erasePerson(db, records, done, standardTiming);
      isErasing = false;
      await Promise.all(written);
      expect([erased.rows.conversations, between > 0]).toEqual([10, true]);
      const left = await db.read((q) => q.all("SELECT id FROM drafts WHERE recipient = 'anna@example.org'"));
      expect(left).toEqual([]);
      const looked = await db.read((q) => q.one("SELECT SUM(lookups) AS lookups FROM drafts"));
      expect(looked).toEqual({ lookups: written.length });
    });
  });
});
