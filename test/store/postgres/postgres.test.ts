// The store on PostgreSQL, and what only PostgreSQL has: other nodes, and a server that goes away.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { isRecent, type Query } from "../../../src/store/driver.ts";
import { identifyInstallation } from "../../../src/store/installation.ts";
import { migrate, migrations } from "../../../src/store/migrate.ts";
import { isUnreachable } from "../../../src/store/postgres/unreachable.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { countHeld } from "../../../src/store/restored.ts";
import { readSettings, writeSettings } from "../../../src/store/tables/agents.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { eventually } from "../../support/clock.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { startTcpProxy } from "../../support/machine/network.ts";
import { fresh, migrated, postgresDatabase, storeEvent } from "../../support/store/databases.ts";
import { needPostgres, type Postgres, proxiedStore, roundTrips, startPostgres } from "../../support/store/postgres.ts";

describeReal("the store on PostgreSQL", await needPostgres(), () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.stop());
  const place = () => postgresDatabase(server);

  it("recognizes a store that pg_restore has created, and holds its open work", async () => {
    const store = await place();
    const before = await openPostgres(server.url, { schema: store.schema ?? "" });
    await migrate(before);
    await before.tx((q) => ensureChannel(q, "c"));
    const first = await identifyInstallation(before, null, standardTiming.commands.copying);
    await before.tx((q) => storeEvent(q, "waits"));
    await before.close();
    await server.restoreSchema(store.schema ?? "");
    const [one, two] = [await store.open(), await store.open()];
    const found = await Promise.all([
      identifyInstallation(one, null, standardTiming.commands.copying),
      identifyInstallation(two, null, standardTiming.commands.copying),
    ]);
    expect(found.map(({ cause, earlier }) => [cause, earlier])).toEqual([
      ["restored", [first.id]],
      ["restored", [first.id]],
    ]);
    // Two nodes that start together agree, and only one of them has held the work.
    expect([found[0]?.id, found.filter(({ changed }) => changed).length]).toEqual([found[1]?.id, 1]);
    expect(await one.read(countHeld)).toEqual({ messages: 1, replies: 0 });
    expect(await identifyInstallation(two, null, standardTiming.commands.copying)).toMatchObject({
      id: found[0]?.id,
      changed: false,
    });
  });

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
      q.all(
        "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'NOTIFY%' OR query LIKE 'SELECT pg_backend_pid() AS pid%'",
      ),
    );
    expect(listeners).toHaveLength(1);
  });

  it("is not opened when commits do not wait for the server's disk; other settings are its own", async () => {
    const withSettings = (text: string) => openPostgres(`${server.url}?options=${encodeURIComponent(text)}`);
    await expect(withSettings("-c synchronous_commit=off")).rejects.toThrow("synchronous_commit is off");
    const db = await withSettings("-c idle_session_timeout=300 -c default_transaction_isolation=serializable");
    onTestFinished(() => db.close());
    const sql =
      "SELECT current_setting('transaction_isolation') AS level, current_setting('idle_session_timeout') AS idle";
    expect(await db.tx((q) => q.one(sql))).toEqual({ level: "read committed", idle: "0" });
  });

  it.each(["LATIN1", "SQL_ASCII"])("is not opened in a database with the encoding %s", async (encoding) => {
    const admin = await (await place()).open();
    const name = encoding.toLowerCase();
    // Not in a transaction.
    await admin.read((q) => q.run(`CREATE DATABASE ${name} ENCODING '${encoding}' LOCALE 'C' TEMPLATE template0`));
    const url = server.url.replace(/[^/]*$/, name);
    await expect(openPostgres(url)).rejects.toThrow(
      new RegExp(`encoding ${encoding}, .*Remedy: CREATE DATABASE .*UTF8`),
    );
  });

  it("is not opened by a role that may not create its tables", async () => {
    const store = await place();
    const { schema = "" } = store;
    await (await store.open()).tx(async (q) => {
      await q.run("CREATE ROLE reader LOGIN");
      await q.run("CREATE TABLE meta (name TEXT PRIMARY KEY, value BIGINT NOT NULL)"); // also not when it need not
      await q.run(`GRANT USAGE ON SCHEMA ${schema} TO reader`);
    });
    const url = server.url.replace("test@", "reader@");
    const may = new RegExp(`may not create tables in the schema ${schema}\\. Remedy: GRANT CREATE`);
    await expect(openPostgres(url, { schema })).rejects.toThrow(may);
    await expect(openPostgres(url, { schema: "absent" })).rejects.toThrow(/names no schema that exists\. Remedy/);
  });

  it("notifies the others only, and once for many commits", async () => {
    const store = await place();
    const timing = { notifyInterval: 3_600_000 };
    const one = await openPostgres(server.url, { schema: store.schema ?? "", timing });
    const two = await store.open();
    let [own, woken] = [0, 0];
    one.onWake(() => own++);
    const last = Promise.withResolvers<void>();
    two.onWake(() => ++woken === 2 && last.resolve());
    await Promise.all(Array.from({ length: 50 }, () => one.tx((q) => one.wake(q))));
    await one.close(); // sends what is left
    await last.promise;
    await two.tx((q) => q.all("SELECT 1"));
    expect([own, woken]).toEqual([0, 2]);
  });

  it("runs a transaction again with savepoints when one fails, and sends nothing of the abandoned run", async () => {
    const db = await fresh(place);
    let runs = 0;
    await db.tx(async (q) => {
      runs++;
      await writeSettings(q, "kept", "{}");
      await q
        .savepoint(async () => {
          await writeSettings(q, "undone", "{}");
          throw new Error("no");
        })
        .catch(() => undefined);
      await writeSettings(q, "after", "{}");
    });
    const ids = await db.read((q) => q.all<{ id: string }>("SELECT id FROM agents ORDER BY id"));
    expect([runs, ids.map(({ id }) => id)]).toEqual([2, ["after", "kept"]]);
  });

  it("runs a transaction again whose prepared statement another node's migration has outdated", async () => {
    const store = await place();
    const [one, two] = [await store.open(), await store.open()];
    await migrate(one);
    const read = () => one.tx((q) => q.all("SELECT * FROM agents"));
    for (let n = 0; n < 8; n++) await Promise.all([read(), read(), read(), read()]);
    await two.tx((q) => q.run("ALTER TABLE agents ADD COLUMN more TEXT"));
    for (let n = 0; n < 8; n++) expect(await read()).toEqual([]);
  });

  it("runs a transaction again that lost a deadlock", async () => {
    const db = await fresh(place, async (q) => {
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

  it("runs the whole of it again when it was a savepoint's work that lost the deadlock", async () => {
    const db = await fresh(place, async (q) => {
      for (const id of ["a", "b"]) await writeSettings(q, id, "0");
    });
    const met = Promise.withResolvers<void>();
    const failed: unknown[] = [];
    let runs = 0;
    let meet = 0;
    const crossing = (first: string, second: string) =>
      db.tx(async (q) => {
        runs++;
        await writeSettings(q, first, "1");
        if (++meet === 2) met.resolve();
        await met.promise;
        await q.savepoint(() => writeSettings(q, second, "1")).catch((error: unknown) => failed.push(error));
      });
    await Promise.all([crossing("a", "b"), crossing("b", "a")]);
    expect(runs).toBeGreaterThan(2);
    expect(failed, "nobody takes it for a failure of the work").toEqual([]);
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

  it("reports a lost connection for writes that were not sent yet, and keeps nothing of them", async () => {
    const db = await fresh(place);
    const insert = "INSERT INTO agents (id, settings, read_at) VALUES ($1, '{}', 0)";
    for (const last of [async () => undefined, (q: Query) => q.all("SELECT 1")]) {
      let undone = 0;
      const lost = db.tx(async (q) => {
        q.onRollback(() => undone++);
        await q.run(insert, "sent");
        await q.write(insert, "not sent");
        await server.cut();
        await q.write(insert, "not sent either");
        await last(q);
      });
      await expect(lost).rejects.toThrow();
      expect(undone).toBe(1);
    }
    await expect.poll(() => db.tx((q) => readSettings(q, "sent")).catch(() => "lost")).toBeNull();
    expect(await db.read((q) => q.all("SELECT id FROM agents"))).toEqual([]);
  });

  it("locks the name of the process again when its connections were cut", async () => {
    const db = await fresh(place);
    await db.hold("h/a");
    const holders = () =>
      db
        .read((q) => q.all<{ pid: number }>("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"))
        .then((rows) => rows.map(({ pid }) => pid))
        .catch(() => []);
    const [first, ...others] = await holders();
    expect([first, others]).toEqual([expect.any(Number), []]);
    await server.cut();
    await expect.poll(async () => (await holders()).filter((pid) => pid !== first)).toHaveLength(1);
  });

  it("runs a transaction again when its writes lose a deadlock at the commit", async () => {
    const db = await fresh(place, async (q) => {
      for (const id of ["a", "b"]) await writeSettings(q, id, "0");
    });
    const met = Promise.withResolvers<void>();
    let [runs, meet] = [0, 0];
    const crossing = (first: string, second: string) =>
      db.tx(async (q) => {
        runs++;
        await writeSettings(q, first, "1");
        if (++meet === 2) met.resolve();
        await met.promise;
        await q.write("UPDATE agents SET settings = '2' WHERE id = $1", second);
      });
    await Promise.all([crossing("a", "b"), crossing("b", "a")]);
    expect(runs).toBeGreaterThan(2);
    const found = await db.read((q) => q.all<{ settings: string }>("SELECT settings FROM agents ORDER BY id"));
    expect(found.map((row) => row.settings).sort()).toEqual(["1", "2"]);
  });

  it.each([
    [1000, 0],
    [60_000, 1],
  ])("counts what is dated 30 s ahead by the clock step: %i ms", async (clockStep, count) => {
    const { schema = "" } = await migrated(place);
    const db = await openPostgres(server.url, { schema, timing: { clockStep } });
    onTestFinished(() => db.close());
    const found = db.read((q) => q.all(`SELECT 1 AS one WHERE ${isRecent("now_ms() + 30000", "60000")}`));
    expect(await found).toHaveLength(count);
  });

  it("prepares statements again that a failed round trip may not have prepared", async () => {
    const store = await place();
    await migrate(await store.open());
    const db = await openPostgres(server.url, { schema: store.schema ?? "", connections: 1 });
    onTestFinished(() => db.close());
    const texts = ["before", "after"].map((word) => `SELECT CAST($1 AS TEXT) AS "${word} the failure"`);
    const [before = "", after = ""] = texts;
    const failing = db.tx(async (q) => {
      await q.write(before, "1");
      await q.write("INSERT INTO agents (id) VALUES ('broken')");
      await q.write(after, "2");
    });
    await expect(failing).rejects.toThrow(/null/);
    for (let n = 0; n < 2; n++)
      expect(await db.tx(async (q) => [await q.one(before, "1"), await q.one(after, "2")])).toEqual([
        { "before the failure": "1" },
        { "after the failure": "2" },
      ]);
  });

  it("sends writes and COMMIT in one round trip, with the check of those that must change one row", async () => {
    const { db, proxy } = await proxiedStore({ connections: 1 });
    const insert = "INSERT INTO agents (id, settings, read_at) VALUES ($1, '{}', 0)";
    const many = Array.from({ length: 250 }, (_, n) => `many ${n}`);
    await db.tx(async (q) => {
      for (const id of many) await q.write(insert, id);
    });
    expect(await db.read((q) => q.one("SELECT count(*) AS count FROM agents"))).toEqual({ count: 250 });
    const trips = roundTrips(proxy);
    await db.tx(async (q) => {
      for (const id of ["one", "two", "three"]) await q.write(insert, id);
    });
    expect(trips()).toBe(1);
    await db.tx((q) => q.writeOne(() => new Error("no"), insert, "four"));
    expect(trips()).toBe(2);
    const none = db.tx(async (q) => {
      await q.writeOne(() => new Error("not one"), "UPDATE agents SET read_at = 1 WHERE id LIKE 'many 1%'");
      await q.write(insert, "five");
    });
    await expect(none).rejects.toThrow("not one");
    expect(await db.read((q) => q.one("SELECT MAX(read_at) AS read, COUNT(*) AS count FROM agents"))).toEqual({
      read: 0,
      count: 254,
    });
  });

  it("warns once while the server refuses further connections, and works with those it has", async () => {
    const store = await place();
    const admin = await store.open();
    await migrate(admin);
    // Roles with the right to exceed the limits are not limited.
    await admin.tx(async (q) => {
      await q.run("CREATE ROLE few LOGIN CONNECTION LIMIT 2");
      await q.run(`GRANT ALL ON SCHEMA ${store.schema} TO few`);
      await q.run(`GRANT ALL ON ALL TABLES IN SCHEMA ${store.schema} TO few`);
    });
    const url = new URL(server.url);
    url.username = "few";
    const warnings: [object, string][] = [];
    const ignored = () => undefined;
    const warn = (fields: object, message: string) => void warnings.push([fields, message]);
    const log = { debug: ignored, info: ignored, error: ignored, warn };
    // The connection for notifications, and one for transactions.
    const db = await openPostgres(url.href, { schema: store.schema ?? "", connections: 3, log });
    onTestFinished(async () => {
      await db.close();
      await admin.tx(async (q) => {
        await q.run("DROP OWNED BY few");
        await q.run("DROP ROLE few");
      });
    });
    const held = Promise.withResolvers<void>();
    const has = Promise.withResolvers<void>();
    const holding = db.tx(async (q) => {
      await writeSettings(q, "a", "{}");
      await q.one("SELECT 1");
      has.resolve();
      await held.promise;
    });
    await has.promise;
    for (let n = 0; n < 3; n++)
      await expect(db.tx((q) => writeSettings(q, "b", "{}"))).rejects.toThrow(/too many connections/);
    await expect(db.tx((q) => q.run("SELECT 1"), { joint: "c" })).rejects.toThrow(/too many connections/);
    held.resolve();
    await holding;
    await db.tx((q) => writeSettings(q, "d", "{}"));
    expect(warnings).toEqual([
      [
        {
          err: expect.objectContaining({ code: "53300" }),
          remedy: expect.stringContaining("max_connections"),
        },
        "store connection refused: too many connections",
      ],
    ]);
  });

  it("waits for no node that was stopped in a transaction, and that node continues when it wakes", async () => {
    const store = await place();
    const db = await store.open();
    await migrate(db);
    const script = fileURLToPath(new URL("../../support/store/child.ts", import.meta.url));
    const child = spawn(
      process.execPath,
      ["--conditions=source", script, "stop", server.url, store.schema ?? "", "1500"],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    onTestFinished(() => void child.kill("SIGKILL"));
    let said = "";
    child.stdout.on("data", (chunk: Buffer) => (said += chunk.toString()));
    await expect.poll(() => said).toBe("stopping\n");
    await db.tx((q) => writeSettings(q, "row", "of the other one"));
    const ended = once(child, "exit");
    child.kill("SIGCONT");
    await ended;
    expect(said).toBe("stopping\nrejected\n");
    expect((await db.read((q) => readSettings(q, "row")))?.settings).toBe("of the other one");
  });

  it("tries again what waited too long for a lock", async () => {
    const store = await place();
    const db = await store.open();
    await migrate(db);
    await db.tx((q) => writeSettings(q, "row", "0"));
    const hasty = await openPostgres(server.url, {
      schema: store.schema ?? "",
      timing: { lock: 100 },
    });
    onTestFinished(() => hasty.close());
    let tries = 0;
    const waiting = await db.tx(async (q) => {
      await writeSettings(q, "row", "1");
      const second = hasty.tx(async (other) => {
        tries++;
        await writeSettings(other, "row", "2");
      });
      await expect.poll(() => tries).toBe(3);
      return { second };
    });
    await waiting.second;
    expect((await db.read((q) => readSettings(q, "row")))?.settings).toBe("2");
  });

  it("lets a migration wait for its turn and take its time", async () => {
    const store = await place();
    await migrate(await store.open());
    const hasty = await openPostgres(server.url, {
      schema: store.schema ?? "",
      timing: { lock: 250, statement: 1000, response: 2000 },
    });
    onTestFinished(() => hasty.close());
    const slow = { name: "slow", sql: "SELECT pg_sleep(2)" };
    await expect(hasty.tx((q) => q.all(slow.sql))).rejects.toThrow("statement timeout");
    // Both want the lock; the second one waits longer than any other statement may.
    const applied = await Promise.all([1, 2].map(() => migrate(hasty, [...migrations, slow])));
    expect(applied.flat()).toEqual(["slow"]);
  });

  it("gives up on a line that became silent, and works on a new one", async () => {
    const store = await place();
    await migrate(await store.open());
    const url = new URL(server.url);
    const proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    const db = await openPostgres(url.href, {
      schema: store.schema ?? "",
      connections: 1,
      timing: { response: 1000, idleTransaction: 1500, connect: 1000 },
    });
    onTestFinished(async () => {
      proxy.cut();
      await db.close();
      await proxy.close();
    });
    const isSilence = (error: Error) => error.message.includes("timeout") && isUnreachable(error);
    let woken = 0;
    db.onWake(() => woken++);
    await expect(
      db.tx(async (q) => {
        await writeSettings(q, "one", "{}");
        proxy.swallow();
        await writeSettings(q, "two", "{}");
      }),
    ).rejects.toSatisfy(isSilence);
    await expect(db.read((q) => readSettings(q, "one"))).rejects.toSatisfy(isSilence);
    proxy.resume();
    await eventually(() => db.tx((q) => writeSettings(q, "one", "new")));
    expect((await db.read((q) => readSettings(q, "one")))?.settings).toBe("new");
    expect(await db.read((q) => readSettings(q, "two"))).toBeNull();
    // The LISTEN connection is silent too. Its keep-alive closes it, and it reconnects.
    proxy.cut();
    await expect.poll(() => woken).toBeGreaterThan(0);
  });
});
