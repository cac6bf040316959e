// The lists and counts of the console.

import { describe, expect, it } from "vitest";
import { releaseEvent } from "../../../src/store/operators/inbox.ts";
import { countHour, lastQuestions } from "../../../src/store/operators/overview.ts";
import {
  countWaiting,
  groupMessages,
  groupReplies,
  type ListedItem,
  type ListFilter,
  listMessages,
  listReplies,
  listWaiting,
  waitingKinds,
} from "../../../src/store/operators/worklists.ts";
import { conversation, draft, fresh, onEachDatabase, put, storeEvent, turn } from "../../support/store/databases.ts";

const hour = 3_600_000;
const byName = (a: readonly unknown[], b: readonly unknown[]): number => String(a[0]).localeCompare(String(b[0]));

onEachDatabase((newDatabase) => {
  describe("worklists", () => {
    it("list refused messages by page, code, channel, and a part of the sender or subject", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let n = 0; n < 7; n++) {
          const sender = n === 3 ? "100%_Anna!@Example.org" : `p${n}@example.org`;
          const id = await storeEvent(q, `e${n}`, {
            sender,
            subject: n === 4 ? "ÜBER Preise" : `s${n}`,
            channel: n === 5 ? "d" : "c",
          });
          await put(
            q,
            "events",
            String(id),
            `state = 'ignored', code = '${n % 2 === 0 ? "list" : "denied"}', reason = 'r${n}'`,
          );
        }
        await storeEvent(q, "open");
      });
      const list = (filter: Partial<ListFilter>) =>
        db.read((q) => listMessages(q, ["ignored"], { limit: 9, ...filter }));
      const reasons = (items: readonly ListedItem[]) => items.map(({ reason }) => reason);
      expect(reasons(await list({}))).toEqual(["r6", "r5", "r4", "r3", "r2", "r1", "r0"]);
      const first = await list({ limit: 3 });
      expect(reasons(await list({ limit: 3, after: first.at(-1)?.position }))).toEqual(["r3", "r2", "r1"]);
      expect(reasons(await list({ reason: "denied" }))).toEqual(["r5", "r3", "r1"]);
      expect(reasons(await list({ channel: "d" }))).toEqual(["r5"]);
      expect(reasons(await list({ text: "0%_anna!" }))).toEqual(["r3"]);
      expect(reasons(await list({ text: "%" }))).toEqual(["r3"]);
      expect(reasons(await list({ text: "preise" }))).toEqual(["r4"]);
      expect(await db.read((q) => groupMessages(q, ["ignored"]))).toEqual([
        { channel: "c", group: "list", reason: "r0", count: 4 },
        { channel: "c", group: "denied", reason: "r1", count: 2 },
        { channel: "d", group: "denied", reason: "r5", count: 1 },
      ]);
    });

    it("list held replies by page and reason, the last changed first", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let n = 0; n < 5; n++) {
          await conversation(q, `k${n}`);
          await draft(q, `d${n}`, `k${n}`);
          const code = n === 4 ? "NULL" : `'code${n % 2}'`;
          // Two of them in the same millisecond.
          await put(
            q,
            "drafts",
            `d${n}`,
            `state = 'held', open = 0, code = ${code}, updated_at = ${1000 + Math.floor(n / 2)}`,
          );
        }
      });
      const list = (filter: Partial<ListFilter>) => db.read((q) => listReplies(q, "held", { limit: 9, ...filter }));
      const ids = (items: readonly ListedItem[]) => items.map(({ id }) => id);
      expect(ids(await list({}))).toEqual(["d4", "d3", "d2", "d1", "d0"]);
      const seen: string[] = [];
      let after: string | undefined;
      for (;;) {
        const page = await list({ limit: 2, after });
        if (page.length === 0) break;
        seen.push(...ids(page));
        after = page.at(-1)?.position;
      }
      expect(seen).toEqual(["d4", "d3", "d2", "d1", "d0"]);
      expect(ids(await list({ reason: "code1" }))).toEqual(["d3", "d1"]);
      expect(ids(await list({ reason: "held" }))).toEqual(["d4"]);
      expect(ids(await list({ text: "HELLO" }))).toEqual([]);
      const groups = await db.read((q) => groupReplies(q, "held"));
      expect(groups.map(({ group, count }) => [group, count]).toSorted(byName)).toEqual([
        ["code0", 2],
        ["code1", 2],
        ["held", 1],
      ]);
    });

    it("list what waits, the oldest due first", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await storeEvent(q, "stored");
        for (const n of [1, 2]) await conversation(q, `k${n}`);
        await turn(q, "t", "k1");
        await draft(q, "late", "k1", 2 * hour);
        await draft(q, "soon", "k2", hour);
      });
      const ids = async (kind: "messages" | "questions" | "replies", channel?: string) =>
        (await db.read((q) => listWaiting(q, kind, { limit: 9, channel }))).map(({ id }) => id);
      expect(await ids("messages")).toHaveLength(1);
      expect(await ids("questions", "c")).toEqual(["t"]);
      expect(await ids("replies")).toEqual(["soon", "late"]);
      expect(await ids("replies", "other")).toEqual([]);
    });

    it("list waiting rows by page, in any states, and count them", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let n = 0; n < 12; n++) {
          await storeEvent(q, `e${n}`);
          await conversation(q, `k${n}`);
          await turn(q, `t${n}`, `k${n}`);
          await draft(q, `d${n}`, `k${n}`, hour);
        }
        await put(q, "drafts", "d3", "state = 'unknown'");
        // All in the same millisecond.
        await q.run("UPDATE drafts SET due_at = 1000");
        // The first message is due last.
        await q.run("UPDATE events SET due_at = due_at - 1000");
        const first = await q.one<{ id: number }>("SELECT MIN(id) AS id FROM events");
        await q.run("UPDATE events SET state = 'held' WHERE id = $1", first?.id ?? 0);
        await releaseEvent(q, first?.id ?? 0);
      });
      for (const kind of waitingKinds) {
        const seen: string[] = [];
        for (let after: string | undefined; ; ) {
          const page = await db.read((q) => listWaiting(q, kind, { limit: 5, after }));
          if (page.length === 0) break;
          seen.push(...page.map(({ id }) => id));
          after = page.at(-1)?.position;
        }
        expect(seen, kind).toHaveLength(12);
        expect(new Set(seen).size, kind).toBe(12);
        expect(await db.read((q) => countWaiting(q, kind)), kind).toBe(12);
      }
    });

    it("count an hour: received, answered, refused and held, and the last message of each channel", async () => {
      const db = await fresh(newDatabase);
      const from = 1000 * hour;
      await db.tx(async (q) => {
        const states = ["routed", "routed", "ignored", "held", "failed", "stored"];
        for (const [n, state] of states.entries()) {
          const id = await storeEvent(q, `e${n}`);
          await put(q, "events", String(id), `state = '${state}', received_at = ${from + n}`);
        }
        const before = await storeEvent(q, "before");
        await put(q, "events", String(before), `state = 'routed', received_at = ${from - 1}`);
        const next = await storeEvent(q, "next");
        await put(q, "events", String(next), `state = 'routed', received_at = ${from + hour}`);
        await storeEvent(q, "receipt", { kind: "delivery" });
        await conversation(q, "k");
        await turn(q, "t1", "k", { receivedAt: from });
        await turn(q, "t2", "k", { receivedAt: from + 1 });
        await put(q, "turns", "t1", `state = 'answered', open = 0, made_at = ${from}`);
        await put(q, "turns", "t2", `made_at = ${from + 7}`);
        await draft(q, "d", "k");
        await put(q, "drafts", "d", `state = 'held', open = 0, updated_at = ${from}`);
      });
      expect(await db.read((q) => countHour(q, from, from + hour))).toEqual({
        received: 6,
        answered: 1,
        refused: 1,
        held: 3,
        last: new Map([["c", from + 5]]),
      });
      expect(await db.read(lastQuestions)).toEqual(new Map([["c", from + 7]]));
    });
  });
});
