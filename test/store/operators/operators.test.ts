// What operators, health and retention see and move.

import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { headDraft, recordSending } from "../../../src/pipeline/send/rows.ts";
import type { Database } from "../../../src/store/driver.ts";
import { refreshLane, releaseLane } from "../../../src/store/lanes.ts";
import { eventHistory } from "../../../src/store/operators/history.ts";
import { listEvents, readRaw, releaseEvent } from "../../../src/store/operators/inbox.ts";
import { dropDraft, listDrafts, resendDraft, showDraft } from "../../../src/store/operators/outbox.ts";
import { overview } from "../../../src/store/operators/overview.ts";
import { forget } from "../../../src/store/retention.ts";
import { readDraft } from "../../../src/store/tables/drafts.ts";
import { countHeld, recordOutcome, storedEvents } from "../../../src/store/tables/events.ts";
import { writePause } from "../../../src/store/tables/pauses.ts";
import { strike } from "../../../src/store/tables/suppressions.ts";
import { endAttempt } from "../../../src/store/tables/turns.ts";
import {
  addParticipant,
  concludeDraft,
  concludeReply,
  concludeTurn,
  conversation,
  draft,
  event,
  fresh,
  insertEvent,
  leaseLanes,
  type NewDatabase,
  onEachDatabase,
  put,
  stateOf,
  storeEvent,
  turn,
} from "../../support/store/databases.ts";

const day = 86_400_000;
/** What `forget` returns when nothing is old. */
const nothing = {
  raw: 0,
  attachments: 0,
  files: 0,
  blobs: 0,
  events: 0,
  turns: 0,
  replies: 0,
  escalations: 0,
  platformWebhooks: 0,
  actions: 0,
  people: 0,
};
const blob = (id: string) => ({ id, bytes: Buffer.from(id) });

async function withDrafts(newDatabase: NewDatabase, ids: readonly string[]): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    await conversation(q, "k");
    for (const id of ids) await draft(q, id, "k");
  });
  return db;
}

onEachDatabase((newDatabase) => {
  describe("operators", () => {
    it("counts what is held on a channel, up to a limit and within a time", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let n = 0; n < 5; n++) {
          const id = await storeEvent(q, `e${n}`, n === 4 ? { channel: "other" } : {});
          if (n > 0) await recordOutcome(q, id, { state: "held", code: "pgp-encrypted" });
        }
        await recordOutcome(q, await storeEvent(q, "failed"), { state: "failed", code: "x" });
        const old = await storeEvent(q, "old");
        await recordOutcome(q, old, { state: "held", code: "pgp-encrypted" });
        await q.run("UPDATE events SET received_at = received_at - 7200000 WHERE id = $1", old);
      });
      const held = (limit: number) => db.read((q) => countHeld(q, "c", 3_600_000, limit));
      expect([await held(20), await held(2)]).toEqual([3, 2]);
    });

    it("lists drafts by state and channel, newest first", async () => {
      const db = await withDrafts(newDatabase, ["d1", "d2", "d3"]);
      await db.tx(async (q) => {
        await conversation(q, "o", "other");
        await draft(q, "d4", "o", 0, "other");
        await concludeDraft(q, "d2", { state: "held", open: 0, reason: "why" });
      });
      const ids = async (wanted: Parameters<typeof listDrafts>[1]) =>
        (await db.read((q) => listDrafts(q, wanted))).drafts.map((row) => row.id);
      expect(await ids({ limit: 3 })).toEqual(["d4", "d3", "d2"]);
      expect(await ids({ channel: "c", limit: 9 })).toEqual(["d3", "d2", "d1"]);
      expect(await ids({ state: "held", limit: 9 })).toEqual(["d2"]);
      expect(await ids({ state: "held", channel: "other", limit: 9 })).toEqual([]);
    });

    it("reads a bounded number of sent drafts for a page, and reports where the next one continues", async () => {
      const ids = Array.from({ length: 220 }, (_, n) => `d${n + 100}`);
      const db = await withDrafts(newDatabase, ids);
      await db.tx((q) => q.run("UPDATE drafts SET state = CASE WHEN id = 'd100' THEN 'delivered' ELSE 'sent' END"));
      const list = async (wanted: Omit<Parameters<typeof listDrafts>[1], "limit">) => {
        const { drafts, readTo } = await db.read((q) => listDrafts(q, { limit: 1, ...wanted }));
        return [...drafts.map(({ id }) => id), `to ${readTo?.id ?? "the end"}`];
      };
      expect(await list({ state: "delivered" })).toEqual(["to d220"]);
      expect(await list({ state: "delivered", after: "d220" })).toEqual(["to d120"]);
      expect(await list({ state: "delivered", after: "d120" })).toEqual(["d100", "to the end"]);
      expect(await list({ channel: "other" })).toEqual(["to d220"]);
      expect(await list({ state: "delivered", since: Date.now() + day })).toEqual(["to the end"]);
      expect(await list({ state: "sent" })).toEqual(["d319", "to the end"]);
      await db.tx((q) => q.run("UPDATE drafts SET state = 'held', open = 0 WHERE id IN ('d150', 'd160')"));
      expect(await list({ state: "held" })).toEqual(["d160", "to the end"]);
      expect(await list({ state: "held", after: "d160" })).toEqual(["d150", "to the end"]);
    });

    it("shows a draft with its attempts", async () => {
      const db = await withDrafts(newDatabase, ["d1"]);
      await db.tx(async (q) => {
        const row = await readDraft(q, "d1");
        if (row) await recordSending(q, row, "n", 1);
        await endAttempt(q, "d1", "refused", "550 no");
        await concludeDraft(q, "d1", { state: "failed", open: 0, reason: "550 no" });
      });
      const shown = await db.read((q) => showDraft(q, "d1"));
      expect(shown).toMatchObject({
        id: "d1",
        state: "failed",
        reason: "550 no",
        body: '{"text":"text"}',
        attempts: 1,
      });
      expect(shown?.tries).toMatchObject([
        { number: 1, kind: "send", node: "n", outcome: "refused", detail: "550 no" },
      ]);
      expect(await db.read((q) => showDraft(q, "nope"))).toBeNull();
    });

    it("sends a draft again before the later ones of its lane, and refuses what is under way or done", async () => {
      const db = await withDrafts(newDatabase, ["d1", "d2"]);
      for (const state of ["queued", "sending", "unknown", "sent", "delivered"]) {
        await db.tx((q) => put(q, "drafts", "d1", `state = '${state}', open = 1`));
        await expect(
          db.tx((q) => resendDraft(q, "d1")),
          state,
        ).rejects.toThrow(`resending draft d1: it is ${state}`);
      }
      await expect(db.tx((q) => resendDraft(q, "nope"))).rejects.toThrow("there is none");
      for (const state of ["held", "failed", "dropped"]) {
        await db.tx((q) => put(q, "drafts", "d1", `state = '${state}', open = 0, due_at = now_ms() + ${day}`));
        // A worker has claimed d2.
        const [held] = await db.tx(async (q) => {
          await refreshLane(q, "k", "out");
          return leaseLanes(q, "out", "c", "n", 60_000, 1);
        });
        if (!held) throw new Error("the lane is not due");
        await db.tx((q) => resendDraft(q, "d1"));
        await db.tx((q) => releaseLane(q, held, "out"));
        const [next] = await db.tx((q) => leaseLanes(q, "out", "c", "n", 60_000, 1));
        if (!next) throw new Error("the lane is not due");
        const head = await db.tx((q) => headDraft(q, next));
        expect(head).toMatchObject({ id: "d1", state: "queued", lookups: 0 });
        expect(head?.due_in).toBeLessThanOrEqual(0);
        await db.tx((q) => releaseLane(q, next, "out"));
      }
    });

    it("drops a draft that has not gone out, and lets its lane go on", async () => {
      const db = await withDrafts(newDatabase, ["d1", "d2"]);
      for (const state of ["sending", "sent", "delivered", "dropped"]) {
        await db.tx((q) => put(q, "drafts", "d1", `state = '${state}', open = 1`));
        await expect(
          db.tx((q) => dropDraft(q, "d1")),
          state,
        ).rejects.toThrow(`dropping draft d1: it is ${state}`);
      }
      for (const state of ["queued", "unknown", "held", "failed"]) {
        await db.tx(async (q) => {
          await put(q, "drafts", "d1", `state = '${state}', open = 1, due_at = now_ms() + ${day}`);
          await refreshLane(q, "k", "out");
        });
        const leased = () => db.tx((q) => leaseLanes(q, "out", "c", `node of ${state}`, 0, 1));
        expect(await leased(), state).toEqual([]);
        await db.tx((q) => dropDraft(q, "d1"));
        expect(await db.read((q) => stateOf(q, "drafts", "d1"))).toBe("dropped");
        expect(await leased(), state).toHaveLength(1);
      }
    });

    it("lists what was not answered, shows it, and gives its raw bytes", async () => {
      const db = await fresh(newDatabase);
      const attachments = [{ name: "a", mediaType: "b/c", size: 1, blob: blob("att"), ref: null, named: true }];
      const [one, two] = await db.tx(async (q) => [
        await storeEvent(q, "1", { raw: blob("raw"), attachments }),
        await storeEvent(q, "2"),
        await storeEvent(q, "3"),
      ]);
      await db.tx(async (q) => {
        await recordOutcome(q, one ?? 0, { state: "ignored", code: "auto-reply", reason: "machine" });
        await recordOutcome(q, two ?? 0, { state: "ignored", code: "list" });
      });
      const ids = async (wanted: Parameters<typeof listEvents>[1]) =>
        (await db.read((q) => listEvents(q, wanted))).events.map((row) => row.external_id);
      expect(await ids({ state: "ignored", limit: 9 })).toEqual(["2", "1"]);
      expect(await ids({ state: "ignored", code: "list", limit: 9 })).toEqual(["2"]);
      expect(await ids({ state: "ignored", channel: "d", limit: 9 })).toEqual([]);
      expect(await ids({ state: "stored", limit: 9 })).toEqual(["3"]);
      expect((await db.read((q) => eventHistory(q, one ?? 0)))?.events[0]).toMatchObject({
        code: "auto-reply",
        reason: "machine",
        body: '{"kind":"message"}',
        attachments: [{ name: "a", media_type: "b/c", size: 1 }],
      });
      expect(await db.read((q) => eventHistory(q, 999))).toBeNull();
      expect(Buffer.from((await db.read((q) => readRaw(q, one ?? 0))) ?? []).toString()).toBe("raw");
      expect(await db.read((q) => readRaw(q, two ?? 0))).toBeNull();
    });

    it("releases a message that was not answered, once, and nothing else", async () => {
      const db = await fresh(newDatabase);
      const id = await db.tx((q) => storeEvent(q, "1", { fingerprint: "f" }));
      for (const state of ["ignored", "held", "failed"] as const) {
        await db.tx((q) => recordOutcome(q, id, { state, code: "x", reason: "y" }));
        await db.tx((q) => releaseEvent(q, id));
        expect(await db.read((q) => storedEvents(q, "c", 9))).toMatchObject([
          { id, code: "released", reason: null, attempts: 0 },
        ]);
        await expect(db.tx((q) => releaseEvent(q, id))).rejects.toThrow(
          `it is waiting, and due now (see conversation show ${id})`,
        );
      }
      const copy = await db.tx((q) => storeEvent(q, "2", { fingerprint: "f" }));
      await expect(db.tx((q) => releaseEvent(q, copy))).rejects.toThrow("a copy of another message");
      const receipt = await db.tx((q) => storeEvent(q, "3", { kind: "delivery" }));
      await db.tx((q) => recordOutcome(q, receipt, { state: "ignored" }));
      await expect(db.tx((q) => releaseEvent(q, receipt))).rejects.toThrow("no message but a delivery");
      await expect(db.tx((q) => releaseEvent(q, 999))).rejects.toThrow("there is none");
    });

    it("asks a question now that waits for its next attempt, with the earlier ones of its conversation", async () => {
      const db = await withDrafts(newDatabase, []);
      const ids = await db.tx(async (q) => {
        for (const id of ["t1", "t2", "t3"]) await turn(q, id, "k");
        await q.run("UPDATE turns SET due_at = now_ms() + 3600000");
        const stored = [await storeEvent(q, "1"), await storeEvent(q, "2"), await storeEvent(q, "3")];
        for (const [index, id] of stored.entries()) {
          await recordOutcome(q, id, { state: "routed", conversation: "k" });
          await q.run("UPDATE events SET turn = $1 WHERE id = $2", `t${index + 1}`, id);
        }
        return stored;
      });
      await db.tx((q) => releaseEvent(q, ids[1] ?? 0));
      const waits = () =>
        db.read((q) =>
          q.all<{ id: string; late: number }>(
            "SELECT id, CASE WHEN due_at > now_ms() THEN 1 ELSE 0 END AS late FROM turns ORDER BY seq",
          ),
        );
      expect((await waits()).map(({ id, late }) => [id, late])).toEqual([
        ["t1", 0],
        ["t2", 0],
        ["t3", 1],
      ]);
      await expect(db.tx((q) => releaseEvent(q, ids[1] ?? 0))).rejects.toThrow("it is waiting, and due now");
    });

    it("reports per channel what is open, how old, and what is paused", async () => {
      const db = await withDrafts(newDatabase, ["d1", "d2", "d3"]);
      await db.tx(async (q) => {
        await turn(q, "t1", "k", { receivedAt: Date.now() - 5000 });
        await turn(q, "t2", "k");
        await turn(q, "t3", "k");
        await concludeTurn(q, "t2", { state: "answered", open: 0 });
        await concludeTurn(q, "t3", { state: "failed", open: 1 });
        await concludeDraft(q, "d2", { state: "sent", open: 0 });
        await concludeDraft(q, "d3", { state: "held", open: 0 });
        await recordOutcome(q, await storeEvent(q, "1"), { state: "held", code: "cap-sender" });
        await recordOutcome(q, await storeEvent(q, "2"), { state: "ignored" });
        await recordOutcome(q, await storeEvent(q, "4"), { state: "failed" });
        await concludeReply(q, "rd1", "failed", "defect");
        await concludeReply(q, "rd2", "composed", null);
        await storeEvent(q, "3");
        await strike(q, "c", "x@example.org", 1, "bounce");
        await strike(q, "c", "y@example.org", 2, "bounce");
        await q.run("UPDATE channels SET cursor = '1', cursor_at = now_ms() WHERE id = 'c'");
        const pause = { cause: "rate", failures: 1, by_provider: false } as const;
        await writePause(q, "c", { ...pause, sender: "+1", forMs: 60_000, reason: "quota" });
        await writePause(q, "c", { ...pause, sender: "+2", forMs: 1000, reason: "less" });
        await q.run("INSERT INTO channels (id) VALUES ('idle')");
      });
      const [busy, idle] = await db.read(overview);
      expect(busy).toMatchObject({
        channel: "c",
        suppressed: 1,
        paused_reason: "quota",
        paused_senders: 2,
        events: { stored: 1, held: 1, failed: 1 },
        turns: { waiting: 1, failed: 1 },
        replies: { ready: 1, failed: 1 },
        drafts: { queued: 1, held: 1 },
      });
      expect(busy?.cursor_age).toBeLessThan(30_000);
      expect(busy?.paused_for).toBeGreaterThan(30_000);
      expect(busy?.oldest_turn).toBeGreaterThanOrEqual(5000);
      expect(busy?.oldest_draft).toBeGreaterThanOrEqual(0);
      expect(busy?.oldest_waiting).toBeGreaterThanOrEqual(5000);
      expect(idle).toEqual({
        channel: "idle",
        cursor_age: null,
        paused_for: 0,
        paused_reason: null,
        paused_senders: 0,
        suppressed: 0,
        events: {},
        capped: { preferred: 0, others: 0 },
        turns: {},
        replies: {},
        drafts: {},
        sessions: {},
        oldest_turn: null,
        oldest_draft: null,
        oldest_waiting: null,
      });
    });

    it("forgets raw messages and files first, unless a younger message has the same file", async () => {
      const db = await fresh(newDatabase);
      const attached = (id: string) => ({
        raw: blob(`raw ${id}`),
        attachments: [{ name: "a", mediaType: "b/c", size: 1, blob: blob(id), ref: null, named: true }],
      });
      await db.tx(async (q) => {
        await recordOutcome(q, await storeEvent(q, "old", attached("one")), { state: "routed" });
        await recordOutcome(q, await storeEvent(q, "shared", attached("two")), { state: "ignored" });
        await storeEvent(q, "waiting", attached("three"));
        await q.run("UPDATE events SET received_at = received_at - $1", 2 * day);
        await q.run("UPDATE blobs SET stored_at = stored_at - $1", 2 * day);
        await recordOutcome(q, await storeEvent(q, "young", attached("two")), { state: "routed" });
      });
      const clean = () =>
        db.tx((q) => forget(q, { rawMs: day, eventsMs: 9 * day }, standardTiming.upkeep.retentionRecheck));
      expect(await clean()).toEqual({ ...nothing, raw: 2, attachments: 2, blobs: 1 });
      expect(await clean()).toEqual(nothing);
      const left = await db.read((q) => q.all<{ id: string }>("SELECT id FROM blobs ORDER BY id"));
      expect(left.map((row) => row.id)).toEqual(["three", "two"]);
      const raw = await db.read((q) => q.all("SELECT digest FROM raw_messages ORDER BY digest"));
      expect(raw).toEqual([{ digest: "raw three" }, { digest: "raw two" }]);
    });

    it("forgets old raw messages behind one that arrived while the clock was ahead", async () => {
      const db = await fresh(newDatabase, async (q) => {
        const ahead = await storeEvent(q, "ahead", { raw: blob("ahead") });
        await storeEvent(q, "old", { raw: blob("old") });
        await q.run("UPDATE events SET state = 'routed', received_at = received_at - $1", 2 * day);
        await q.run("UPDATE events SET received_at = received_at + $2 WHERE id = $1", ahead, 300 * day);
      });
      const forgotten = await db.tx((q) =>
        forget(q, { rawMs: day, eventsMs: 9 * day }, standardTiming.upkeep.retentionRecheck),
      );
      expect(forgotten).toMatchObject({ raw: 1 });
      const left = await db.read((q) => q.all("SELECT digest FROM raw_messages"));
      expect(left).toEqual([{ digest: "ahead" }]);
    });

    it("deletes the text of settled rows, keeps the others, and still detects duplicates", async () => {
      const db = await withDrafts(newDatabase, ["d1", "d2", "d3"]);
      const [settled, held] = await db.tx(async (q) => {
        const ids = [await storeEvent(q, "1", { fingerprint: "f" }), await storeEvent(q, "2")];
        await recordOutcome(q, ids[0] ?? 0, { state: "routed" });
        await recordOutcome(q, ids[1] ?? 0, { state: "held" });
        await turn(q, "t1", "k");
        await turn(q, "t2", "k");
        await concludeTurn(q, "t1", { state: "answered", open: 0 });
        await q.run("UPDATE replies SET state = 'composed' WHERE id <> 'rd3'");
        await concludeDraft(q, "d1", { state: "sent", open: 0 });
        await concludeDraft(q, "d2", { state: "held", open: 0 });
        await q.run("UPDATE events SET received_at = received_at - $1", 2 * day);
        await q.run("UPDATE turns SET received_at = received_at - $1", 2 * day);
        await q.run("UPDATE replies SET created_at = created_at - $1", 2 * day);
        await q.run("UPDATE drafts SET updated_at = updated_at - $1", 2 * day);
        return ids;
      });
      const counts = await db.tx((q) =>
        forget(q, { rawMs: day, eventsMs: day }, standardTiming.upkeep.retentionRecheck),
      );
      expect(counts).toEqual({ ...nothing, events: 1, turns: 1, replies: 1 });
      const words = await db.read(async (q) => [
        await q.all("SELECT body, sender FROM events ORDER BY id"),
        await q.all("SELECT question, address FROM turns ORDER BY id"),
        await q.all("SELECT text FROM replies ORDER BY id"),
        await q.all("SELECT body FROM drafts ORDER BY id"),
      ]);
      expect(words).toEqual([
        [
          { body: "{}", sender: null },
          { body: '{"kind":"message"}', sender: "a@example.org" },
        ],
        [
          { question: "", address: "{}" },
          { question: "question t2", address: '{"to":[]}' },
        ],
        [{ text: "" }, { text: "text" }, { text: "text" }],
        [{ body: "" }, { body: '{"text":"text"}' }, { body: '{"text":"text"}' }],
      ]);
      expect(await db.tx((q) => insertEvent(q, event("1")))).toBe(false);
      expect(await db.tx((q) => insertEvent(q, event("9", { fingerprint: "f" })))).toBe(false);
      await db.tx(async (q) => {
        await recordOutcome(q, settled ?? 0, { state: "ignored" });
        await concludeDraft(q, "d1", { state: "failed", open: 0 });
        await releaseEvent(q, held ?? 0);
      });
      await expect(db.tx((q) => releaseEvent(q, settled ?? 0))).rejects.toThrow("erased");
      await expect(db.tx((q) => resendDraft(q, "d1"))).rejects.toThrow("erased");
    });

    it("deletes the attempts with the text, and the person when nothing of a conversation is left", async () => {
      const db = await fresh(newDatabase);
      const person = "a@example.org";
      await db.tx(async (q) => {
        for (const id of ["old", "alive", "held"]) {
          await conversation(q, id);
          await addParticipant(q, id, person);
          await turn(q, `t-${id}`, id, { receivedAt: Date.now() - 3 * day });
          await concludeTurn(q, `t-${id}`, { state: "answered", open: 0 });
          await draft(q, `d-${id}`, id);
          const row = await readDraft(q, `d-${id}`);
          if (row) await recordSending(q, row, "n", 1);
          await concludeDraft(q, `d-${id}`, { state: id === "held" ? "held" : "sent", open: 0 });
        }
        await q.run("UPDATE conversations SET person_name = 'A', subject = 'S', seen_at = seen_at - $1", 3 * day);
        await q.run("UPDATE replies SET state = 'composed', created_at = created_at - $1", 3 * day);
        await q.run("UPDATE drafts SET updated_at = updated_at - $1", 3 * day);
        await turn(q, "t-new", "alive");
      });
      const clean = () =>
        db.tx((q) => forget(q, { rawMs: day, eventsMs: 2 * day }, standardTiming.upkeep.retentionRecheck));
      expect(await clean()).toMatchObject({ turns: 3, replies: 2, people: 3 });
      const left = () =>
        db.read(async (q) => [
          await q.all("SELECT id, person, person_name, subject FROM conversations ORDER BY id"),
          await q.all("SELECT conversation FROM participants ORDER BY conversation"),
          await q.all("SELECT id, person FROM turns ORDER BY id"),
          await q.all("SELECT id, recipient FROM drafts ORDER BY id"),
          await q.all("SELECT subject FROM attempts"),
        ]);
      const known = { person, person_name: "A", subject: "S" };
      expect(await left()).toEqual([
        [
          { id: "alive", ...known },
          { id: "held", ...known },
          { id: "old", person: "", person_name: null, subject: null },
        ],
        [{ conversation: "alive" }, { conversation: "held" }],
        [
          { id: "t-alive", person },
          { id: "t-held", person },
          { id: "t-new", person },
          { id: "t-old", person: "" },
        ],
        [
          { id: "d-alive", recipient: person },
          { id: "d-held", recipient: person },
          { id: "d-old", recipient: "" },
        ],
        [{ subject: "d-held" }],
      ]);
      // What is alive is not looked at again at once; what was held is, when it has been decided.
      expect(await clean()).toMatchObject({ people: 0 });
      await db.tx((q) => dropDraft(q, "d-held"));
      await db.tx((q) => q.run("UPDATE drafts SET updated_at = updated_at - $1", 3 * day));
      await db.tx((q) => q.run("UPDATE conversations SET seen_at = seen_at - $1", day));
      expect(await clean()).toMatchObject({ replies: 1, people: 1 });
      expect((await left())[1]).toEqual([{ conversation: "alive" }]);
      expect((await left())[4]).toEqual([]);
    });

    it("forgets in bounded batches until nothing is left", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let i = 0; i < 450; i++) await insertEvent(q, event(String(i), { raw: blob(`blob${i}`) }));
        await q.run("UPDATE events SET state = 'routed', received_at = received_at - $1", 2 * day);
      });
      const counts = [];
      do
        counts.push(
          await db.tx((q) => forget(q, { rawMs: day, eventsMs: day }, standardTiming.upkeep.retentionRecheck)),
        );
      while (Object.values(counts.at(-1) ?? {}).some((count) => count > 0));
      expect(counts.map((one) => [one.raw, one.events])).toEqual([
        [200, 200],
        [200, 200],
        [50, 50],
        [0, 0],
      ]);
    });
  });
});
