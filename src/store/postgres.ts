// PostgreSQL driver: a pool, one connection per transaction, LISTEN/NOTIFY to wake the other nodes.

import type { Clock } from "bridgehead/contract";
import { type ClientBase, Pool } from "pg";
import { systemClock } from "../ops/clock.ts";
import type { Hop } from "../ops/hops.ts";
import { standardTiming, type Timing } from "../ops/timing.ts";
import type { Database, Query, StoreObserver, TxOptions, Value } from "./driver.ts";
import { JointTransactions } from "./postgres/joint.ts";
import { WakeListener } from "./postgres/listener.ts";
import {
  exactlyOne,
  failureOf,
  isFatal,
  isOutdated,
  type Result,
  roundTrip,
  type Sent,
} from "./postgres/round-trip.ts";

const wakeChannel = "bridgehead_wake";

/** A statement that is sent with the next one that the work waits for. */
interface Queued extends Sent {
  /** The work waits for its result. The failure of any other statement ends the transaction. */
  readonly isAwaited: boolean;
  readonly isInSavepoint: boolean;
}

/** Thrown into a transaction without savepoints when a savepoint's work failed: it runs again with
 *  them. */
class NeedsSavepoints extends Error {}

/** At most this many statements are sent together. */
const mostQueued = 100;

/** A statement whose caller must not continue: the transaction was aborted. */
const never = () => new Promise<never>(() => undefined);

interface Transaction {
  /** Aborts the transaction: it must run again, or a statement failed that the work does not wait for. The statement that
   *  the work waits for then never settles, because the caller would mistake the error for a failure of its own. */
  readonly interrupt: (error: unknown) => void;
  /** Makes the savepoints of `Query.savepoint`. */
  readonly saving: boolean;
}

/** A connection in use, for one transaction or, without one, for reads. The members of `Query` are properties, so that
 *  callers may pass them on. */
class PostgresConnection implements Query {
  readonly touched: Query["touched"] = new Map();
  readonly waits: Query["waits"] = new Set();
  readonly leases = null;
  /** See `Query.onDisk` and `Query.hop`. */
  readonly afterwards: (() => void)[] = [];
  readonly hops: Hop[] = [];
  /** The first failure that was not an error response of the server, or that prepared statements cannot survive. The
   *  connection is then closed. */
  lost: Error | undefined;
  readonly #client: ClientBase;
  readonly #queryMs: number;
  readonly #transaction: Transaction | null;
  readonly #undos: (() => void)[] = [];
  #depth = 0;
  #failed: unknown;
  #ended = false;
  #isBegun = false;
  #queued: Queued[] = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: ClientBase, queryMs: number, transaction: Transaction | null = null) {
    this.#client = client;
    this.#queryMs = queryMs;
    this.#transaction = transaction;
  }

  readonly all = async <T>(sql: string, ...values: Value[]) => (await this.#ask(sql, values)).rows as T[];

  readonly one = async <T>(sql: string, ...values: Value[]) =>
    (await this.#ask(sql, values)).rows[0] as T | undefined;

  readonly run: Query["run"] = async (sql, ...values) => (await this.#ask(sql, values)).count;

  readonly write: Query["write"] = (sql, ...values) => this.#write(sql, values);

  readonly writeOne: Query["writeOne"] = (otherwise, sql, ...values) =>
    this.#write(exactlyOne(sql), values, otherwise);

  readonly savepoint = async <T>(work: () => Promise<T>): Promise<T> => {
    const name = `s${this.#depth + 1}`;
    const saving = this.#transaction?.saving === true;
    if (saving) await this.#ask(`SAVEPOINT ${name}`); // fails for statements that were queued before it
    if (this.#ended) return never();
    this.#depth++;
    const [undos, later, hops] = [this.#undos.length, this.afterwards.length, this.hops.length];
    try {
      const result = await work();
      if (saving) await this.#ask(`RELEASE ${name}`);
      return result;
    } catch (error) {
      if (this.#ended) return await never();
      if (!saving && this.#transaction) {
        this.#ended = true;
        this.#transaction.interrupt(new NeedsSavepoints());
        return await never();
      }
      const cause = this.#failed ?? error;
      this.undo(undos);
      this.afterwards.length = later;
      this.hops.length = hops;
      if (!this.lost && saving) {
        this.#failed = undefined;
        this.#queued = [];
        for (const sql of [`ROLLBACK TO ${name}`, `RELEASE ${name}`])
          this.#queue({ sql, isInSavepoint: this.#depth > 1 });
      }
      throw cause;
    } finally {
      this.#depth--;
    }
  };

  readonly onRollback: Query["onRollback"] = (undo) => void this.#undos.push(undo);

  readonly onDisk: Query["onDisk"] = (act) => void this.afterwards.push(act);

  readonly hop: Query["hop"] = (hop) => void this.hops.push(hop);

  /** Queues BEGIN or SET. */
  post(sql: string): void {
    this.#queue({ sql });
  }

  /** Sends the queued statements and COMMIT. Rejects unless the transaction is committed. */
  async commit(): Promise<void> {
    await this.#last;
    if (this.#ended) throw this.#failed;
    this.#queue({ sql: "COMMIT" });
    const command = (await this.#send()).at(-1)?.command;
    // When `work` catches the error of a failed statement, the commit becomes a rollback without an error.
    if (command !== "COMMIT")
      throw new Error("committing: the transaction was rolled back after a failed statement", {
        cause: this.#failed,
      });
  }

  /** Ends the use of the connection and calls the `onRollback` callbacks, then rolls back what was sent; what was queued is
   *  dropped. Work that was abandoned sends nothing any more: its next statement never settles. */
  async rollback(): Promise<void> {
    this.#ended = true;
    this.undo(0);
    this.#queued = [];
    // A lost connection is closed, and the server rolls back its transaction.
    if (this.lost || !this.#isBegun) return;
    this.#queue({ sql: "ROLLBACK" });
    await this.#send().catch(() => undefined);
  }

  /** Calls the `onRollback` callbacks down to this number. */
  undo(length: number): void {
    while (this.#undos.length > length) this.#undos.pop()?.();
  }

  #queue(statement: Partial<Queued> & { readonly sql: string }): void {
    this.#queued.push({ values: [], isAwaited: false, isInSavepoint: this.#depth > 0, ...statement });
  }

  /** Sends the queued statements, after those that were sent before. */
  #send(): Promise<readonly Result[]> {
    const sent = this.#queued;
    this.#queued = [];
    this.#isBegun = true;
    const results = this.#last.then(() => this.#exchange(sent));
    this.#last = results.catch(() => undefined);
    return results;
  }

  async #exchange(sent: readonly Queued[]): Promise<readonly Result[]> {
    const outcome = await roundTrip(this.#client, sent, this.#queryMs);
    if (outcome.error !== undefined) {
      if (isFatal(outcome.error)) this.lost ??= outcome.error as Error;
      const failed = sent[outcome.results.length];
      throw this.#fail(failureOf(outcome.error, failed), failed);
    }
    return outcome.results;
  }

  /** Records the first failure. Returns the error that the waiting statement rejects with. */
  #fail(error: unknown, statement: Queued | undefined): unknown {
    if (!this.#transaction) return error;
    if (this.#failed !== undefined) return this.#failed; // the server refuses every statement after the first failure
    const { interrupt, saving } = this.#transaction;
    const isUnsaved = statement?.isInSavepoint === true && !saving;
    this.#failed = isUnsaved && !transient(error) ? new NeedsSavepoints() : error;
    const mayHandle = statement?.isAwaited === true || statement?.isInSavepoint === true;
    if (isUnsaved || transient(error) || !mayHandle) {
      this.#ended = true;
      interrupt(this.#failed);
    }
    return this.#failed;
  }

  async #ask(sql: string, values: readonly Value[] = [], otherwise?: () => Error): Promise<Result> {
    if (this.#ended) return never();
    this.#queue({ sql, values, otherwise, isAwaited: true });
    try {
      const result = (await this.#send()).at(-1);
      if (this.#failed === undefined && result !== undefined) return result;
      throw this.#failed;
    } catch (error) {
      if (this.#ended) return never();
      throw error;
    }
  }

  async #write(sql: string, values: readonly Value[], otherwise?: () => Error): Promise<void> {
    if (!this.#transaction) return void (await this.#ask(sql, values, otherwise));
    if (this.#ended) return never();
    this.#queue({ sql, values, otherwise });
    if (this.#queued.length >= mostQueued) this.#send().catch(() => undefined);
  }
}

/** Serialization failures, deadlocks and lock timeouts: the transaction was rolled back and may be
 *  retried. */
const transient = (error: unknown): boolean =>
  ["40001", "40P01", "55P03"].includes((error as { code?: string }).code ?? "") || isOutdated(error);

/** Throws when commits of this role do not wait for the disk of the server: a crash of the server would lose
 *  messages that their providers were told are stored. */
async function checkDurable(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ synchronous_commit: string }>("SHOW synchronous_commit");
  if (rows[0]?.synchronous_commit !== "off") return;
  throw new Error(
    "opening the store: synchronous_commit is off on this PostgreSQL server, so its crash would lose acknowledged messages. Remedy: ALTER ROLE ... SET synchronous_commit = on, or add options=-c%20synchronous_commit%3Don to the URL",
  );
}

/** Without it the server plans each statement six times on each connection. */
const planOnce = (timeoutMs: number) => ({
  text: "SET plan_cache_mode = force_generic_plan",
  query_timeout: timeoutMs,
});

export interface PostgresOptions {
  /** Separates tests. */
  readonly schema?: string;
  readonly connections?: number;
  readonly clock?: Clock;
  /** A machine that stops or loses its network sends no error, so both sides need a limit for every wait. */
  readonly timing?: Partial<Timing["postgres"]>;
}

/** Connects to the server. Rejects when it is unreachable. */
export async function openPostgres(url: string, options: PostgresOptions = {}): Promise<Database> {
  const timing = { ...standardTiming.postgres, ...options.timing };
  const setup = {
    connectionString: url,
    idle_in_transaction_session_timeout: timing.idleTransaction,
    lock_timeout: timing.lock,
    statement_timeout: timing.statement,
    connectionTimeoutMillis: timing.connect,
    keepAlive: true,
    keepAliveInitialDelayMillis: timing.keepAlive,
    ...(options.schema ? { options: `-c search_path=${options.schema}` } : {}),
  };
  const channel = options.schema ? `${wakeChannel}_${options.schema}` : wakeChannel;
  const listener = new WakeListener(channel, { setup, clock: options.clock ?? systemClock, timing });
  await listener.open();
  const pool = new Pool({
    ...setup,
    max: options.connections ?? 10,
    verify: (client, done) => client.query(planOnce(timing.response), (error) => done(error)),
  });
  pool.on("error", () => undefined); // the pool replaces an idle connection that fails
  pool.on("connect", (client) => client.on("error", () => undefined)); // a connection in use: its query rejects as well
  try {
    await checkDurable(pool);
  } catch (error) {
    await listener.close();
    await pool.end();
    throw error;
  }
  return new PostgresDatabase(pool, listener, timing);
}

class PostgresDatabase implements Database {
  readonly kind = "postgres";
  readonly #pool: Pool;
  readonly #listener: WakeListener;
  readonly #timing: Timing["postgres"];
  readonly #joint: JointTransactions;
  #observer: StoreObserver | null = null;
  /** Transactions that wake the other nodes when they commit. */
  readonly #waking = new WeakSet<Query>();
  #closing: Promise<void> | null = null;

  constructor(pool: Pool, listener: WakeListener, timing: Timing["postgres"]) {
    this.#pool = pool;
    this.#listener = listener;
    this.#timing = timing;
    this.#joint = new JointTransactions(pool, timing, (work, options) => this.#apart(work, options));
  }

  tx<T>(work: (q: Query) => Promise<T>, options: TxOptions = {}): Promise<T> {
    const { joint, durable = true } = options;
    return joint === undefined || !durable
      ? this.#apart(work, options)
      : this.#joint.run(work, { ...options, joint });
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
    const client = await this.#pool.connect();
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

  async read<T>(work: (q: Query) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect();
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

  observe(observer: StoreObserver): void {
    this.#observer = observer;
    this.#joint.observer = observer;
  }

  async wake(q: Query): Promise<void> {
    this.#waking.add(q);
  }

  close(): Promise<void> {
    this.#closing ??= this.#listener.close().then(() => this.#pool.end());
    return this.#closing;
  }
}
