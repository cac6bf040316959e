// The daemon's start while its database server is not there.

import { Client } from "pg";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { reachStore } from "../../../src/commands/run.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { timingWith } from "../../../src/ops/timing.ts";
import { isUnreachable } from "../../../src/store/postgres/unreachable.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { freePort, startTcpProxy } from "../../support/machine/network.ts";
import { needPostgres, type Postgres, startPostgres } from "../../support/store/postgres.ts";

const timing = timingWith({ startup: { storeRetry: 50, storeRetryLongest: 100 } });

function service() {
  const abort = new AbortController();
  const seen = { warnings: [] as string[], status: [] as string[] };
  const log = {
    debug: () => {},
    info: () => {},
    warn: (_fields: object, message: string) => void seen.warnings.push(message),
    error: () => {},
  };
  const notifier = { status: async (text: string) => void seen.status.push(text) };
  return { seen, abort, given: { clock: systemClock, log, timing, notifier, signal: abort.signal } };
}

it("says so, and ends when it is asked to", async () => {
  const { seen, abort, given } = service();
  const url = `postgres://nobody@127.0.0.1:${await freePort()}/nothing`;
  const reaching = reachStore({ store: { kind: "postgres", url } }, given);
  await expect.poll(() => seen.status.length).toBeGreaterThanOrEqual(2);
  expect(new Set(seen.warnings)).toEqual(new Set(["store unreachable: retrying"]));
  expect(new Set(seen.status)).toEqual(new Set(["waiting for the store"]));
  abort.abort();
  expect(await reaching).toBeNull();
});

it("names the server that does not answer, without the password", async () => {
  const port = await freePort();
  const error: unknown = await openPostgres(`postgres://nobody:secret@127.0.0.1:${port}/nothing`).catch(
    (cause) => cause,
  );
  expect(String(error)).toMatch(`opening the store on PostgreSQL at 127.0.0.1:${port}: connect ECONNREFUSED`);
  expect(String(error)).toContain("Remedy: ");
  expect(String(error)).not.toContain("secret");
  expect(isUnreachable(error)).toBe(true);
});

describeReal("a PostgreSQL that comes later", await needPostgres(), () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server?.stop());
  /** From another database, whose transactions may write. */
  const query = async (text: string): Promise<void> => {
    const client = new Client({ connectionString: server.url.replace(/postgres$/, "template1") });
    await client.connect();
    await client.query(text);
    await client.end();
  };

  it("is waited for", async () => {
    const { seen, given } = service();
    const url = new URL(server.url);
    const proxy = await startTcpProxy(Number(url.port));
    onTestFinished(() => proxy.close());
    url.port = String(proxy.port);
    proxy.refuse();
    const reaching = reachStore({ store: { kind: "postgres", url: url.href } }, given);
    await expect.poll(() => seen.warnings.length).toBeGreaterThan(0);
    proxy.resume();
    const store = await reaching;
    expect(await store?.db.read((q) => q.one("SELECT 1 AS one"))).toEqual({ one: 1 });
    await store?.db.close();
  });

  it("is waited for while it accepts no writes, and says which setting is the reason", async () => {
    const { seen, given } = service();
    await query("ALTER DATABASE postgres SET default_transaction_read_only = on");
    const reaching = reachStore({ store: { kind: "postgres", url: server.url } }, given);
    await expect.poll(() => seen.warnings).toContain("store unreachable: retrying");
    await expect(openPostgres(server.url)).rejects.toThrow("default_transaction_read_only is on");
    await query("ALTER DATABASE postgres RESET default_transaction_read_only");
    const store = await reaching;
    expect(store?.db.kind).toBe("postgres");
    await store?.db.close();
  });

  it("is written again at once when it accepts writes, also by connections from before", async () => {
    const db = await openPostgres(server.url, { connections: 2 });
    onTestFinished(() => db.close());
    await query("ALTER DATABASE postgres SET default_transaction_read_only = on");
    const write = () => db.tx((q) => q.run("CREATE TABLE written (id INTEGER)"));
    await db.tx(async () => {
      // Needs a second connection, which is opened now.
      await expect(write()).rejects.toThrow("read-only transaction");
      await query("ALTER DATABASE postgres RESET default_transaction_read_only");
      await write();
    });
    expect(await db.read((q) => q.all("SELECT id FROM written"))).toEqual([]);
  });

  it("is waited for while it is a standby", async () => {
    const { seen, given } = service();
    await query("COPY (SELECT 1) TO PROGRAM 'cat > standby.signal'");
    await server.fail();
    await server.startAgain();
    const reaching = reachStore({ store: { kind: "postgres", url: server.url } }, given);
    await expect.poll(() => seen.warnings).toContain("store unreachable: retrying");
    await expect(openPostgres(server.url)).rejects.toThrow("Remedy: promote this standby");
    await query("SELECT pg_promote()");
    await (await reaching)?.db.close();
  });

  it("is not waited for when it is there and refuses", async () => {
    const { seen, given } = service();
    const url = server.url.replace(/postgres$/, "nothing");
    const error: unknown = await reachStore({ store: { kind: "postgres", url } }, given).catch((cause) => cause);
    expect(String(error)).toContain('database "nothing" does not exist');
    expect([isUnreachable(error), seen.warnings]).toEqual([false, []]);
  });
});
