// Joint transactions on PostgreSQL: what waits at the same time is sent in one round trip and committed at once.

import { expect, it } from "vitest";
import type { Database, Query } from "../../../src/store/driver.ts";
import type { PostgresOptions } from "../../../src/store/postgres.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { needPostgres, proxiedStore } from "../../support/store/postgres.ts";

describeReal("joint transactions on PostgreSQL", await needPostgres(), () => {
  const behindProxy = (timing: NonNullable<PostgresOptions["timing"]> = {}) => proxiedStore({ connections: 2, timing });

  const insert = "INSERT INTO agents (id, settings, read_at) VALUES ($1, '{}', 0)";
  const record = (db: Database, id: string, before?: (q: Query) => Promise<unknown>) =>
    db.tx(
      async (q) => {
        await before?.(q);
        return q.run(insert, id);
      },
      { joint: id },
    );
  const idsOf = async (db: Database) =>
    (await db.read((q) => q.all<{ id: string }>("SELECT id FROM agents ORDER BY id"))).map(({ id }) => id);
  /** Locks one agent's row until `release` is called. */
  async function locked(db: Database, id: string): Promise<{ release: () => void; ended: Promise<void> }> {
    const [has, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const ended = db.tx(async (q) => {
      await q.run("UPDATE agents SET read_at = 2 WHERE id = $1", id);
      has.resolve();
      await released.promise;
    });
    await has.promise;
    return { release: released.resolve, ended };
  }

  it("shares a round trip and its commit among those that wait, and reports them after it", async () => {
    const { db, proxy } = await behindProxy();
    await record(db, "a");
    let [responses, commits] = [0, 0];
    proxy.rewrite((data) => {
      const text = data.toString("latin1");
      responses += text.split("Z\0\0\0\x05").length - 1;
      commits += text.split("COMMIT\0").length - 1;
      return data;
    });
    const reported: string[] = [];
    db.observe(({ hops }) => reported.push(...hops.map(({ trace }) => trace)));
    const results = ["b", "c", "d", "e"].map((id) =>
      record(db, id, async (q) => {
        q.hop({ name: "received", channel: "c", trace: id });
        q.onDisk(() => reported.push(`on disk: ${id}`));
      }),
    );
    expect(await Promise.all(results)).toEqual([1, 1, 1, 1]);
    expect([responses, commits]).toEqual([1, 1]);
    expect(reported).toEqual(["b", "c", "d", "e", ...["b", "c", "d", "e"].map((id) => `on disk: ${id}`)]);
    expect(await idsOf(db)).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("rejects those that fail, and commits the others", async () => {
    const { db } = await behindProxy();
    let undone = 0;
    const failing = (id: string) =>
      record(db, id, async (q) => {
        q.onRollback(() => undone++);
        await q.writeOne(() => new Error(`no row for ${id}`), "UPDATE agents SET read_at = 1 WHERE id = 'no'");
      });
    const early = record(db, "early", () => Promise.reject(new Error("before any statement")));
    const all = [failing("first"), record(db, "a"), failing("b"), early, record(db, "c"), record(db, "a")];
    const reasons = (await Promise.allSettled(all)).map((one) =>
      one.status === "fulfilled" ? one.value : (one.reason as Error).message,
    );
    expect(reasons).toEqual([
      "no row for first",
      1,
      "no row for b",
      "before any statement",
      1,
      expect.stringContaining("duplicate key"),
    ]);
    expect(await idsOf(db)).toEqual(["a", "c"]);
    expect(undone).toBe(4); // once in the joint transaction, once alone
  });

  it("reports a full disk for a while after the last write that it has refused", async () => {
    const full = (q: Query) => q.run("DO $$ BEGIN RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$");
    const { db } = await behindProxy({ fullDisk: 60_000 });
    expect(db.damage()).toBeNull();
    for (const refused of [() => record(db, "a", full), () => db.tx(full)]) {
      await expect(refused()).rejects.toThrow("No space left");
      expect(db.damage()).toBe("cannot be written: No space left on device");
    }
    await record(db, "small");
    expect(db.damage()).not.toBeNull();
    const { db: later } = await behindProxy({ fullDisk: 0 });
    await expect(later.tx(full)).rejects.toThrow("No space left");
    await expect.poll(() => later.damage()).toBeNull();
  });

  it("does not let the others wait for a row that is locked", async () => {
    const { db, other } = await behindProxy();
    await record(db, "a");
    const { release, ended } = await locked(other, "a");
    const touch = (q: Query) =>
      q.writeOne(() => new Error("no a"), "SELECT 1 FROM agents WHERE id = 'a' FOR NO KEY UPDATE");
    const waiting = record(db, "b", touch);
    await Promise.all([record(db, "c"), record(db, "d")]);
    expect(await idsOf(other)).toEqual(["a", "c", "d"]);
    release();
    await Promise.all([ended, waiting]);
    expect(await idsOf(other)).toEqual(["a", "b", "c", "d"]);
  });

  it("runs nothing again when the response to the commit is lost", async () => {
    const { db, other, proxy } = await behindProxy();
    await record(db, "a");
    let runs = 0;
    const counted = (id: string) => record(db, id, async () => void runs++);
    proxy.rewrite((data) => (data.includes("COMMIT\0") ? Buffer.alloc(0) : data));
    const settled = Promise.allSettled([counted("b"), counted("c"), counted("d")]);
    await expect.poll(() => idsOf(other)).toEqual(["a", "b", "c", "d"]);
    proxy.rewrite(null);
    proxy.cut();
    expect((await settled).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(runs).toBe(3);
    expect(await record(db, "e")).toBe(1);
    expect(await idsOf(db)).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("reverts what was changed in memory when there is no connection, and when it is lost", async () => {
    const { db, proxy } = await behindProxy();
    await record(db, "a");
    let undone = 0;
    const changing = (id: string) =>
      record(db, id, async (q) => {
        q.onRollback(() => undone++);
      });
    proxy.rewrite((data) => (data.includes("COMMIT\0") ? Buffer.alloc(0) : data));
    const lost = Promise.allSettled([changing("b"), changing("c")]);
    await expect.poll(() => idsOf(db)).toEqual(["a", "b", "c"]);
    proxy.refuse();
    proxy.cut();
    expect((await lost).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(undone).toBe(2);
    const refused = await Promise.allSettled([changing("d"), changing("e")]);
    expect(refused.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(undone).toBe(4);
  });

  it("commits the others where the server translates its messages", async () => {
    const { db, proxy } = await behindProxy();
    await record(db, "a");
    // Like "FEHLER", in as many bytes.
    proxy.rewrite((data) => Buffer.from(data.toString("latin1").replaceAll("SERROR\0", "SFEHLR\0"), "latin1"));
    const settled = await Promise.allSettled([record(db, "a"), record(db, "b"), record(db, "c")]);
    expect(settled.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(await idsOf(db)).toEqual(["a", "b", "c"]);
  });

  it("gives up a new connection that does not respond", async () => {
    const { db, proxy } = await behindProxy({ response: 300 });
    await record(db, "a");
    proxy.cut();
    await expect.poll(() => idsOf(db).catch(() => null)).toEqual(["a"]);
    proxy.cut();
    proxy.rewrite((data) => (data.includes("SET\0") ? Buffer.alloc(0) : data));
    await expect(record(db, "b")).rejects.toThrow();
    proxy.rewrite(null);
    await expect.poll(() => record(db, "c").catch(() => null)).toBe(1);
  });

  it("refuses statements after the result that it waits for", async () => {
    const { db } = await behindProxy();
    const two = db.tx(
      async (q) => {
        await q.run(insert, "a");
        await q.write(insert, "b");
      },
      { joint: "a" },
    );
    await expect(two).rejects.toThrow("waits for one result only");
    const nested = db.tx((q) => q.savepoint(() => q.run(insert, "c")), { joint: "c" });
    await expect(nested).rejects.toThrow("no savepoints");
    // The first statement was committed with the result.
    expect(await idsOf(db)).toEqual(["a"]);
  });
});
