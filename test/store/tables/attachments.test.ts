// Attachments whose bytes are elsewhere: who may fetch them, and what becomes of the claim.

import { describe, expect, it } from "vitest";
import {
  abandonFetch,
  claimFetches,
  endFetch,
  type Fetch,
  keepFetched,
  postponeFetch,
} from "../../../src/pipeline/fetch/rows.ts";
import type { Database } from "../../../src/store/driver.ts";
import { LeaseLost } from "../../../src/store/lanes.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { dueChannels, fresh, onEachDatabase, storeEvent } from "../../support/store/databases.ts";

const elsewhere = (name: string) => ({
  name,
  mediaType: "image/png",
  size: null,
  blob: null,
  ref: `"${name}"`,
  named: true,
});
const bytes = (text: string) => ({ id: text, bytes: Buffer.from(text) });

/** One event with that many attachments to fetch. */
async function announced(db: Database, count: number): Promise<void> {
  const attachments = Array.from({ length: count }, (_, index) => elsewhere(`${index}`));
  await db.tx((q) => storeEvent(q, "e", { attachments }));
}

const claim = (db: Database, holder: string, limit = 10, leaseMs = 60_000) =>
  db.tx((q) => claimFetches(q, "c", holder, leaseMs, limit));
const until: unknown = expect.any(Number);
const due = (db: Database) => db.read((q) => dueChannels(q, "attachments"));

onEachDatabase((newDatabase) => {
  describe("attachments elsewhere", () => {
    it("are found where there are any, and claimed once", async () => {
      const db = await fresh(newDatabase);
      expect(await due(db)).toEqual([]);
      await announced(db, 3);
      expect(await due(db)).toEqual(["c"]);
      const claims = [await claim(db, "a", 2), await claim(db, "b"), await claim(db, "d")];
      expect(claims.map(({ length }) => length)).toEqual([2, 1, 0]);
      expect(claims.flat().every(({ attempts }) => attempts === 1)).toBe(true);
      expect(await due(db)).toEqual([]);
    });

    it("are claimed by one of two connections that ask at once", async () => {
      const where = await newDatabase();
      const [one, two] = [await where.open(), await where.open()];
      await migrate(one);
      await announced(one, 8);
      const claims = await Promise.all([claim(one, "a"), claim(two, "b")]);
      expect(claims.flat().map(({ position }) => position)).toHaveLength(8);
      expect(new Set(claims.flat().map(({ position }) => position)).size).toBe(8);
    });

    it("have their bytes, are due later, or never, and a claim writes once", async () => {
      const db = await fresh(newDatabase);
      await announced(db, 3);
      const [kept, later, never] = await claim(db, "a");
      if (!kept || !later || !never) throw new Error("not all were claimed");
      await db.tx(async (q) => {
        await keepFetched(q, kept, bytes("one"));
        await postponeFetch(q, later, 0, "not now");
        await endFetch(q, never, "never");
      });
      for (const fetch of [kept, never])
        await expect(db.tx((q) => keepFetched(q, fetch, bytes("two")))).rejects.toThrow(LeaseLost);
      const rows = await db.read((q) =>
        q.all("SELECT blob, size, holder, reason FROM attachments ORDER BY event, position"),
      );
      expect(rows).toHaveLength(3);
      expect(rows).toEqual(
        expect.arrayContaining([
          { blob: "one", size: 3, holder: null, reason: null },
          { blob: null, size: null, holder: null, reason: "not now" },
          { blob: null, size: null, holder: null, reason: "never" },
        ]),
      );
      const again = await claim(db, "a");
      expect(again).toEqual([{ ...later, attempts: 2, until }]);
      await expect(db.tx((q) => endFetch(q, later, "stale"))).rejects.toThrow(LeaseLost);
    });

    it("go to another holder when the claim is over; to the same one only when it let go", async () => {
      const db = await fresh(newDatabase);
      await announced(db, 1);
      const [fetch] = await claim(db, "a", 1, -1);
      if (!fetch) throw new Error("nothing was claimed");
      expect(await claim(db, "a")).toEqual([]);
      await db.tx((q) => abandonFetch(q, fetch));
      expect(await claim(db, "a", 1, -1)).toEqual([{ ...fetch, attempts: 2, until }]);
      await db.tx((q) => abandonFetch(q, fetch));
      expect(await claim(db, "a"), "an old claim lets go of nothing").toEqual([]);
      expect(await claim(db, "b")).toEqual([{ ...fetch, attempts: 3, until }]);
    });

    it("stay with the later claim when one with the same number was rolled back", async () => {
      const db = await fresh(newDatabase);
      await announced(db, 1);
      const lost: Fetch[] = [];
      const outage = db.tx(async (q) => {
        lost.push(...(await claimFetches(q, "c", "a", -1, 1)));
        throw new Error("Connection terminated unexpectedly");
      });
      await expect(outage).rejects.toThrow("terminated");
      await claim(db, "b");
      for (const fetch of lost) await db.tx((q) => abandonFetch(q, fetch));
      expect(lost).toEqual([expect.objectContaining({ attempts: 1 })]);
      expect(await db.read((q) => q.all("SELECT holder, attempts FROM attachments"))).toEqual([
        { holder: "b", attempts: 1 },
      ]);
    });
  });
});
