// Outbound conversations, turns that include earlier messages, texts that precede others, and recipients who have opted
// out.

import { describe, expect, it } from "vitest";
import { firstTo, type Opening } from "../../../src/domain/turn.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { begin, begunBefore } from "../../../src/pipeline/outbound.ts";
import { isJoinable } from "../../../src/pipeline/route/decide.ts";
import { extendTurn, lastTurns } from "../../../src/pipeline/route/rows.ts";
import { headDraft, isSuperseded } from "../../../src/pipeline/send/rows.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { bindVia, openingOutcome, readConversation } from "../../../src/store/tables/conversations.ts";
import {
  changeReply,
  countNotices,
  enqueueDraft,
  hasEarlierReply,
  insertNotices,
  insertReply,
  readDraft,
  readyReplies,
} from "../../../src/store/tables/drafts.ts";
import {
  exempt,
  postponeChannel,
  recordOutcome,
  recordOutcomesOf,
  storedEvents,
} from "../../../src/store/tables/events.ts";
import { lift, strike, suppress, suppression } from "../../../src/store/tables/suppressions.ts";
import { enqueueTurn, readTurn } from "../../../src/store/tables/turns.ts";
import {
  concludeDraft,
  concludeReply,
  concludeTurn,
  conversation,
  draft,
  event,
  fresh,
  headTurn,
  insertEvent,
  leaseLanes,
  onEachDatabase,
  storeEvent,
  turn,
} from "../../support/store/databases.ts";

const person = "a@example.org";
const lease = (q: Query, direction: "in" | "out") => leaseLanes(q, direction, "c", "n", 60_000, 9);

async function notice(q: Query, id: string, of = "k"): Promise<void> {
  const kind = "notice" as const;
  const reply = { id, conversation: of, channel: "c", turn: null, text: "x", platformId: null };
  await insertReply(q, { ...reply, kind, address: '{"to":[]}' });
}

onEachDatabase((newDatabase) => {
  describe("joined messages", () => {
    it("find the person's last turn that was not asked yet", async () => {
      const db = await fresh(newDatabase);
      const joinable = async (of = "k", who = person) => {
        const last = (await db.tx((q) => lastTurns(q, ["m", "k", "l"]))).get(of);
        return last && isJoinable(last, who) ? last : null;
      };
      const first = await db.tx(async (q) => {
        for (const id of ["k", "l", "m"]) await conversation(q, id);
        const first = await storeEvent(q, "one");
        const common = {
          conversation: "k",
          channel: "c",
          person,
          context: "fact",
          address: "{}",
          receivedAt: 1,
        };
        await enqueueTurn(q, { ...common, id: "t1", event: first, question: "one" });
        await enqueueTurn(q, {
          ...common,
          conversation: "l",
          id: "t2",
          event: null,
          question: "",
          opening: "{}",
        });
        await enqueueTurn(q, {
          ...common,
          conversation: "m",
          id: "t3",
          event: null,
          question: "q",
          session: "s",
        });
        return first;
      });
      const row = await db.read((q) =>
        q.one<{ received_at: number }>("SELECT received_at FROM events WHERE id = $1", first),
      );
      expect(await joinable()).toMatchObject({
        id: "t1",
        question: "one",
        context: "fact",
        first_at: row?.received_at,
      });
      expect([await joinable("k", "b@example.org"), await joinable("l"), await joinable("m")]).toEqual([
        null,
        null,
        null,
      ]);
      await db.tx((q) => turn(q, "t4", "k", { person: "b@example.org" }));
      expect(await joinable()).toBeNull();
      await db.tx((q) => concludeTurn(q, "t4", { state: "asking", open: 1 }));
      expect(await joinable("k", "b@example.org")).toBeNull();
    });

    it("move the turn's due time, but not before a time it has to wait for", async () => {
      const db = await fresh(newDatabase);
      const own = { turn: "t1", trace: "m1 m2", conversation: "k", context: null };
      const to = { address: '{"to":[1]}', replyTo: null, untagged: null };
      const change = { ...own, ...to, question: "one\ntwo", receivedAt: 5 };
      const far = Date.now() + 3_600_000;
      await db.tx(async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k");
        await extendTurn(q, { ...change, dueAt: far });
      });
      expect(await db.tx((q) => lease(q, "in"))).toEqual([]);
      expect(await db.read((q) => readTurn(q, "t1"))).toMatchObject({ question: "one\ntwo", received_at: 5 });
      await db.tx((q) => extendTurn(q, { ...change, dueAt: 1 }));
      const [leased] = await db.tx((q) => lease(q, "in"));
      expect(leased && (await db.tx((q) => headTurn(q, leased)))?.address).toBe('{"to":[1]}');
      await db.tx(async (q) => {
        await q.run("UPDATE turns SET attempts = 1, due_at = $1", far);
        await extendTurn(q, { ...change, dueAt: 1 });
      });
      const due = await db.read((q) => q.one<{ due_at: number }>("SELECT due_at FROM turns"));
      expect(due?.due_at).toBe(far);
    });

    it("are due together when marked so, and settled together", async () => {
      const db = await fresh(newDatabase);
      const ids = await db.tx(async (q) => {
        await conversation(q, "k");
        const common = {
          conversation: "k",
          channel: "c",
          person,
          context: null,
          address: "{}",
          receivedAt: 1,
        };
        await enqueueTurn(q, {
          ...common,
          id: "t1",
          event: null,
          question: "one",
          dueAt: Date.now() + 3_600_000,
        });
        const ids = [await storeEvent(q, "one"), await storeEvent(q, "two"), await storeEvent(q, "other")];
        for (const id of ids.slice(0, 2))
          await recordOutcome(q, id, { state: "routed", conversation: "k", turn: "t1" });
        return ids;
      });
      expect(await db.tx((q) => lease(q, "in"))).toEqual([]);
      await db.tx((q) => recordOutcomesOf(q, "t1", { state: "failed", code: "not-asked", reason: "no" }));
      const states = await db.read((q) =>
        q.all<{ state: string; turn: string | null }>("SELECT state, turn FROM events ORDER BY id"),
      );
      expect([ids.length, states]).toEqual([
        3,
        [
          { state: "failed", turn: "t1" },
          { state: "failed", turn: "t1" },
          { state: "stored", turn: null },
        ],
      ]);
    });
  });

  describe("texts of the channel itself", () => {
    it("go out before what waits, in their own order, and are counted", async () => {
      const db = await fresh(newDatabase);
      const forced = async (q: Query, id: string) => {
        await notice(q, `r${id}`);
        const common = { conversation: "k", channel: "c", recipient: person, body: "{}", dueAt: 0 };
        await enqueueDraft(q, { ...common, id, reply: `r${id}`, forced: true });
      };
      await db.tx(async (q) => {
        await conversation(q, "k");
        await draft(q, "late", "k", 3_600_000);
        await forced(q, "n1");
        await forced(q, "n2");
      });
      const [leased] = await db.tx((q) => lease(q, "out"));
      const head = () => db.read(async (q) => leased && (await headDraft(q, leased)));
      expect(await head()).toMatchObject({ id: "n1", forced: 1 });
      await db.tx((q) => concludeDraft(q, "n1", { state: "sent", open: 0 }));
      expect(await head()).toMatchObject({ id: "n2" });
      await db.tx((q) => concludeDraft(q, "n2", { state: "sent", open: 0 }));
      expect(await head()).toMatchObject({ id: "late", forced: 0 });
      expect(await db.read((q) => countNotices(q, "k", 60_000))).toBe(2);
      expect(await db.read((q) => countNotices(q, "other", 60_000))).toBe(0);
      const ready = await db.read((q) => readyReplies(q, "c", 9));
      expect(ready.map(({ id, kind, address, turn: of }) => [id, kind, address, of])).toEqual([
        ["rlate", "answer", null, null],
        ["rn1", "notice", '{"to":[]}', null],
        ["rn2", "notice", '{"to":[]}', null],
      ]);
    });

    it("reach a person once within the given time, in any of their conversations on the channel", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (const id of ["k", "l", "shared", "other"]) await conversation(q, id);
        await q.run("UPDATE conversations SET person = 'b@example.org' WHERE id IN ('shared', 'other')");
        for (const id of ["k", "shared"]) await notice(q, `old-${id}`, id);
        await q.run("UPDATE replies SET created_at = created_at - 60000");
      });
      const address = firstTo({ address: person }, null);
      const stored = (id: string, on: string, withinMs: number, text = "x") =>
        db.tx(async (q) => {
          const own = { channel: "c", conversation: on, address, text, forced: false, internal: true };
          await insertNotices(q, [{ id, ...own, once: { person, withinMs } }]);
          return q.one("SELECT kind, state, text, address, internal, turn, transfer FROM replies WHERE id = $1", id);
        });
      expect(await stored("r1", "k", 90_000)).toBeUndefined();
      expect(await stored("r2", "l", 90_000)).toBeUndefined();
      // Somebody else opened this conversation, and the person takes part in it.
      expect(await stored("r3", "shared", 90_000)).toBeUndefined();
      const row = {
        kind: "notice",
        state: "ready",
        address: JSON.stringify({ ...address, forced: false }),
        internal: 1,
        turn: null,
        transfer: 0,
      };
      expect(await stored("r4", "l", 90_000, "other text")).toEqual({ ...row, text: "other text" });
      expect(await stored("r5", "l", 30_000)).toEqual({ ...row, text: "x" });
      expect(await stored("r6", "other", 30_000)).toBeUndefined();
    });

    it("are no reply of the agent: the introduction is still due", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await notice(q, "rn");
        await enqueueDraft(q, {
          id: "n",
          conversation: "k",
          channel: "c",
          reply: "rn",
          recipient: person,
          body: "{}",
          dueAt: 0,
        });
        await changeReply(q, "rn", "composed", null);
      });
      expect(await db.read((q) => hasEarlierReply(q, "k"))).toBe(false);
      await db.tx(async (q) => {
        await draft(q, "d1", "k");
        await changeReply(q, "rd1", "composed", null);
      });
      expect(await db.read((q) => hasEarlierReply(q, "k"))).toBe(true);
    });

    it("are bound with their lanes to our address that the person writes to", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (const id of ["k", "other"]) await conversation(q, id);
        await bindVia(q, "k", "+15550199");
      });
      expect((await db.read((q) => readConversation(q, "k"))).via).toBe("+15550199");
      const senders = await db.read((q) => q.all("SELECT conversation, sender FROM lanes ORDER BY id"));
      const lanes = (of: string, sender: string) => [1, 2].map(() => ({ conversation: of, sender }));
      expect(senders).toEqual([...lanes("k", "+15550199"), ...lanes("other", "")]);
    });

    it("are not superseded, nor is the rest of what has begun to go out, nor by our own beginnings", async () => {
      const db = await fresh(newDatabase);
      const part = (q: Query, id: string, reply: string) =>
        enqueueDraft(q, {
          id,
          conversation: "k",
          channel: "c",
          reply,
          recipient: person,
          body: "{}",
          dueAt: 0,
        });
      await db.tx(async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k");
        const common = { conversation: "k", channel: "c", turn: "t1", text: "x", platformId: null };
        await insertReply(q, { ...common, id: "r1" });
        await insertReply(q, { ...common, id: "r2", kind: "opening" });
        for (const [id, reply] of [
          ["d1", "r1"],
          ["d2", "r1"],
          ["o1", "r2"],
        ] as const)
          await part(q, id, reply);
        const own = {
          conversation: "k",
          channel: "c",
          person,
          event: null,
          question: "",
          context: null,
          address: "{}",
          receivedAt: 1,
        };
        await enqueueTurn(q, { ...own, id: "t2", opening: "{}" });
        for (const kind of ["relayed", "mode"] as const) await enqueueTurn(q, { ...own, id: kind, kind });
      });
      const superseded = async (id: string) => {
        const found = await db.read((q) => readDraft(q, id));
        return found && db.read((q) => isSuperseded(q, found));
      };
      expect(await superseded("d1")).toBe(false);
      await db.tx((q) => turn(q, "t3", "k"));
      expect([await superseded("d1"), await superseded("o1")]).toEqual([true, false]);
      await db.tx((q) => concludeDraft(q, "d1", { state: "sent", open: 0 }));
      expect(await superseded("d2")).toBe(false);
    });
  });

  describe("consent", () => {
    it("suppresses at once, and lifting forgets the strikes", async () => {
      const db = await fresh(newDatabase);
      const why = () => db.read((q) => suppression(q, "c", person));
      await db.tx((q) => strike(q, "c", person, 2, "bounced"));
      await db.tx((q) => suppress(q, "c", "A@Example.org", "said STOP"));
      await db.tx((q) => strike(q, "c", person, 2, "bounced again"));
      expect(await why()).toBe("said STOP");
      await db.tx((q) => lift(q, "c", "a@EXAMPLE.org"));
      expect(await why()).toBeNull();
      expect(await db.tx((q) => strike(q, "c", person, 2, "bounced"))).toBe(false);
      await db.tx((q) => suppress(q, "d", person, "elsewhere"));
      expect(await why()).toBeNull();
    });

    it("does not wait for room in the channel", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await insertEvent(q, event("one"));
        await insertEvent(q, event("stop", { exempt: true }));
        await postponeChannel(q, "c", 60_000, true);
      });
      const rows = await db.read((q) => storedEvents(q, "c", 9));
      expect(rows.map(({ code }) => code)).toEqual([exempt]);
    });
  });

  describe("a conversation that begins with us", () => {
    const wanted = {
      channel: "c",
      agent: "agent",
      address: "Ann@example.org",
      name: "Ann",
      opening: { introduction: "Hello", subject: "Hi", context: null, speak: true },
    };
    const outcome = (db: Database, id: string) => db.read((q) => openingOutcome(q, id));

    it("is a turn without a question, with its person as participant", async () => {
      const db = await fresh(newDatabase);
      const begun = await db.tx((q) => begin(q, systemClock, wanted));
      const [leased] = await db.tx((q) => lease(q, "in"));
      const head = leased && (await db.read((q) => headTurn(q, leased)));
      expect(head).toMatchObject({ id: begun.turn, question: "", event: null, person: "ann@example.org" });
      expect(JSON.parse(head?.opening ?? "")).toEqual(wanted.opening);
      expect(JSON.parse(head?.address ?? "")).toMatchObject({
        to: [{ address: "Ann@example.org", name: "Ann" }],
        subject: "Hi",
        answers: null,
      });
      const row = await db.read((q) => readConversation(q, begun.conversation));
      expect(row).toMatchObject({ person: "ann@example.org", person_name: "Ann", platform_id: null });
    });

    it("is begun once by two processes at the same time, and again only when asked for", async () => {
      const where = await newDatabase();
      const db = await fresh(() => Promise.resolve(where));
      const other = await where.open();
      const none: Pick<Opening, "introduction" | "subject"> = { introduction: null, subject: null };
      const starts = (on: Database, opening: Partial<Opening> = {}, defaults = none) =>
        on.tx(async (q) => {
          const own = { ...wanted, opening: { ...wanted.opening, ...opening } };
          const before = await begunBefore(q, own, defaults, standardTiming.commands.sameText);
          return before ?? (await begin(q, systemClock, own));
        });
      const both = await Promise.all([starts(db), starts(other), starts(db), starts(other)]);
      expect(new Set(both.map(({ turn: of }) => of)).size).toBe(1);
      expect(both.filter((one) => "ago" in one)).toHaveLength(3);
      const [first] = both;
      const same = { turn: first?.turn, state: "waiting" };
      expect(await starts(db, { introduction: " Hello " })).toMatchObject(same);
      expect(await starts(db, { context: "another" }), "the person sees the same").toMatchObject(same);
      await db.tx((q) => q.run("UPDATE turns SET made_at = made_at - 86400000"));
      expect(await starts(db), "it still waits after a day").toMatchObject(same);
      await db.tx((q) => q.run("UPDATE turns SET made_at = made_at + 86400000"));
      const other1 = await starts(db, { introduction: "Something else" });
      expect("ago" in other1).toBe(false);
      // The agent's own introduction is equal whether it was given or omitted.
      expect("ago" in (await starts(db, { introduction: null }, { introduction: "Hello", subject: null }))).toBe(true);
      // What has failed is begun anew.
      await db.tx((q) => concludeTurn(q, first?.turn ?? "", { state: "failed", open: 0 }));
      const next = await starts(db);
      expect("ago" in next).toBe(false);
      // What was sent is begun anew after some minutes, and what still waits is not.
      await db.tx((q) => q.run("UPDATE turns SET made_at = made_at - 601000"));
      expect("ago" in (await starts(db))).toBe(true);
      await db.tx((q) => concludeTurn(q, next.turn, { state: "answered", open: 0 }));
      expect("ago" in (await starts(db))).toBe(false);
    });

    it("has an outcome at every stage", async () => {
      const db = await fresh(newDatabase);
      const { turn: id, conversation: of } = await db.tx((q) => begin(q, systemClock, wanted));
      const seen = [await outcome(db, id)];
      const step = async (work: (q: Query) => Promise<void>) => {
        await db.tx(work);
        seen.push(await outcome(db, id));
      };
      await step((q) => concludeTurn(q, id, { state: "answered", open: 0 }));
      await step((q) =>
        insertReply(q, {
          id: "r",
          conversation: of,
          channel: "c",
          turn: id,
          text: "x",
          platformId: null,
          kind: "opening",
        }),
      );
      await step((q) => concludeReply(q, "r", "failed", "a defect"));
      await step(async (q) => {
        await concludeReply(q, "r", "composed", null);
        for (const part of ["d1", "d2"]) {
          await enqueueDraft(q, {
            id: part,
            conversation: of,
            channel: "c",
            reply: "r",
            recipient: person,
            body: "{}",
            dueAt: 0,
          });
        }
      });
      await step((q) => concludeDraft(q, "d1", { state: "delivered", open: 0 }));
      await step((q) => concludeDraft(q, "d2", { state: "sending", open: 1 }));
      await step((q) => concludeDraft(q, "d2", { state: "unknown", open: 1, reason: "cut off" }));
      await step((q) => concludeDraft(q, "d2", { state: "held", open: 0, reason: "nobody knows" }));
      await step((q) => concludeDraft(q, "d2", { state: "dropped", open: 0, reason: "suppressed" }));
      await step((q) => concludeDraft(q, "d2", { state: "sent", open: 0 }));
      await step((q) => concludeTurn(q, id, { state: "failed", open: 0, reason: "refused" }));
      expect(seen.map(({ state, reason }) => (reason ? `${state}: ${reason}` : state))).toEqual([
        "waiting",
        "waiting",
        "waiting",
        "failed: a defect",
        "waiting",
        "waiting",
        "unknown",
        "unknown: cut off",
        "held: nobody knows",
        "dropped: suppressed",
        "sent",
        "failed: refused",
      ]);
      await expect(outcome(db, "none")).rejects.toThrow("there is none");
    });
  });
});
