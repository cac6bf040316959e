// Debian's PostgreSQL on a private directory and port. One server for all test files, a schema for each test.

import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Pool } from "pg";
import { onTestFinished } from "vitest";
import type { Database } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres, type PostgresOptions } from "../../../src/store/postgres.ts";
import { describeReal, need, sharedByRun } from "../machine/debian.ts";
import { freePort, startTcpProxy, type TcpProxy } from "../machine/network.ts";

const run = promisify(execFile);
const versions = "/usr/lib/postgresql";

export interface Postgres {
  readonly url: string;
  /** Process id of the server; its backends are its children. */
  readonly pid: number;
  /** Makes a schema of its own and returns its name (lower case). */
  schema(): Promise<string>;
  /** Removes it; a failed test's schema may be kept and its name printed. */
  dropSchema(name: string): Promise<void>;
  /** Dumps the schema, removes it and restores it from the dump. No connection may use it during this. */
  restoreSchema(name: string): Promise<void>;
  /** Ends every connection but the one that does it, as a restart of the server would. */
  cut(): Promise<void>;
  /** Ends the server as a failure of its machine would, without a checkpoint. It recovers when it is started again. */
  fail(): Promise<void>;
  /** Starts it again, at the same address. Only connections of the test's own use it from then on. */
  startAgain(): Promise<void>;
  stop(): Promise<void>;
}

/** Null, or why there is no server. The probe is a directory, because the version is in the path. */
export async function needPostgres(): Promise<string | null> {
  return need("postgresql", versions);
}

/** Returns the URL of a store in that schema of the server. */
export const urlOfSchema = ({ url }: Pick<Postgres, "url">, schema: string): string =>
  `${url}?options=${encodeURIComponent(`-c search_path=${schema}`)}`;

/** Describes tests with the server of the run. `define` gets a function that makes a schema and returns its URL. */
export async function describePostgres(
  what: string,
  define: (schemaUrl: () => Promise<string>) => void,
): Promise<void> {
  describeReal(what, await needPostgres(), () => define(newSchemaUrl));
}

/** Returns the URL of a new schema on the server of the run. */
export async function newSchemaUrl(): Promise<string> {
  const postgres = await sharedPostgres();
  return urlOfSchema(postgres, await postgres.schema());
}

/** A database for the store of a daemon. */
export interface StoreKind {
  readonly name: "SQLite" | "PostgreSQL";
  /** Why its tests cannot run; null when they can. */
  readonly missing: string | null;
  /** Returns the URL of a new, empty schema; null for SQLite, whose store is a file of the daemon's folder. */
  readonly newStore: () => Promise<string | null>;
}

/** Both databases, for tests of a daemon that needs other servers as well, of which `missing` says why they are not there. */
export async function storeKinds(missing: string | null): Promise<readonly StoreKind[]> {
  return [
    { name: "SQLite", missing, newStore: async () => null },
    { name: "PostgreSQL", missing: missing ?? (await needPostgres()), newStore: newSchemaUrl },
  ];
}

/** PostgreSQL refuses to run as root: then it runs as the user that Debian made for it. It dies with this process, even
 *  when that is killed. */
export function asServer(program: string, args: readonly string[]): [string, string[]] {
  const user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"];
  const root = process.getuid?.() === 0;
  return ["setpriv", [...(root ? user : []), "--pdeathsig=KILL", "--", program, ...args]];
}

function binaries(): string {
  const newest = readdirSync(versions)
    .filter((version) => existsSync(join(versions, version, "bin", "postgres")))
    .sort((a, b) => Number(b) - Number(a))[0];
  if (newest === undefined) throw new Error(`starting PostgreSQL: no server in ${versions}`);
  return join(versions, newest, "bin");
}

/** The machine does not lose power during a test. Less memory to share makes a connection, which is a process, cheaper. */
const undurable = ["fsync=off", "full_page_writes=off", "shared_buffers=32MB"];

/** Resolves when it answers a query. `durable` is for
 *  measurements: with fsync, and statements are counted (pg_stat_statements). */
export async function startPostgres({ durable = false } = {}): Promise<Postgres> {
  const bin = binaries();
  const home = mkdtempSync(join(tmpdir(), "bridgehead-pg-"));
  if (process.getuid?.() === 0) await run("chown", ["postgres:postgres", home]);
  const data = join(home, "data");
  await run(
    ...asServer(join(bin, "initdb"), ["-D", data, "-U", "test", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]),
    {
      cwd: home,
    },
  );
  const port = await freePort();
  const flags = [
    "listen_addresses=127.0.0.1",
    `port=${port}`,
    "unix_socket_directories=",
    ...(durable ? ["shared_preload_libraries=pg_stat_statements"] : undurable),
    "max_connections=400",
  ];
  const [program, args] = asServer(join(bin, "postgres"), ["-D", data, ...flags.flatMap((flag) => ["-c", flag])]);
  const launch = () => launchServer(program, args, home);
  let server = await launch();

  const url = `postgres://test@127.0.0.1:${port}/postgres`;
  const admin = await connectTo(url);
  if (durable) await admin.query("CREATE EXTENSION pg_stat_statements");
  return {
    url,
    pid: server.pid,
    ...schemasOf(admin),
    async restoreSchema(name) {
      const dump = join(home, `${name}.dump`);
      await run(join(bin, "pg_dump"), ["--format=custom", `--schema=${name}`, `--file=${dump}`, url]);
      await admin.query(`DROP SCHEMA ${name} CASCADE`);
      await run(join(bin, "pg_restore"), [`--dbname=${url}`, dump]);
    },
    async cut() {
      await admin.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'postgres'",
      );
    },
    fail: () => server.end("SIGQUIT"),
    async startAgain() {
      server = await launch();
    },
    async stop() {
      await admin.end();
      await server.end("SIGINT"); // "fast": ends open sessions
      rmSync(home, { recursive: true, force: true });
    },
  };
}

/** Resolves when it is ready. */
async function launchServer(
  program: string,
  args: readonly string[],
  cwd: string,
): Promise<{ readonly pid: number; end(signal: NodeJS.Signals): Promise<void> }> {
  const server = spawn(program, args, { cwd, stdio: ["ignore", "ignore", "pipe"] });
  const killed = () => void server.kill("SIGKILL");
  process.once("exit", killed);
  let said = "";
  const ended = new Promise<void>((resolve) => server.once("exit", () => resolve()));
  await new Promise<void>((resolve, reject) => {
    server.stderr.on("data", (chunk: Buffer) => {
      if (said.length < 10_000) said += chunk.toString();
      if (/ready to accept (?:read-only )?connections/.test(said)) resolve();
    });
    server.once("exit", () => reject(new Error(`starting PostgreSQL: it ended: ${said}`)));
  });
  return {
    pid: server.pid ?? 0,
    async end(signal) {
      server.kill(signal);
      await ended;
      process.removeListener("exit", killed);
    },
  };
}

/** One connection, over which tests that run at the same time take turns. */
async function connectTo(url: string): Promise<Pool> {
  const admin = new Pool({ connectionString: url, max: 1, idleTimeoutMillis: 0 });
  admin.on("error", () => undefined);
  await admin.query("SELECT 1");
  return admin;
}

/** Test processes that share a server make schemas of different names. */
function schemasOf(admin: Pool): Pick<Postgres, "schema" | "dropSchema"> {
  const prefix = `test_${randomBytes(4).toString("hex")}`;
  let schemas = 0;
  return {
    async schema() {
      const name = `${prefix}_${++schemas}`;
      await admin.query(`CREATE SCHEMA ${name}`);
      return name;
    },
    async dropSchema(name) {
      await admin.query(`DROP SCHEMA ${name} CASCADE`);
    },
  };
}

const template = "migrated";
const databaseAt = (url: string, name: string): string => url.replace(/[^/]*$/, name);

/** A server with a migrated store that tests copy: a copy takes a quarter of the time of a migration. */
export async function startSharedPostgres(): Promise<Postgres> {
  const server = await startPostgres();
  const admin = await connectTo(server.url);
  await admin.query(`CREATE DATABASE ${template}`);
  await admin.end();
  const db = await openPostgres(databaseAt(server.url, template));
  await migrate(db);
  await db.close();
  return server;
}

/** What tests may do with the server of the run: it is neither stopped nor cut. */
export interface SharedPostgres extends Pick<Postgres, "url" | "schema" | "dropSchema"> {
  /** Makes a database with a migrated store and returns its URL. */
  copy(): Promise<string>;
  dropCopy(url: string): Promise<void>;
}

let shared: Promise<SharedPostgres> | undefined;

/** The server of the run, which starts with its first use (run.ts). */
export function sharedPostgres(): Promise<SharedPostgres> {
  shared ??= sharedByRun("postgres").then(async (url) => {
    const admin = await connectTo(url);
    const prefix = `copy_${randomBytes(4).toString("hex")}`;
    let copies = 0;
    return {
      url,
      ...schemasOf(admin),
      async copy() {
        const name = `${prefix}_${++copies}`;
        await admin.query(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`);
        return databaseAt(url, name);
      },
      async dropCopy(copy) {
        await admin.query(`DROP DATABASE ${copy.slice(copy.lastIndexOf("/") + 1)} WITH (FORCE)`);
      },
    };
  });
  return shared;
}

/** A migrated store of its own on the server of the run: `db` is connected through the proxy, `other` directly, as another
 *  node is. */
export async function proxiedStore(
  options: PostgresOptions,
): Promise<{ db: Database; other: Database; proxy: TcpProxy }> {
  const server = await sharedPostgres();
  const copy = await server.copy();
  const url = new URL(copy);
  const proxy = await startTcpProxy(Number(url.port));
  url.port = String(proxy.port);
  const other = await openPostgres(copy, { connections: 4 });
  const db = await openPostgres(url.href, options);
  onTestFinished(async () => {
    await db.close();
    await proxy.close();
    await other.close();
    await server.dropCopy(copy);
  });
  return { db, other, proxy };
}

/** Counts the round trips from now on: the server ends each with ReadyForQuery. */
export function roundTrips(proxy: TcpProxy): () => number {
  let trips = 0;
  proxy.rewrite((data) => {
    trips += data.toString("latin1").split("Z\0\0\0\x05").length - 1;
    return data;
  });
  return () => trips;
}
