// Paused channels: what their lanes still give out, and what an attempt that was claimed before may do.

import { describe, expect, it } from "vitest";
import { headDraft, recordSending } from "../../../src/pipeline/send/rows.ts";
import type { Database } from "../../../src/store/driver.ts";
import { releaseLane } from "../../../src/store/lanes.ts";
import { channelStates, pause, resume } from "../../../src/store/operators/channels.ts";
import { enqueueDraft } from "../../../src/store/tables/drafts.ts";
import { ensureChannel, loopingSenders, recordOutcome } from "../../../src/store/tables/events.ts";
import { channelPauses, everyChannel, pauseChannel } from "../../../src/store/tables/pauses.ts";
import { capUse, readTurn, recordAsking } from "../../../src/store/tables/turns.ts";
import {
  concludeDraft,
  conversation,
  draft,
  dueChannels,
  fresh,
  leaseLanes,
  type NewDatabase,
  onEachDatabase,
  put,
  storeEvent,
  turn,
} from "../../support/store/databases.ts";

const minute = 60_000;

/** A question and a reply in conversation `k` of channel `c`, and in `o` of channel `other`. */
async function withWork(newDatabase: NewDatabase): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    await ensureChannel(q, "other");
    for (const [k, channel] of [
      ["k", "c"],
      ["o", "other"],
    ] as const) {
      await conversation(q, k, channel);
      await turn(q, `t${k}`, k, { channel });
      await draft(q, `d${k}`, k, 0, channel);
    }
  });
  return db;
}

/** To a responder, in the conversation `k` of a customer: on SMS both have the same number. */
const notification = {
  conversation: "k",
  channel: "c",
  reply: "rdk",
  recipient: "a@example.org",
  body: "{}",
  dueAt: 0,
  internal: true,
};

const stop = (db: Database, channel: string, forMs: number | null = null) =>
  pause(db, { channel, reason: "test", forMs });

/** The lanes that can be leased, by direction and channel. Nothing stays leased. */
async function given(db: Database): Promise<string[]> {
  return db.tx(async (q) => {
    const lanes: string[] = [];
    for (const direction of ["in", "out"] as const) {
      const due = await dueChannels(q, direction === "in" ? "turns" : "drafts");
      for (const channel of ["c", "other"]) {
        const leased = await leaseLanes(q, direction, channel, "n", minute, 9);
        expect(due.includes(channel), `${channel} ${direction}`).toBe(leased.length > 0);
        for (const lease of leased) await releaseLane(q, lease, direction);
        lanes.push(...leased.map(({ lane }) => lane));
      }
    }
    return lanes.sort();
  });
}

const all = ["k/in", "k/out", "o/in", "o/out"];

onEachDatabase((newDatabase) => {
  describe("paused channels", () => {
    it("give out no question and no reply, and all of them again after resume", async () => {
      const db = await withWork(newDatabase);
      expect(await given(db)).toEqual(all);
      await stop(db, "c");
      expect(await given(db)).toEqual(["o/in", "o/out"]);
      await stop(db, everyChannel);
      expect(await given(db)).toEqual([]);
      const { ended, remaining } = await resume(db, "c");
      expect([ended?.channel, remaining.map(({ channel }) => channel)]).toEqual(["c", [everyChannel]]);
      expect(await given(db)).toEqual([]);
      expect((await resume(db, everyChannel)).remaining).toEqual([]);
      expect(await given(db)).toEqual(all);
      expect((await resume(db, "c")).ended).toBeNull();
    });

    it("resume by themselves when their time is over", async () => {
      const db = await withWork(newDatabase);
      await stop(db, "c", minute);
      expect(await given(db)).toEqual(["o/in", "o/out"]);
      await db.tx((q) => q.run("UPDATE channel_pauses SET until = now_ms() - 1"));
      expect(await given(db)).toEqual(all);
      expect(await db.read(channelPauses)).toEqual([]);
    });

    it("give out notifications, lookups of earlier attempts, a human's messages and live calls", async () => {
      const db = await withWork(newDatabase);
      await stop(db, "c");
      const of = async (sql: string) => {
        await db.tx((q) => q.run(sql));
        return (await given(db)).filter((lane) => lane.startsWith("k"));
      };
      expect(await of("UPDATE drafts SET internal = 1 WHERE id = 'dk'")).toEqual(["k/out"]);
      expect(await of("UPDATE drafts SET internal = 0, state = 'unknown' WHERE id = 'dk'")).toEqual(["k/out"]);
      expect(await of("UPDATE drafts SET state = 'queued' WHERE id = 'dk'")).toEqual([]);
      expect(await of("UPDATE turns SET state = 'asking' WHERE id = 'tk'")).toEqual(["k/in"]);
      expect(await of("UPDATE turns SET state = 'waiting', kind = 'relayed' WHERE id = 'tk'")).toEqual(["k/in"]);
      expect(await of("UPDATE turns SET kind = 'question' WHERE id = 'tk'")).toEqual([]);
      // Other work of a conversation with a live call waits, too: its attempts would be refused.
      expect(await of("UPDATE lanes SET node = 'n' WHERE conversation = 'k'")).toEqual([]);
      expect(await of("UPDATE turns SET session = 'call' WHERE id = 'tk'")).toEqual(["k/in"]);
      expect(await of("UPDATE drafts SET session = 'call' WHERE id = 'dk'")).toEqual(["k/in", "k/out"]);
    });

    it("give out a notification in the conversation of a customer whose replies wait", async () => {
      const db = await withWork(newDatabase);
      await stop(db, "c");
      await db.tx(async (q) => {
        await enqueueDraft(q, { ...notification, id: "n1" });
        await enqueueDraft(q, { ...notification, id: "n2" });
      });
      expect(await given(db)).toContain("k/out");
      const next = () => db.read((q) => headDraft(q, { conversation: "k" }));
      for (const id of ["n1", "n2"]) {
        expect(await next()).toMatchObject({ id, internal: 1 });
        await db.tx((q) => concludeDraft(q, id, { state: "sent", open: 0 }));
      }
      expect((await next())?.id).toBe("dk");
    });

    it("keep an attempt that was claimed before from being made", async () => {
      const db = await withWork(newDatabase);
      await stop(db, "c");
      const tried = (which: "c" | "other") =>
        db.tx(async (q) => {
          const k = which === "c" ? "k" : "o";
          const head = await headDraft(q, { conversation: k });
          if (!head) throw new Error("no draft");
          const asked = await recordAsking(q, await readTurn(q, `t${k}`), "n", 1);
          return [asked, await recordSending(q, head, "n", 1)];
        });
      expect(await tried("c")).toEqual([false, false]);
      expect(await tried("other")).toEqual([true, true]);
      await db.tx((q) => put(q, "drafts", "dk", "internal = 1"));
      expect(await tried("c")).toEqual([false, true]);
      await resume(db, "c");
      expect((await tried("c"))[0]).toBe(true);
    });

    it("are paused by an operator in any case, and automatically only when they are not", async () => {
      const db = await withWork(newDatabase);
      const auto = () =>
        db.tx((q) => pauseChannel(q, { channel: "c", code: "loops", reason: "loop", event: 1, forMs: null }));
      expect(await auto()).toBe(true);
      expect(await auto()).toBe(false);
      await stop(db, "c");
      expect(await auto()).toBe(false);
      const { pauses, work } = await channelStates(db);
      expect(pauses).toMatchObject([{ channel: "c", code: "operator", reason: "test", event: null, until: null }]);
      expect(work.get("c")).toMatchObject({ unanswered: 1, unsent: 2, held: 0 });
      await resume(db, "c");
      expect(await auto()).toBe(true);
    });

    it("count what happened since the end of their last pause", async () => {
      const db = await withWork(newDatabase);
      const loop = (sender: string, code: string) =>
        db.tx(async (q) => {
          const id = await storeEvent(q, `${sender} ${code}`, { sender });
          await recordOutcome(q, id, { state: "ignored", code });
        });
      const counted = () =>
        db.read(async (q) => [await loopingSenders(q, "c", minute), (await capUse(q, "c", minute, true)).total]);
      await loop("a@x", "loop");
      await loop("b@x", "loop");
      await loop("b@x", "cap-sender");
      await loop("c@x", "auto-reply");
      expect(await counted()).toEqual([2, 1]);
      await stop(db, "c");
      expect(await counted()).toEqual([2, 1]);
      await resume(db, "c");
      await db.tx((q) => q.run("UPDATE events SET received_at = received_at - 1000"));
      await db.tx((q) => q.run("UPDATE turns SET made_at = made_at - 1000"));
      expect(await counted()).toEqual([0, 0]);
      await loop("d@x", "loop");
      expect(await counted()).toEqual([1, 0]);
    });
  });
});
