// No row is shared by all transactions of PostgreSQL (design, section 5): while a transaction of one channel is open, with all
// its locks, another node carries a message of another channel through all stages.

import { expect, it } from "vitest";
import type { Database, Query } from "../../src/store/driver.ts";
import { eventually } from "../support/clock.ts";
import { describeReal } from "../support/machine/debian.ts";
import { mail, openPipeline } from "../support/pipeline/pipeline.ts";
import { startPlatform } from "../support/pipeline/stage.ts";
import { migrated, postgresDatabase } from "../support/store/databases.ts";
import { needPostgres, sharedPostgres } from "../support/store/postgres.ts";

const from = (name: string) => mail({ text: `from ${name}`, from: { address: `${name}@example.org` } });

/** Returns `base` with these members in place of its own. */
const withMembers = <T extends object>(base: T, members: Partial<T>): T =>
  new Proxy(base, {
    get(target, name) {
      const value: unknown = Reflect.get(name in members ? members : target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });

const executing = ["all", "one", "run", "write", "writeOne", "defer"] as const;

/** Calls `opened` with the statements of each transaction before its commit, when the server has executed them. The draws of the
 *  platform's rate are passed over: its row belongs to all nodes, and a draw is a short transaction of its own. */
const observed = (db: Database, opened: (q: Query, statements: readonly string[]) => Promise<void>): Database =>
  withMembers(db, {
    tx: (work, given = {}) => {
      const { joint: _, ...options } = given;
      return db.tx(async (q) => {
        const statements: string[] = [];
        const noting = executing.map((name) => {
          const execute = q[name].bind(q) as (...values: unknown[]) => unknown;
          return [
            name,
            (...values: unknown[]) => {
              statements.push(String(values.find((value) => typeof value === "string")));
              return execute(...values);
            },
          ];
        });
        const result = await work(withMembers(q, Object.fromEntries(noting) as Partial<Query>));
        const isDraw = statements.length > 0 && statements.every((sql) => /\brates\b/.test(sql));
        if (isDraw) return result;
        // Sends those whose result nothing waits for.
        await q.one("SELECT 1 AS one");
        await opened(q, statements);
        return result;
      }, options);
    },
  });

describeReal("a transaction of one channel", await needPostgres(), () => {
  /** Returns the tables that the first channel's transactions have written, and the statements of the second channel that have
   *  waited for a lock of one. `plant` runs at the end of each of those transactions. */
  async function waitsFor(plant: (q: Query) => Promise<unknown> = async () => undefined) {
    const store = await migrated(async () => postgresDatabase(await sharedPostgres()));
    const platform = await startPlatform();
    const [first, second, watch] = [await store.open(), await store.open(), await store.open()];
    const other = await openPipeline({ channels: ["b"], db: second, node: "two", platform });
    other.sweeps();
    const written = new Set<string>();
    const waited = new Set<string>();
    let messages = 0;
    const opened = async (q: Query, statements: readonly string[]) => {
      await plant(q);
      for (const sql of statements)
        for (const [, table = ""] of sql.matchAll(/\b(?:INSERT INTO|UPDATE) (\w+)/g)) written.add(table);
      messages += 1;
      const answer = `answer to from b${messages}`;
      await other.accepts("b", from(`b${messages}`));
      await eventually(async () => {
        for (const sql of await waiting(watch)) waited.add(sql);
        if (waited.size === 0) expect(other.sent).toContain(answer);
      });
    };
    const one = await openPipeline({
      channels: ["a"],
      db: first,
      faulty: (db) => observed(db, opened),
      node: "one",
      platform,
    });
    await one.accepts("a", from("a"));
    await eventually(async () => {
      await Promise.all([one.settles(), other.settles()]);
      expect([one.sent, await one.drafts()]).toEqual([["answer to from a"], Array(messages + 1).fill("sent")]);
    });
    return { written: [...written].sort(), waited: [...waited] };
  }

  it("holds no lock for which one of another channel waits", async () => {
    const { written, waited } = await waitsFor();
    expect(waited).toEqual([]);
    // Every stage was held.
    expect(written).toEqual(
      expect.arrayContaining(["attempts", "conversations", "drafts", "events", "lanes", "replies", "turns"]),
    );
  });

  it("is noticed here when it holds such a lock", async () => {
    const plant = (q: Query) => q.run("UPDATE rates SET arrival = arrival WHERE name = 'platform'");
    const { waited } = await waitsFor(plant);
    expect(waited.join()).toMatch(/\brates\b/);
  });
});

/** The statements that wait for a lock now, of all nodes of the store. */
const waiting = async (db: Database): Promise<string[]> =>
  db.read(async (q) =>
    (
      await q.all<{ query: string }>(
        `SELECT query FROM pg_stat_activity WHERE datname = current_database()
           AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()`,
      )
    ).map(({ query }) => query),
  );
