// Transactions, savepoints, reads and wake-ups.

import { describe, expect, it } from "vitest";
import { standardTiming } from "../../src/ops/timing.ts";
import { ManyRows, type Query } from "../../src/store/driver.ts";
import { forget } from "../../src/store/retention.ts";
import { readSettings, writeSettings } from "../../src/store/tables/agents.ts";
import { readCursor } from "../../src/store/tables/events.ts";
import { pauseChannel } from "../../src/store/tables/pauses.ts";
import { conversation, draft, fresh, onEachDatabase } from "../support/store/databases.ts";

const returned = "INSERT INTO agents (id, settings, read_at) VALUES ($1, '{}', $2) RETURNING read_at AS at";
const names = async (q: Query) =>
  (await q.all<{ id: string }>("SELECT id FROM agents ORDER BY id")).map((row) => row.id);

onEachDatabase((newDatabase) => {
  describe("transactions", () => {
    it("commits what work wrote, and only then shows it to readers", async () => {
      const db = await fresh(newDatabase);
      let during: string[] | undefined;
      await db.tx(async (q) => {
        await writeSettings(q, "one", "{}");
        during = await db.read(names);
      });
      expect(during).toEqual([]);
      expect(await db.read(names)).toEqual(["one"]);
    });

    it("stores fractions as the next integer, in every kind of statement", async () => {
      const db = await fresh(newDatabase);
      const rows = new ManyRows("INSERT INTO agents (id, settings, read_at) VALUES", "(:id, '{}', :at)");
      const insert = "INSERT INTO agents (id, settings, read_at) VALUES ($1, '{}', $2)";
      const refused = () => new Error("refused");
      await db.tx(async (q) => {
        await q.run(insert, "run", 1000.5);
        await q.write(insert, "write", 1000.0000000000001);
        await q.writeOne(refused, insert, "one", 2 ** 40 + 0.25);
        await rows.write(q, [
          { id: "many", at: 1.5 },
          { id: "more", at: -1.5 },
        ]);
        await q.defer({ use: () => undefined }, returned, "defer", 8.2 * 1000);
        await q.all(returned, "all", (1 / 3) * 86_400_000);
        await q.one(returned, "first", 0.1);
      });
      const stored = await db.read((q) => q.all("SELECT id, read_at FROM agents"));
      expect(Object.fromEntries(stored.map((row) => Object.values(row as object)))).toEqual({
        run: 1001,
        write: 1001,
        one: 2 ** 40 + 1,
        many: 2,
        more: -1,
        defer: 8200,
        all: 28_800_000,
        first: 1,
      });
    });

    it("stores an answer that is due in a fraction of a millisecond, and forgets by ages in fractions", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k");
        await draft(q, "d", "k", 1000.5);
        await pauseChannel(q, { channel: "c", code: "operator", reason: "x", event: null, forMs: 0.1 + 0.2 });
        await forget(q, { rawMs: 0.3 * 1.1, eventsMs: 86_400_000 / 7 }, standardTiming.upkeep.retentionRecheck);
      });
      const [row] = await db.read((q) => q.all<{ due_at: number }>("SELECT due_at FROM drafts"));
      expect(row?.due_at).toSatisfy(Number.isSafeInteger);
    });

    it("rolls back only the part that throws, next to other commits", async () => {
      const db = await fresh(newDatabase);
      const all = await Promise.allSettled(
        Array.from({ length: 20 }, (_, i) =>
          db.tx(async (q) => {
            await writeSettings(q, `agent${String(i).padStart(2, "0")}`, "{}");
            if (i % 3 === 0) throw new Error(`no ${i}`);
            return i;
          }),
        ),
      );
      const kept = [...Array(20).keys()].filter((i) => i % 3 !== 0);
      expect(all.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []))).toEqual(kept);
      expect(all.flatMap((one) => (one.status === "rejected" ? [String(one.reason)] : []))[1]).toBe("Error: no 3");
      expect(await db.read(names)).toEqual(kept.map((i) => `agent${String(i).padStart(2, "0")}`));
    });

    it("rolls back a failed statement and continues with the next transaction", async () => {
      const db = await fresh(newDatabase);
      await expect(
        db.tx(async (q) => {
          await writeSettings(q, "one", "{}");
          await q.run("INSERT INTO agents (id) VALUES ('two')"); // settings must not be null
        }),
      ).rejects.toThrow(/null/i);
      await db.tx((q) => writeSettings(q, "three", "{}"));
      expect(await db.read(names)).toEqual(["three"]);
    });

    it("calls onRollback for what was rolled back, newest first, and for nothing that was committed", async () => {
      const db = await fresh(newDatabase);
      const memory = new Set<string>();
      const add = (q: Query, name: string) => {
        memory.add(name);
        q.onRollback(() => void memory.delete(name));
      };
      await db.tx(async (q) => {
        add(q, "kept");
        await q
          .savepoint(async () => {
            add(q, "undone");
            throw new Error("no");
          })
          .catch(() => undefined);
        add(q, "kept, too");
      });
      expect([...memory]).toEqual(["kept", "kept, too"]);
      const order: string[] = [];
      await expect(
        db.tx(async (q) => {
          q.onRollback(() => void order.push("first"));
          q.onRollback(() => void order.push("second"));
          throw new Error("no");
        }),
      ).rejects.toThrow("no");
      expect(order).toEqual(["second", "first"]);
    });

    it("reports hops once, after the commit, and none of a transaction or savepoint that was rolled back", async () => {
      const db = await fresh(newDatabase);
      const seen: string[] = [];
      const timed = new Set<string>();
      db.observe(({ hops, syncMs }) => {
        seen.push(...hops.map(({ trace }) => trace));
        timed.add("commit");
        if (syncMs !== null) timed.add("sync");
      });
      const hop = (q: Query, trace: string) => q.hop({ name: "sent", channel: "c", trace });
      let runs = 0;
      const working = (name: string) =>
        db.tx(async (q) => {
          runs += 1;
          hop(q, `${name} first`);
          await writeSettings(q, name, "{}");
          await q
            .savepoint(async () => {
              hop(q, `${name} undone`);
              await q.run("INSERT INTO agents (id) VALUES ('broken')");
            })
            .catch(() => undefined);
          hop(q, `${name} last`);
          expect(seen.filter((one) => one.startsWith(name))).toEqual([]);
        });
      const failing = () =>
        db.tx(async (q) => {
          hop(q, "failed");
          await writeSettings(q, "failed", "{}");
          throw new Error("no");
        });
      const ended = await Promise.allSettled([working("a"), failing(), working("b")]);
      expect(ended.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      // The first run of each ended at its savepoint.
      expect(runs).toBeGreaterThan(2);
      expect(seen.toSorted()).toEqual(["a first", "a last", "b first", "b last"]);
      expect(timed).toContain("commit");
    });

    it("undoes a savepoint's writes, nested ones too, and keeps the rest", async () => {
      const db = await fresh(newDatabase);
      const failures: string[] = [];
      const failing = (work: Promise<unknown>) => work.catch((error) => failures.push(String(error)));
      await db.tx(async (q) => {
        await writeSettings(q, "a", "{}");
        await q.savepoint(async () => {
          await writeSettings(q, "b", "{}");
          await failing(
            q.savepoint(async () => {
              await writeSettings(q, "c", "{}");
              await q.run("INSERT INTO agents (id) VALUES ('broken')");
            }),
          );
        });
        await failing(
          q.savepoint(async () => {
            await q.savepoint(() => writeSettings(q, "d", "{}"));
            throw new Error("outer");
          }),
        );
        await writeSettings(q, "e", "{}");
      });
      expect(failures.slice(-2)).toEqual([expect.stringMatching(/null/i), "Error: outer"]);
      expect(await db.read(names)).toEqual(["a", "b", "e"]);
    });

    it("runs writes in their order, between the statements that are awaited", async () => {
      const db = await fresh(newDatabase);
      const seen = await db.tx(async (q) => {
        await q.write("INSERT INTO agents (id, settings, read_at) VALUES ('one', '{}', 0)");
        await q.write("UPDATE agents SET settings = '[]' WHERE id = 'one'");
        const changed = await q.run("UPDATE agents SET read_at = 1 WHERE settings = '[]'");
        await q.writeOne(() => new Error("no"), "UPDATE agents SET read_at = 2 WHERE id = 'one'");
        const row = await q.one<{ read_at: number }>("SELECT read_at FROM agents");
        await q.write("INSERT INTO agents (id, settings, read_at) VALUES ('two', '{}', 0)");
        return [changed, row?.read_at];
      });
      expect([seen, await db.read(names)]).toEqual([
        [1, 2],
        ["one", "two"],
      ]);
    });

    it.each([
      ["a write fails", (q: Query) => q.write("INSERT INTO agents (id) VALUES ('broken')"), /null/i],
      [
        "a write changes another number of rows than one",
        (q: Query) => q.writeOne(() => new Error("not one"), "UPDATE agents SET read_at = 1 WHERE id = 'x'"),
        /not one/,
      ],
    ])("keeps nothing when %s, with any further work", async (_, broken, message) => {
      const db = await fresh(newDatabase);
      const next = [
        async () => undefined,
        (q: Query) => writeSettings(q, "after", "{}"),
        (q: Query) => q.savepoint(() => writeSettings(q, "after", "{}")).catch(() => undefined),
        (q: Query) => writeSettings(q, "after", "{}").catch(() => undefined),
      ];
      for (const work of next) {
        let undone = 0;
        const failing = db.tx(async (q) => {
          q.onRollback(() => undone++);
          await writeSettings(q, "before", "{}");
          await broken(q);
          await work(q);
        });
        await expect(failing).rejects.toThrow(message);
        expect(undone).toBeGreaterThan(0);
        expect(await db.read(names)).toEqual([]);
      }
      await db.tx((q) => writeSettings(q, "kept", "{}"));
      expect(await db.read(names)).toEqual(["kept"]);
    });

    it("undoes the savepoint of a write that fails, and reports the error to its caller", async () => {
      const db = await fresh(newDatabase);
      let failures: string[] = [];
      await db.tx(async (q) => {
        failures = [];
        const failing = (work: () => Promise<unknown>) =>
          q.savepoint(work).catch((error) => failures.push(String(error)));
        await q.write("INSERT INTO agents (id, settings, read_at) VALUES ('a', '{}', 0)");
        await failing(async () => {
          await q.write("INSERT INTO agents (id, settings, read_at) VALUES ('b', '{}', 0)");
          await q.write("INSERT INTO agents (id) VALUES ('broken')");
        });
        await q.savepoint(async () => {
          await q.write("INSERT INTO agents (id, settings, read_at) VALUES ('c', '{}', 0)");
          await failing(() => q.writeOne(() => new Error("not one"), "UPDATE agents SET read_at = 1"));
        });
        await q.write("INSERT INTO agents (id, settings, read_at) VALUES ('d', '{}', 0)");
      });
      expect(failures).toEqual([expect.stringMatching(/null/i), "Error: not one"]);
      expect(await db.read(names)).toEqual(["a", "c", "d"]);
      expect(await db.read((q) => q.all("SELECT 1 FROM agents WHERE read_at = 1"))).toEqual([]);
    });

    it("binds placeholders by number, twice and out of order", async () => {
      const db = await fresh(newDatabase);
      const row = await db.read((q) =>
        q.one("SELECT CAST($2 AS TEXT) AS b, CAST($1 AS TEXT) AS a, CAST($2 AS TEXT) AS c", "one", "two"),
      );
      expect(row).toEqual({ a: "one", b: "two", c: "two" });
    });

    it("keeps large integers, bytes, and text with any character", async () => {
      const db = await fresh(newDatabase);
      const text = "ö 漢 🙂 ' \" \\ $1 ? -- only: sqlite";
      const bytes = Uint8Array.from([0, 255, 1, 39, 0]).subarray(1, 4);
      const row = await db.tx(async (q) => {
        await q.run("INSERT INTO blobs (id, bytes, stored_at) VALUES ($1, $2, $3)", text, bytes, 2 ** 52 + 1);
        return q.one<{ bytes: Uint8Array; stored_at: number }>(
          "SELECT bytes, stored_at FROM blobs WHERE id = $1",
          text,
        );
      });
      expect(row && [[...row.bytes], row.stored_at]).toEqual([[255, 1, 39], 2 ** 52 + 1]);
    });

    it("stores what a stranger wrote with a NUL in it", async () => {
      const db = await fresh(newDatabase, (q) => writeSettings(q, "nul", "a\0b"));
      const row = await db.read((q) => readSettings(q, "nul"));
      expect(row?.settings.replace("\0", "")).toBe("ab");
    });

    it("replaces settings, and knows none of another agent", async () => {
      const db = await fresh(newDatabase, (q) => writeSettings(q, "one", "1"));
      await db.tx((q) => writeSettings(q, "one", "2"));
      expect((await db.read((q) => readSettings(q, "one")))?.settings).toBe("2");
      expect(await db.read((q) => readSettings(q, "other"))).toBeNull();
    });

    it("keeps order: a later transaction sees the earlier one", async () => {
      const db = await fresh(newDatabase);
      let last = Promise.resolve<string | null>(null);
      for (let i = 0; i < 600; i++) {
        const write = db.tx(async (q) => {
          const before = await readCursor(q, "c");
          if (db.kind === "sqlite") expect(before).toBe(i === 0 ? null : String(i - 1));
          await q.run("UPDATE channels SET cursor = $1 WHERE id = 'c'", String(i));
          return before;
        });
        last = write;
        if (db.kind === "postgres" && i % 50 === 0) await write;
      }
      await last;
    });

    it("is open again after it was closed", async () => {
      const store = await newDatabase();
      const { migrate } = await import("../../src/store/migrate.ts");
      const first = await store.open();
      await migrate(first);
      await first.tx((q) => writeSettings(q, "one", "{}"));
      expect(await (await store.open()).read(names)).toEqual(["one"]);
    });
  });
});
