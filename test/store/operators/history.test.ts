// The history of a conversation, and the search for it.

import { describe, expect, it } from "vitest";
import { acknowledgeEscalation } from "../../../src/escalation/reply/rows.ts";
import type { Query } from "../../../src/store/driver.ts";
import { find, listConversations, summariesOf } from "../../../src/store/operators/find.ts";
import { conversationHistory, eventHistory } from "../../../src/store/operators/history.ts";
import { listEvents, releaseEvent } from "../../../src/store/operators/inbox.ts";
import { dropDraft, resendDraft } from "../../../src/store/operators/outbox.ts";
import { timelineOf } from "../../../src/store/operators/timeline.ts";
import { recordOutcome } from "../../../src/store/tables/events.ts";
import { onEachDatabase, put, storeEvent, withConversation } from "../../support/store/databases.ts";

onEachDatabase((newDatabase) => {
  describe("history", () => {
    it("has every step of a conversation in order, with all attempts and the responses of the servers", async () => {
      const { db, asked } = await withConversation(newDatabase);
      const history = await db.read((q) => conversationHistory(q, "k1", 100));
      if (history === null) throw new Error("no history");
      const entries = timelineOf(history);
      expect(entries.map(({ at }) => at)).toEqual(entries.map(({ at }) => at).toSorted((a, b) => a - b));
      const of = (kind: string) => entries.filter((one) => one.kind === kind);
      expect(of("received")).toMatchObject([
        {
          title: `message ${asked} from a@example.org (Anna)`,
          text: "Subject: Lieferung Möbel\nWhere is it?\u001b[2J",
          ids: [
            ["Message-ID", "<hello@example.org>"],
            ["provider", "INBOX/1/7"],
            ["question", "t1"],
          ],
          raw: asked,
        },
      ]);
      expect(of("asked")).toMatchObject([
        { state: "deferred", detail: "503 Service Unavailable", duration: expect.any(Number) },
        { state: "sent", title: "asked the agent, attempt 2: accepted" },
      ]);
      expect(of("reply")).toMatchObject([{ text: "text", title: "answer of the agent" }]);
      expect(of("sent")).toMatchObject([
        { state: "deferred", detail: "451 4.7.1 try again later" },
        {
          state: "sent",
          detail: "250 2.0.0 OK queued as 4F1",
          ids: [["sent as", "<reply@bridge.example>"]],
        },
      ]);
      expect(of("receipt")).toMatchObject([
        { title: "delivery receipt: delivered by a@example.org", detail: "2.1.5 delivered" },
      ]);
      expect(of("escalation").map(({ title, detail, text }) => [title, detail ?? text])).toEqual(
        expect.arrayContaining([
          [expect.stringMatching(/^escalation \d+ opened: /), "asked for a human"],
          [expect.stringMatching(/^note on escalation \d+$/), "Dora: calls back"],
        ]),
      );
      expect(of("notification").map(({ title }) => title)).toEqual([expect.stringMatching(/^notified: /)]);
    });

    it("has the actions of operators with their names", async () => {
      const { db, refused } = await withConversation(newDatabase);
      await db.tx(async (q) => {
        await put(q, "drafts", "d1", "state = 'held'");
        await dropDraft(q, "d1", "dora");
        await resendDraft(q, "d1", "emil");
        await releaseEvent(q, refused, "dora");
      });
      const history = await db.read((q) => conversationHistory(q, "k1", 100));
      expect(history?.actions).toMatchObject([
        { action: "drop", actor: "dora", draft: "d1" },
        { action: "resend", actor: "emil", draft: "d1" },
      ]);
      expect((await db.read((q) => eventHistory(q, refused)))?.actions).toMatchObject([
        { action: "answer", actor: "dora", event: refused },
      ]);
      // An action that was rejected is not recorded.
      await expect(db.tx((q) => dropDraft(q, "nope"))).rejects.toThrow("there is none");
    });

    it("is limited to the newest rows of each kind and says so, in a fixed number of statements", async () => {
      const { db } = await withConversation(newDatabase);
      await db.tx(async (q) => {
        for (let i = 0; i < 20; i++) {
          const id = await storeEvent(q, `more${i}`);
          await recordOutcome(q, id, { state: "routed", conversation: "k1" });
        }
      });
      const counted = async (limit: number) => {
        let statements = 0;
        const history = await db.read((q) => {
          const counting: Query = {
            ...q,
            all: (sql, ...values) => (statements++, q.all(sql, ...values)),
            one: (sql, ...values) => (statements++, q.one(sql, ...values)),
          };
          return conversationHistory(counting, "k1", limit);
        });
        return { statements, events: history?.events.length, cut: history?.cut };
      };
      const all = await counted(100);
      expect(all).toMatchObject({ events: 22, cut: false });
      expect(await counted(5)).toEqual({ statements: all.statements, events: 5, cut: true });
      expect(all.statements).toBeLessThan(12);
    });

    it("has the beginning of each text, as long as the caller wants", async () => {
      const { db, asked } = await withConversation(newDatabase);
      const long = "a long text ".repeat(10_000);
      const whole = { kind: "message", text: long, subject: long, from: { address: "a@example.org", name: "Anna" } };
      await db.tx(async (q) => {
        await q.run("UPDATE events SET body = $1 WHERE id = $2", JSON.stringify(whole), asked);
        await q.run("UPDATE turns SET question = $1, context = $1", long);
        await q.run("UPDATE replies SET text = $1", long);
      });
      const read = (most?: number) => db.read((q) => conversationHistory(q, "k1", 100, most));
      const [all, bounded] = [await read(), await read(1000)];
      expect(JSON.stringify(all).length).toBeGreaterThan(5 * long.length);
      expect(JSON.stringify(bounded).length).toBeLessThan(long.length / 10);
      const texts =
        bounded === null ? [] : timelineOf(bounded).filter(({ text }) => text?.includes(long.slice(0, 1000)));
      expect(texts.map(({ kind }) => kind)).toEqual(["received", "question", "reply"]);
      expect(texts[0]?.title).toBe(`message ${asked} from a@example.org (Anna)`);
    });

    it("is found by any id, address or word of the subject", async () => {
      const { db, asked, refused } = await withConversation(newDatabase);
      const found = (text: string) => db.read((q) => find(q, text, { limit: 10 }));
      for (const query of [
        "k1",
        "conv_1",
        "tokenk1",
        "t1",
        "rd1",
        "d1",
        "e1",
        "msg_question",
        "msg_answer",
        "<hello@example.org>",
        "hello@example.org",
        "INBOX/1/7",
        "<reply@bridge.example>",
        "reply@bridge.example",
        "A@example.org",
        "a@exam",
        "möbel",
        "MÖBEL liefer",
        String(asked),
      ])
        expect([query, await found(query)]).toEqual([query, [expect.objectContaining({ conversation: "k1" })]]);
      for (const query of [
        "news@shop.example",
        "shop.ex",
        "<news@shop.example>",
        "50%_off",
        "off 50%",
        String(refused),
      ])
        expect([query, await found(query)]).toEqual([
          query,
          [expect.objectContaining({ conversation: null, event: refused })],
        ]);
      for (const query of ["50_off", "%%", "nothing of that kind", "", "möbel shop"])
        expect(await found(query)).toEqual([]);
      expect(await db.read((q) => find(q, "example", { limit: 1 }))).toHaveLength(1);
      expect(await db.read((q) => find(q, "shop", { limit: 9, since: Date.now() + 60_000 }))).toEqual([]);
    });

    it("is summarized by the newest message and what became of it", async () => {
      const { db, asked } = await withConversation(newDatabase);
      const state = async () => {
        const summary = (await db.read((q) => summariesOf(q, ["k1"]))).get("k1");
        return [summary?.state, summary?.reason];
      };
      const set = (table: Parameters<typeof put>[1], id: string, change: string) =>
        db.tx((q) => put(q, table, id, change));
      expect(await state()).toEqual(["answered", null]);
      await set("drafts", "d1", "state = 'held', reason = 'it may have been sent'");
      expect(await state()).toEqual(["held", "it may have been sent"]);
      await set("turns", "t1", "state = 'unknown', reason = '502'");
      expect(await state()).toEqual(["waiting", "502"]);
      await db.tx((q) =>
        q.run("UPDATE events SET state = 'failed', code = 'not-asked', reason = '400' WHERE id = $1", asked),
      );
      expect(await state()).toEqual(["failed", "not-asked: 400"]);
      const listed = (filter: Parameters<typeof listConversations>[1]) =>
        db.read((q) => listConversations(q, filter)).then((rows) => rows.map(({ id }) => id));
      expect(await listed({ limit: 9 })).toEqual(["k1"]);
      expect(await listed({ limit: 9, state: "attention", channel: "c" })).toEqual(["k1"]);
      expect(await listed({ limit: 9, channel: "other" })).toEqual([]);
      expect(await listed({ limit: 9, since: Date.now() + 60_000 })).toEqual([]);
      expect(await listed({ limit: 9, state: "waiting" })).toEqual([]);
      await set("turns", "t1", "state = 'waiting', open = 1");
      expect(await listed({ limit: 9, state: "waiting" })).toEqual(["k1"]);
      await db.tx(async (q) => {
        await q.run("UPDATE events SET state = 'routed'");
        await put(q, "drafts", "d1", "state = 'sent'");
        await acknowledgeEscalation(q, "e1", { name: "Dora", target: "o" });
      });
      expect(await listed({ limit: 9, state: "attention" })).toEqual(["k1"]);
    });

    it("is found by the id of a message of the platform, in statements of limited length", async () => {
      const { db } = await withConversation(newDatabase);
      await db.tx((q) => put(q, "turns", "t1", "question_id = 'message_1234'"));
      const copies = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000)`;
      await db.tx(async (q) => {
        await q.run(
          `${copies} INSERT INTO turns (id, conversation, channel, person, seq, state, open, question, address, due_at, received_at, made_at, updated_at)
           SELECT 'y' || i, 'k1', 'c', 'p', 1000 + i, 'answered', 0, '', '{}', 1, 1, 1, 1 FROM n`,
        );
        await q.run(
          `${copies} INSERT INTO replies (id, conversation, channel, state, text, created_at, platform_id)
           SELECT 'y' || i, 'k1', 'c', 'composed', '', 1, 'answer_' || i FROM n`,
        );
      });
      let longest = 0;
      const found = (text: string) =>
        db.read(async (q) => {
          const hits = await find(
            {
              ...q,
              all: (sql, ...values) => {
                const limits = [...sql.matchAll(/LIMIT (\d+)\s*\) AS part WHERE message/g)];
                for (const [, limit] of limits) longest = Math.max(longest, Number(limit));
                return q.all(sql, ...values);
              },
            },
            text,
            { limit: 10 },
          );
          return hits.map(({ conversation, what }) => [conversation, what]);
        });
      const expected = [["k1", "platform message"]];
      expect(await found("message_1234")).toEqual(expected);
      expect(await found("answer_4001")).toEqual(expected);
      expect(await found("answer_9")).toEqual(expected);
      expect(await found("answer_9001")).toEqual([]);
      expect(longest).toBeGreaterThan(0);
      expect(longest).toBeLessThan(9000);
    });

    it("lists answered and waiting messages, and only those of the time asked for", async () => {
      const { db, asked, refused } = await withConversation(newDatabase);
      const ids = (filter: Parameters<typeof listEvents>[1]) =>
        db.read((q) => listEvents(q, filter)).then(({ events }) => events.map(({ id }) => id));
      expect(await ids({ state: "answered", kind: "message", limit: 9 })).toEqual([asked]);
      expect(await ids({ state: "waiting", limit: 9 })).toEqual([]);
      await db.tx((q) => put(q, "turns", "t1", "state = 'waiting', open = 1"));
      expect(await ids({ state: "waiting", limit: 9 })).toEqual([asked]);
      expect(await ids({ state: "answered", kind: "message", limit: 9 })).toEqual([]);
      expect(await ids({ state: "all", kind: "message", limit: 9 })).toEqual([refused, asked]);
      expect(await ids({ state: "ignored", since: Date.now() + 60_000, limit: 9 })).toEqual([]);
    });
  });
});
