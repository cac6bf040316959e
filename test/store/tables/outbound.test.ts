// Statements on replies, drafts, pauses and suppressions of the stages compose, send and reconcile.

import { externalId, sendKey } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { firstTo } from "../../../src/domain/turn.ts";
import { lastAttempt, loadMatches } from "../../../src/pipeline/reconcile/rows.ts";
import { headDraft, isSuperseded, recordSending } from "../../../src/pipeline/send/rows.ts";
import type { Database } from "../../../src/store/driver.ts";
import { refreshLane, releaseLane } from "../../../src/store/lanes.ts";
import { cite } from "../../../src/store/tables/conversations.ts";
import {
  changeDraft,
  changeReply,
  enqueueDraft,
  hasEarlierReply,
  insertNotices,
  insertReply,
  type NewNotice,
  readDraft,
  readyReplies,
  unconfirmedRecipients,
  unknownOutcome,
} from "../../../src/store/tables/drafts.ts";
import { endPause, pausesOf, probeNow, takeProbe, wholeChannel, writePause } from "../../../src/store/tables/pauses.ts";
import { strike, suppress, suppression } from "../../../src/store/tables/suppressions.ts";
import {
  concludeDraft,
  concludeReply,
  conversation,
  draft,
  dueChannels,
  fresh,
  leaseLanes,
  onEachDatabase,
  turn,
} from "../../support/store/databases.ts";

const hour = 3_600_000;
const must = async (db: Database, id: string) => {
  const found = await db.read((q) => readDraft(q, id));
  if (!found) throw new Error(`no draft ${id}`);
  return found;
};

onEachDatabase((newDatabase) => {
  describe("outbound", () => {
    it("hands replies to compose, oldest first", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        for (const id of ["r2", "r1", "r3"]) {
          await insertReply(q, {
            id,
            conversation: "k",
            channel: "c",
            turn: null,
            text: id,
            platformId: null,
          });
        }
      });
      expect(await db.read((q) => dueChannels(q, "replies"))).toEqual(["c"]);
      await db.tx(async (q) => {
        expect((await readyReplies(q, "c", 2)).map((row) => row.id)).toEqual(["r1", "r2"]);
        await concludeReply(q, "r1", "composed", null);
        await concludeReply(q, "r2", "failed", "why");
      });
      expect(await db.tx(async (q) => (await readyReplies(q, "c", 9)).map((row) => row.text))).toEqual(["r3"]);
      await db.tx((q) => concludeReply(q, "r3", "composed", null));
      expect(await db.read((q) => dueChannels(q, "replies"))).toEqual([]);
    });

    it("stores a notice once for a person within its time, in whatever conversation", async () => {
      const db = await fresh(newDatabase);
      const once = { person: "a@example.org", withinMs: hour };
      const address = firstTo({ address: "a@example.org" }, null);
      const notify = (id: string, of: string, over: Partial<NewNotice> = {}) => {
        const common = { channel: "c", address, text: "held", forced: false, internal: false, once };
        return db.tx((q) => insertNotices(q, [{ ...common, id, conversation: of, ...over }]));
      };
      const stored = async () =>
        (await db.read((q) => readyReplies(q, "c", 9))).flatMap(({ id, kind }) => (kind === "notice" ? [id] : []));
      await db.tx(async (q) => {
        for (const id of ["k1", "k2"]) await conversation(q, id);
        await conversation(q, "kb", "c", "b@example.org");
        await insertReply(q, { id: "r", conversation: "k1", channel: "c", turn: null, text: "held", platformId: null });
      });
      await notify("n1", "k1");
      for (const of of ["k1", "k2"]) await notify(`again-${of}`, of);
      await notify("n2", "k2", { text: "another" });
      await notify("n3", "kb", { once: { ...once, person: "b@example.org" } });
      expect(await stored()).toEqual(["n1", "n2", "n3"]);
      await db.tx((q) => q.run("UPDATE replies SET created_at = created_at - 7200000"));
      await notify("n4", "k2");
      expect(await stored()).toEqual(["n1", "n2", "n3", "n4"]);
    });

    it("counts the drafts that may have been sent under an unknown id, by recipient", async () => {
      const db = await fresh(newDatabase);
      const outcomes = [
        { id: "sending", state: "sending", open: 1 },
        { id: "unknown", state: "unknown", open: 1 },
        { id: "held", state: "held", open: 0, code: unknownOutcome },
        { id: "refused", state: "dropped", open: 0, code: "suppressed" },
        { id: "restored", state: "held", open: 0, code: "answered-before-restore" },
        { id: "sent", state: "sent", open: 0 },
      ] as const;
      await db.tx(async (q) => {
        for (const { id, ...change } of outcomes) {
          await conversation(q, id);
          await draft(q, id, id);
          await concludeDraft(q, id, change);
        }
        await conversation(q, "queued");
        await draft(q, "queued", "queued");
        await q.run("UPDATE drafts SET recipient = id");
      });
      const found = (channel: string, since: number) => db.read((q) => unconfirmedRecipients(q, channel, since));
      expect((await found("c", 0)).sort()).toEqual(["held", "sending", "unknown"]);
      expect(await found("c", Date.now() + hour)).toEqual(["sending"]);
      expect(await found("other", 0)).toEqual([]);
    });

    it("sends a conversation's drafts in order, none before the one in front and none before it is due", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await draft(q, "d1", "k", hour);
        await draft(q, "d2", "k");
      });
      const lease = () => db.tx((q) => leaseLanes(q, "out", "c", "n", 60_000, 5));
      expect(await lease()).toEqual([]);
      await db.tx(async (q) => {
        await concludeDraft(q, "d1", { state: "queued", open: 1, dueInMs: 0 });
        await refreshLane(q, "k", "out");
      });
      expect(await lease()).toHaveLength(1);
      const held = { lane: "k/out", conversation: "k", channel: "c", token: 1, sender: "" };
      const head = await db.tx((q) => headDraft(q, held));
      expect(head?.id).toBe("d1");
      expect(head?.due_in).toBeLessThanOrEqual(0);
      await db.tx(async (q) => {
        await concludeDraft(q, "d1", { state: "sent", open: 0, externalId: "x" });
        await releaseLane(q, held, "out");
      });
      await expect.poll(async () => (await lease()).length).toBe(1);
    });

    it("reports how long the head is not due", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await draft(q, "d1", "k", hour);
      });
      expect((await must(db, "d1")).due_in).toBeGreaterThan(hour - 30_000);
    });

    it("is due now when its time is past", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await draft(q, "d1", "k", -hour);
      });
      expect((await must(db, "d1")).due_in).toBeGreaterThan(-30_000);
    });

    it("writes the attempt down; an earlier attempt's window of looking ends with it", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await draft(q, "d1", "k");
      });
      expect(await db.read((q) => lastAttempt(q, "d1"))).toBeNull();
      await db.tx(async (q) => recordSending(q, await must(db, "d1"), "n", 1));
      await db.tx((q) => concludeDraft(q, "d1", { state: "unknown", open: 1, reconcileForMs: hour, lookups: 1 }));
      await db.tx((q) => concludeDraft(q, "d1", { state: "unknown", open: 1, lookups: 2 }));
      const looking = await must(db, "d1");
      expect(looking.lookups).toBe(2);
      expect(looking.reconcile_left).toBeGreaterThan(hour - 30_000);
      await db.tx((q) => changeDraft(q, "d1", { state: "queued", open: 1 }));
      await db.tx(async (q) => recordSending(q, await must(db, "d1"), "n", 1));
      expect(await must(db, "d1")).toMatchObject({ state: "sending", attempts: 2, reconcile_left: null });
      const last = await db.read((q) => lastAttempt(q, "d1"));
      expect(last).toMatchObject({ number: 2, age: expect.toSatisfy((age) => age >= 0 && age < hour) as number });
    });

    it("records no attempt on a draft that may not be sent any more", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        for (const id of ["d1", "d2", "d3", "d4"]) await draft(q, id, "k");
      });
      const claimed = await must(db, "d1");
      const record = (row: typeof claimed) => db.tx((q) => recordSending(q, row, "n", 1));
      await db.tx((q) => changeDraft(q, "d2", { state: "dropped", open: 0 }));
      const later = await must(db, "d3");
      expect([await record(claimed), await record(await must(db, "d2")), await record(later)]).toEqual([
        true,
        false,
        true,
      ]);
      expect(await record(later), "recorded by another attempt").toBe(false);
      await db.tx((q) => suppress(q, "c", "a@example.org", "stop"));
      expect(await record(await must(db, "d4"))).toBe(false);
      expect(await db.read((q) => lastAttempt(q, "d4"))).toBeNull();
      await db.tx((q) => q.run("UPDATE drafts SET forced = 1 WHERE id = 'd4'"));
      expect(await record(await must(db, "d4"))).toBe(true);
    });

    it("changes a draft only from the expected state", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await draft(q, "d1", "k");
      });
      const change = (from: string) => db.tx((q) => changeDraft(q, "d1", { state: "sent", open: 0 }, from));
      expect([await change("sending"), await change("queued")]).toEqual([false, true]);
    });

    it("matches a receipt by the ids it was sent under, in its channel", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await draft(q, "d1", "k");
        await cite(q, "c", "sent-1", "k", null); // an answer came first
        for (const draft of ["d1", null]) await cite(q, "c", "sent-1", "k", draft);
        await cite(q, "c", "theirs", "k", null);
      });
      const by = async (channel: string, ...sent: string[]) => {
        const about = { sent: sent.map(externalId) };
        const found = await db.read((q) => loadMatches(q, channel, about, hour));
        return found.map(({ id, certain }) => [id, certain]);
      };
      expect([await by("c", "sent-1"), await by("d", "sent-1"), await by("c", "theirs")]).toEqual([
        [["d1", 1]],
        [],
        [],
      ]);
      // NUL and a lone surrogate are invalid in PostgreSQL.
      expect(await by("c", "x\0\ud800", "theirs", "sent-1")).toEqual([["d1", 1]]);
    });

    it("matches a receipt by the key of a draft of its channel, and searches by recipient only without a match by id", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        for (const id of ["d1", "d2", "d3"]) {
          await draft(q, id, "k");
          await concludeDraft(q, id, { state: "sent", open: 0 });
        }
        await q.run("UPDATE conversations SET via = '+15550111'");
        await cite(q, "c", "sent-1", "k", "d1");
        await cite(q, "c", "sent-2", "k", "d2");
      });
      const about = { sent: ["sent-2", "gone", "sent-1"].map(externalId), recipient: "A@example.org" };
      const found = async (channel: string, key: string) =>
        (await db.read((q) => loadMatches(q, channel, { ...about, key: sendKey(key) }, hour)))
          .toSorted((a, b) => a.place - b.place)
          .map(({ id, certain, via }) => [id, certain, via]);
      const via = "+15550111";
      const cited = [
        ["d2", 1, via],
        ["d1", 1, via],
      ];
      expect(await found("c", "d3")).toEqual([["d3", 1, via], ...cited]);
      expect(await found("c", "gone")).toEqual(cited);
      expect(await found("d", "d3")).toEqual([]);
    });

    it("matches a bounce by recipient: the newest that went there, none that did not", async () => {
      const db = await fresh(newDatabase);
      const bounced = { conversation: "k", channel: "c", turn: null, text: "x", platformId: null };
      await db.tx(async (q) => {
        await conversation(q, "k");
        for (const id of ["d1", "d2", "d3"]) await draft(q, id, "k");
        await concludeDraft(q, "d1", { state: "sent", open: 0 });
        await concludeDraft(q, "d2", { state: "sent", open: 0 });
        await q.run("UPDATE drafts SET updated_at = updated_at - 1000 WHERE id = 'd2'");
      });
      const by = (address: string, within: number) =>
        db.read(async (q) => {
          const found = await loadMatches(q, "c", { mentioned: ["nobody@example.org", address] }, within);
          expect(found.map(({ certain }) => certain)).toEqual(found.map(() => 0));
          return found[0]?.id ?? null;
        });
      expect([await by("A@example.org", hour), await by("b@example.org", hour)]).toEqual(["d1", null]);
      await db.tx(async (q) => {
        await insertReply(q, { ...bounced, id: "r4" });
        const other = { ...bounced, id: "d4", reply: "r4", recipient: "b@example.org", body: "{}" };
        await enqueueDraft(q, { ...other, dueAt: 0 });
        await concludeDraft(q, "d4", { state: "sent", open: 0 });
      });
      expect([await by("B@example.org", hour), await by("a@example.org", hour)]).toEqual(["d4", "d1"]);
      await db.tx((q) => q.run("UPDATE drafts SET updated_at = updated_at - 7200000"));
      expect(await by("a@example.org", hour)).toBeNull();
    });

    it("knows the first reply, and a reply to what is no longer the last word", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k");
        await insertReply(q, {
          id: "r1",
          conversation: "k",
          channel: "c",
          turn: "t1",
          text: "x",
          platformId: null,
        });
        await draft(q, "d0", "k");
      });
      const row = { ...(await must(db, "d0")), reply: "r1" };
      expect(await db.read((q) => isSuperseded(q, row))).toBe(false);
      await db.tx((q) => turn(q, "t2", "k"));
      expect(await db.read((q) => isSuperseded(q, row))).toBe(true);
      expect(await db.read((q) => hasEarlierReply(q, "k")), "those that wait to be composed do not count").toBe(false);
      await db.tx((q) => changeReply(q, "r1", "failed", "no recipient"));
      expect(await db.read((q) => hasEarlierReply(q, "k")), "the customer got nothing").toBe(false);
      await db.tx((q) => changeReply(q, "rd0", "composed", null));
      expect(await db.read((q) => hasEarlierReply(q, "k"))).toBe(true);
      expect(await db.read((q) => readDraft(q, "nope"))).toBeNull();
    });

    it.each([
      ["answer", true],
      ["human", true],
      ["opening", true],
      ["notice", false],
    ] as const)("knows that the conversation had a reply (%s: %s)", async (kind, expected) => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await draft(q, "d", "k");
        await q.run("UPDATE replies SET state = 'composed', kind = $1", kind);
      });
      expect(await db.read((q) => hasEarlierReply(q, "k"))).toBe(expected);
    });

    it("pauses a sender, then lets one draft be tried", async () => {
      const db = await fresh(newDatabase);
      const pause = (sender: string, forMs: number) =>
        db.tx((q) =>
          writePause(q, "c", {
            sender,
            cause: "rate",
            failures: 2,
            forMs,
            by_provider: false,
            reason: "quota",
          }),
        );
      const probe = (draft: string) => db.tx((q) => takeProbe(q, "c", "+1", draft, 60_000, 3_700_000));
      const pauses = () => db.read((q) => pausesOf(q, "c", 3_700_000));
      expect(await pauses()).toEqual([]);
      await pause("+1", 60_000.5);
      expect(await pauses()).toMatchObject([{ sender: "+1", failures: 2, by_provider: 0, probe: null }]);
      expect((await pauses())[0]?.remaining).toBeGreaterThan(30_000);
      expect(await probe("d1"), "it is not over").toBe(false);
      await pause("+1", -1);
      expect([await probe("d1"), await probe("d2")]).toEqual([true, false]);
      expect(await pauses()).toMatchObject([{ probe: "d1" }]);
      expect((await pauses())[0]?.remaining).toBeGreaterThan(30_000);
      // Longer than any pause: by a wrong clock.
      await pause("+1", 4_000_000);
      expect((await pauses())[0]?.remaining).toBe(0);
      expect(await probe("d3")).toBe(true);
      await db.tx((q) => endPause(q, "c", "+1"));
      expect(await pauses()).toEqual([]);
    });

    it("tries again at once what waits for a login, but not what waits for a quota or a named time", async () => {
      const db = await fresh(newDatabase, async (q) => {
        const base = { failures: 1, forMs: 60_000, by_provider: false, reason: "x" };
        await writePause(q, "c", { ...base, sender: wholeChannel, cause: "login" });
        await writePause(q, "c", { ...base, sender: "+1", cause: "rate" });
        await writePause(q, "c", { ...base, sender: "+2", cause: "unreachable", by_provider: true });
        await writePause(q, "c", { ...base, sender: "+3", cause: "unreachable", forMs: -1 });
        expect(await takeProbe(q, "c", "+3", "d", 60_000, 3_700_000)).toBe(true);
        await probeNow(q, "c");
      });
      const open = (await db.read((q) => pausesOf(q, "c", 3_700_000))).filter(({ remaining }) => remaining <= 0);
      expect(open.map(({ sender }) => sender)).toEqual([wholeChannel]);
    });

    it("leases no lane of a paused sender, and of a paused channel only those of calls", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (const [id, sender, node] of [
          ["a", "", null],
          ["b", "+1", null],
          ["e", "+1", "n"],
        ] as const) {
          await conversation(q, id);
          await draft(q, `d${id}`, id);
          await q.run("UPDATE lanes SET sender = $1, node = $2 WHERE id = $3", sender, node, `${id}/out`);
        }
      });
      const lease = (all: boolean, senders: readonly string[]) =>
        db.tx(async (q) => {
          const leases = await leaseLanes(q, "out", "c", "n", 60_000, 5, { all, senders });
          for (const one of leases) await releaseLane(q, one, "out");
          return leases.map(({ conversation: id, sender }) => `${id} ${sender}`).sort();
        });
      expect(await lease(false, [])).toEqual(["a ", "b +1", "e +1"]);
      expect(await lease(false, ["+1", "+2"])).toEqual(["a ", "e +1"]);
      expect(await lease(false, [""])).toEqual(["b +1", "e +1"]);
      expect(await lease(true, [])).toEqual(["e +1"]);
    });

    it("suppresses an address after so many strikes, in its channel", async () => {
      const db = await fresh(newDatabase);
      const hit = (limit: number, address = "A@example.org") => db.tx((q) => strike(q, "c", address, limit, "bounced"));
      expect([await hit(2), await hit(2), await hit(5)]).toEqual([false, true, true]);
      expect(await hit(1, "b@example.org")).toBe(true);
      const why = (channel: string) => db.read((q) => suppression(q, channel, "a@EXAMPLE.org"));
      expect([await why("c"), await why("d")]).toEqual(["bounced", null]);
    });
  });
});
