// The store on PostgreSQL, and what only PostgreSQL has: other nodes, and a server that goes away.

import { afterAll, beforeAll, expect, it } from "vitest";
import { readSettings, writeSettings } from "../../src/store/agents.ts";
import { describeReal } from "../real/debian.ts";
import { needPostgres, type Postgres, startPostgres } from "../real/postgres.ts";
import { describeStore } from "./conformance.ts";
import { fresh, postgresPlace } from "./rig.ts";

describeReal("the store on PostgreSQL", await needPostgres(), () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.stop());
  const place = () => postgresPlace(server);

  describeStore("postgres", place);

  it("wakes the other nodes with the commit, and not without it", async () => {
    const store = await place();
    const [one, two] = [await store.open(), await store.open()];
    let woken = 0;
    const heard = new Promise<void>((resolve) => two.onWake(() => (++woken, resolve())));
    await expect(
      one.tx(async (q) => {
        await one.wake(q);
        throw new Error("no");
      }),
    ).rejects.toThrow("no");
    await one.tx((q) => one.wake(q));
    await heard;
    expect(woken).toBe(1);
  });

  it("outlives a restart of the server: transactions under way reject, the next ones work, wake-ups come again", async () => {
    const db = await fresh(place);
    let woken = 0;
    db.onWake(() => woken++);
    await expect(
      db.tx(async (q) => {
        await writeSettings(q, "lost", "{}");
        await server.cut();
        await writeSettings(q, "lost", "{}");
      }),
    ).rejects.toThrow();
    await expect
      .poll(() =>
        db
          .tx((q) => writeSettings(q, "next", "{}"))
          .then(
            () => true,
            () => false,
          ),
      )
      .toBe(true);
    expect(await db.read((q) => readSettings(q, "lost"))).toBeNull();
    await Promise.all(Array.from({ length: 8 }, () => db.tx((q) => db.wake(q))));
    await expect.poll(() => woken).toBeGreaterThan(0);
    const listeners = await db.read((q) =>
      q.all("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()"),
    );
    expect(listeners).toHaveLength(1);
  });

  it("runs a transaction again that lost a deadlock", async () => {
    const db = await fresh(place);
    await db.tx(async (q) => {
      for (const id of ["a", "b"]) await writeSettings(q, id, "0");
    });
    let runs = 0;
    let meet = 0;
    let open = () => undefined as void;
    const both = new Promise<void>((resolve) => (open = resolve));
    const crossing = (first: string, second: string) =>
      db.tx(async (q) => {
        runs++;
        await writeSettings(q, first, "1");
        if (++meet === 2) open();
        await both;
        await writeSettings(q, second, "1");
      });
    await Promise.all([crossing("a", "b"), crossing("b", "a")]);
    expect(runs).toBeGreaterThan(2);
    const found = await db.read(async (q) => [await readSettings(q, "a"), await readSettings(q, "b")]);
    expect(found.map((row) => row?.settings)).toEqual(["1", "1"]);
  });

  it("rejects a transaction whose failed statement the work kept to itself", async () => {
    const db = await fresh(place);
    const quiet = db.tx(async (q) => {
      await writeSettings(q, "one", "{}");
      await q.run("SELECT 1 / 0").catch(() => undefined);
    });
    await expect(quiet).rejects.toThrow("rolled back");
    expect(await db.read((q) => readSettings(q, "one"))).toBeNull();
  });
});
