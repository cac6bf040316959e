// PostgreSQL driver: a pool, one connection per transaction, LISTEN/NOTIFY to wake the other nodes.

import type { Clock, Log } from "bridgehead/contract";
import { Pool, type PoolClient } from "pg";
import { systemClock } from "../ops/clock.ts";
import { standardTiming, type Timing } from "../ops/timing.ts";
import type { Database, FileCheck, Query, StoreObserver, TxOptions } from "./driver.ts";
import { NeedsSavepoints, PostgresConnection, transient } from "./postgres/connection.ts";
import { JointTransactions } from "./postgres/joint.ts";
import { WakeListener } from "./postgres/listener.ts";
import { RefusedConnections } from "./postgres/refusals.ts";
import { readOnly } from "./postgres/round-trip.ts";
import { isUnreachable } from "./postgres/unreachable.ts";

const wakeChannel = "bridgehead_wake";
/** SQLSTATE disk_full. */
const diskFull = "53100";

interface FoundServer {
  readonly commits: string;
  readonly readonly: string;
  readonly encoding: string;
  readonly process: number;
  readonly schema: string | null;
  readonly creates: boolean | null;
}

/** Throws when the server accepts no writes, which `isUnreachable` counts as temporary; when commits of this role do not
 *  wait for its disk: a crash of the server would lose messages that were acknowledged to their providers; when the database
 *  cannot store every character: a message with one would be refused again and again; when the role may not create tables,
 *  which each start needs; and when a pooler gives the connection that listens (`listening`: its process on the server) to other
 *  work as well. */
async function checkServer(pool: Pool, listening: number): Promise<void> {
  const { rows } = await pool.query<FoundServer>(
    `SELECT current_setting('synchronous_commit') AS commits, current_setting('transaction_read_only') AS readonly,
       current_setting('server_encoding') AS encoding, pg_backend_pid() AS process, current_schema() AS schema,
       has_schema_privilege(current_schema(), 'CREATE') AS creates`,
  );
  const [found] = rows;
  if (found === undefined) return;
  const refuse = (text: string, code?: string): never => {
    throw Object.assign(new Error(`opening the store: ${text}`), code && { code });
  };
  if (found.process === listening)
    refuse(
      "the pooler in front of PostgreSQL shares connections between transactions. Remedy: let it use pool_mode = session, or name the server itself in `store:`",
    );
  if (found.readonly === "on")
    refuse(
      "default_transaction_read_only is on for this role, database or PostgreSQL server, so it accepts no writes. Remedy: ALTER ROLE or DATABASE ... RESET default_transaction_read_only",
      readOnly,
    );
  if (found.commits === "off")
    refuse(
      "synchronous_commit is off on this PostgreSQL server, so its crash would lose acknowledged messages. Remedy: ALTER ROLE ... SET synchronous_commit = on, or add options=-c%20synchronous_commit%3Don to the URL",
    );
  if (found.encoding !== "UTF8")
    refuse(
      `the database has the encoding ${found.encoding}, which cannot store every message. Remedy: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0`,
    );
  if (found.schema === null)
    refuse(
      "the search_path of this role names no schema that exists. Remedy: CREATE SCHEMA, or ALTER ROLE ... SET search_path",
    );
  if (found.creates !== true)
    refuse(
      `this role may not create tables in the schema ${found.schema}. Remedy: GRANT CREATE ON SCHEMA ${found.schema} TO ...`,
    );
}

/** Settings of each connection; a pooler would refuse them among the parameters of its start. Without the first the server
 *  plans each statement six times on each connection. With it, plans that are made while a store is new are kept until the
 *  next ANALYZE, so indexes must win also where a table is small. A plan that costs little to run is not worth compiling
 *  (`jit`). The isolation and the limits of the server, its role or its database may be others; older servers have fewer.
 *  `bridgehead.clock_step` is that of clock_step(). */
const settingsOf = ({ clockStep, idleTransaction, lock, statement, response }: Timing["postgres"]) => ({
  text: `SELECT set_config(name, value, false) FROM (VALUES ('plan_cache_mode', 'force_generic_plan'), ('seq_page_cost', '20'),
    ('jit', 'off'), ('bridgehead.clock_step', $1), ('idle_in_transaction_session_timeout', $2), ('lock_timeout', $3),
    ('statement_timeout', $4), ('default_transaction_isolation', 'read committed'), ('idle_session_timeout', '0'),
    ('transaction_timeout', '0')) AS settings (name, value)
    WHERE name = 'bridgehead.clock_step' OR current_setting(name, true) IS NOT NULL`,
  values: [clockStep, idleTransaction, lock, statement].map(String),
  query_timeout: response,
});

export interface PostgresOptions {
  /** Separates tests. */
  readonly schema?: string;
  readonly connections?: number;
  readonly clock?: Clock;
  /** For connections that the server refuses later. */
  readonly log?: Log | undefined;
  /** A machine that stops or loses its network sends no error, so both sides need a limit for every wait. */
  readonly timing?: Partial<Timing["postgres"]>;
}

/** Connects to the server. Rejects when it is unreachable. */
export async function openPostgres(url: string, options: PostgresOptions = {}): Promise<Database> {
  const timing = { ...standardTiming.postgres, ...options.timing };
  const setup = {
    connectionString: url,
    connectionTimeoutMillis: timing.connect,
    keepAlive: true,
    keepAliveInitialDelayMillis: timing.keepAlive,
    ...(options.schema ? { options: `-c search_path=${options.schema}` } : {}),
  };
  const channel = options.schema ? `${wakeChannel}_${options.schema}` : wakeChannel;
  const clock = options.clock ?? systemClock;
  const refused = new RefusedConnections(options.log, clock, timing.refusals);
  const settings = settingsOf(timing);
  const listener = new WakeListener(channel, { setup, settings, clock, timing, refused });
  const listening = await listener.open().catch((error: unknown) => {
    throw notOpened(url, error);
  });
  const pool = new Pool({
    ...setup,
    max: options.connections ?? 10,
    verify: (client, done) => client.query(settings, (error) => done(error)),
  });
  pool.on("error", () => undefined); // the pool replaces an idle connection that fails
  pool.on("connect", (client) => client.on("error", () => undefined)); // a connection in use: its query rejects as well
  try {
    await checkServer(pool, listening);
  } catch (error) {
    await listener.close();
    await pool.end();
    throw error;
  }
  return new PostgresDatabase(pool, listener, refused, timing);
}

/** Says which server the error is about, without the password in the URL. The code stays, for `isUnreachable`. */
function notOpened(url: string, error: unknown): Error {
  const { host } = URL.parse(url) ?? { host: "" };
  const { code = isUnreachable(error) ? "ETIMEDOUT" : undefined, message } = error as Error & { code?: string };
  const reason = message || code;
  const remedy =
    code === readOnly
      ? "promote this standby, or name the primary in `store:`"
      : code === "53300"
        ? "end other connections, or raise max_connections of the server, or the CONNECTION LIMIT of the role or database"
        : /CERT/.test(code ?? "")
          ? "add ?sslmode=verify-full&sslrootcert=FILE to the URL, with the CA that signed the server's certificate, and name a host of the certificate"
          : "check that the server runs and accepts the address, user and password of `store:`";
  const text = `opening the store on PostgreSQL${host && ` at ${host}`}: ${reason}. Remedy: ${remedy}`;
  return Object.assign(new Error(text, { cause: error }), { code });
}

class PostgresDatabase implements Database {
  readonly kind = "postgres";
  readonly #pool: Pool;
  readonly #connect: () => Promise<PoolClient>;
  readonly #listener: WakeListener;
  readonly #timing: Timing["postgres"];
  readonly #joint: JointTransactions;
  #observer: StoreObserver | null = null;
  /** The last write that found no room on the server's disk. */
  #full: { readonly at: number; readonly reason: string } | null = null;
  /** Transactions that wake the other nodes when they commit. */
  readonly #waking = new WeakSet<Query>();
  #closing: Promise<void> | null = null;

  constructor(pool: Pool, listener: WakeListener, refused: RefusedConnections, timing: Timing["postgres"]) {
    this.#pool = pool;
    this.#listener = listener;
    this.#timing = timing;
    const connect = () =>
      pool.connect().catch((error: unknown) => {
        refused.note(error);
        throw error;
      });
    this.#connect = connect;
    this.#joint = new JointTransactions(this.#connect, timing, (work, options) => this.#apart(work, options));
  }

  async tx<T>(work: (q: Query) => Promise<T>, options: TxOptions = {}): Promise<T> {
    const { joint, durable = true } = options;
    try {
      return await (joint === undefined || !durable
        ? this.#apart(work, options)
        : this.#joint.run(work, { ...options, joint }));
    } catch (error) {
      const { code, message } = error as Error & { code?: string };
      if (code === diskFull) this.#full = { at: systemClock.monotonic(), reason: message };
      throw error;
    }
  }

  async #apart<T>(work: (q: Query) => Promise<T>, options: TxOptions): Promise<T> {
    let saving = false;
    for (let attempt = 1; ; ) {
      try {
        return await this.#once(work, options, saving);
      } catch (error) {
        if (error instanceof NeedsSavepoints) saving = true;
        else if (attempt >= 5 || !transient(error)) throw error;
        else attempt++;
      }
    }
  }

  async #once<T>(
    work: (q: Query) => Promise<T>,
    { unhurried = false, durable = true, committed }: TxOptions,
    saving: boolean,
  ): Promise<T> {
    const client = await this.#connect();
    const interrupted = Promise.withResolvers<never>();
    const responseMs = unhurried ? this.#timing.migration : this.#timing.response;
    const transaction = { interrupt: interrupted.reject, saving };
    const connection = new PostgresConnection(client, responseMs, transaction);
    try {
      connection.post("BEGIN");
      if (unhurried) {
        connection.post("SET LOCAL lock_timeout = 0");
        connection.post("SET LOCAL statement_timeout = 0");
      }
      if (!durable) connection.post("SET LOCAL synchronous_commit = off");
      const result = await Promise.race([interrupted.promise, work(connection)]);
      const began = systemClock.monotonic();
      await connection.commit();
      const commitMs = systemClock.monotonic() - began;
      this.#observer?.({ hops: connection.hops, commitMs, syncMs: null });
      for (const act of connection.afterwards) act();
      if (this.#waking.has(connection)) this.#listener.notify();
      committed?.();
      return result;
    } catch (error) {
      await connection.rollback();
      throw error;
    } finally {
      client.release(connection.lost);
    }
  }

  /** A commit returns when it is on disk. */
  async synced(): Promise<void> {}

  async read<T>(work: (q: Query) => Promise<T>): Promise<T> {
    const client = await this.#connect();
    const connection = new PostgresConnection(client, this.#timing.response);
    try {
      return await work(connection);
    } finally {
      client.release(connection.lost);
    }
  }

  async maintain(): Promise<boolean> {
    return false;
  }

  onWake(woken: () => void): void {
    this.#listener.onNotification(woken);
  }

  damage(): string | null {
    const full = this.#full;
    if (full === null || systemClock.monotonic() - full.at > this.#timing.fullDisk) return null;
    return `cannot be written: ${full.reason}`;
  }

  async check(): Promise<FileCheck> {
    return { kind: "sound" };
  }

  observe(observer: StoreObserver): void {
    this.#observer = observer;
    this.#joint.observer = observer;
  }

  hold(process: string): Promise<void> {
    return this.#listener.hold(process);
  }

  async wake(q: Query): Promise<void> {
    this.#waking.add(q);
  }

  close(): Promise<void> {
    this.#closing ??= this.#listener.close().then(() => this.#pool.end());
    return this.#closing;
  }
}
