// PostgreSQL driver: a pool, one connection per transaction, LISTEN/NOTIFY to wake the other nodes.

import type { Clock } from "bridgehead/contract";
import { type ClientBase, DatabaseError, Pool } from "pg";
import { systemClock } from "../ops/clock.ts";
import type { Hop } from "../ops/hops.ts";
import { standardTiming, type Timing } from "../ops/timing.ts";
import type { Database, Query, StoreObserver, TxOptions, Value } from "./driver.ts";
import { listenFor } from "./postgres/listener.ts";
import { type Result, roundTrip, type Sent } from "./postgres/round-trip.ts";

const wakeChannel = "bridgehead_wake";

/** A statement that is sent with the next one that the work waits for. */
interface Queued extends Sent {
  /** The work waits for its result. The failure of any other statement ends the transaction. */
  readonly isAwaited: boolean;
  readonly isInSavepoint: boolean;
  /** Absent: any number of rows may be changed. Else it must be one, or the statement fails with this error. */
  readonly otherwise?: (() => Error) | undefined;
}

/** A connection in use, with the reason why it must not be reused. */
interface PostgresConnection {
  readonly query: Query;
  /** Queues BEGIN or SET. */
  post(sql: string): void;
  /** Sends the queued statements and COMMIT. Rejects unless the transaction is committed. */
  commit(): Promise<void>;
  /** Rolls back what was sent. Drops what was queued. */
  rollback(): Promise<void>;
  /** Returns the first failure that was not an error response of the server, or that prepared statements
   *  cannot survive. The connection is then closed. */
  lost(): Error | undefined;
  /** Ends the use of the connection, before its ROLLBACK and its return to the pool. Work that was
   *  abandoned sends nothing any more: its next statement never settles. */
  end(): void;
  /** Calls the `onRollback` callbacks of a transaction that was not committed. */
  undo(): void;
  /** See `Query.onDisk` and `Query.hop`. */
  readonly afterwards: readonly (() => void)[];
  readonly hops: readonly Hop[];
}

/** Thrown into a transaction without savepoints when a savepoint's work failed: it runs again with
 *  them. */
class NeedsSavepoints extends Error {}

/** At most this many statements are sent together. */
const mostQueued = 100;

/** Wraps a connection. `interrupt` aborts the transaction: it must run again, or a statement failed that the
 *  work does not wait for. The statement that the work waits for then never settles, because the caller
 *  would mistake the error for a failure of its own. Without `interrupt` there is no transaction. */
function lineOn(
  client: ClientBase,
  queryMs: number,
  { interrupt, saving = false }: { interrupt?: (error: unknown) => void; saving?: boolean } = {},
): PostgresConnection {
  let depth = 0;
  let lost: Error | undefined;
  let failed: unknown;
  let ended = false;
  let isBegun = false;
  let queued: Queued[] = [];
  let last: Promise<unknown> = Promise.resolve();
  const undos: (() => void)[] = [];
  const afterwards: (() => void)[] = [];
  const hops: Hop[] = [];
  const undoTo = (length: number) => {
    while (undos.length > length) undos.pop()?.();
  };
  const never = () => new Promise<never>(() => undefined);
  const queue = (sql: string, values: readonly Value[], more: Partial<Queued> = {}) => {
    queued.push({ sql, values, isAwaited: false, isInSavepoint: depth > 0, ...more });
  };

  /** Sends the queued statements, after those that were sent before. */
  const send = (): Promise<readonly Result[]> => {
    const sent = queued;
    queued = [];
    isBegun = true;
    const results = last.then(() => exchange(sent));
    last = results.catch(() => undefined);
    return results;
  };
  const exchange = async (sent: readonly Queued[]): Promise<readonly Result[]> => {
    const outcome = await roundTrip(client, sent, queryMs);
    if (outcome.error !== undefined) {
      if (isFatal(outcome.error)) lost ??= outcome.error as Error;
      throw fail(outcome.error, sent[outcome.results.length]);
    }
    const wrong = sent.find(({ otherwise }, at) => otherwise && outcome.results[at]?.count !== 1);
    if (wrong?.otherwise) throw fail(wrong.otherwise(), wrong);
    return outcome.results;
  };
  /** Records the first failure. Returns the error that the waiting statement rejects with. */
  const fail = (error: unknown, statement: Queued | undefined): unknown => {
    if (!interrupt) return error;
    if (failed !== undefined) return failed; // the server refuses every statement after the first failure
    const isUnsaved = statement?.isInSavepoint === true && !saving;
    failed = isUnsaved && !transient(error) ? new NeedsSavepoints() : error;
    const mayHandle = statement?.isAwaited === true || statement?.isInSavepoint === true;
    if (isUnsaved || transient(error) || !mayHandle) {
      ended = true;
      interrupt(failed);
    }
    return failed;
  };

  const ask = async (sql: string, values: readonly Value[], more: Partial<Queued> = {}): Promise<Result> => {
    if (ended) return never();
    queue(sql, values, { isAwaited: true, ...more });
    try {
      const result = (await send()).at(-1);
      if (failed === undefined && result !== undefined) return result;
      throw failed;
    } catch (error) {
      if (ended) return never();
      throw error;
    }
  };
  const write = async (sql: string, values: readonly Value[], more: Partial<Queued> = {}): Promise<void> => {
    if (!interrupt) return void (await ask(sql, values, more));
    if (ended) return never();
    queue(sql, values, more);
    if (queued.length >= mostQueued) send().catch(() => undefined);
  };
  /** Statements that must change one row are checked before COMMIT or RELEASE is sent. */
  const check = async () => {
    if (queued.some(({ otherwise }) => otherwise)) await send();
  };
  const query: Query = {
    all: async <T>(sql: string, ...values: Value[]) => (await ask(sql, values)).rows as T[],
    one: async <T>(sql: string, ...values: Value[]) => (await ask(sql, values)).rows[0] as T | undefined,
    run: async (sql, ...values) => (await ask(sql, values)).count,
    write: (sql, ...values) => write(sql, values),
    writeOne: (otherwise, sql, ...values) => write(sql, values, { otherwise }),
    touched: new Map(),
    leases: null,
    waits: new Set(),
    async savepoint(work) {
      const name = `s${depth + 1}`;
      if (saving) await ask(`SAVEPOINT ${name}`, []); // fails for statements that were queued before it
      if (ended) return never();
      depth++;
      const before = undos.length;
      const later = afterwards.length;
      const hopsBefore = hops.length;
      try {
        const result = await work();
        if (saving) {
          await check();
          await ask(`RELEASE ${name}`, []);
        }
        return result;
      } catch (error) {
        if (ended) return await never();
        if (!saving && interrupt) {
          ended = true;
          interrupt(new NeedsSavepoints());
          return await never();
        }
        const cause = failed ?? error;
        undoTo(before);
        afterwards.length = later;
        hops.length = hopsBefore;
        if (!lost && saving) {
          failed = undefined;
          queued = [];
          depth--;
          queue(`ROLLBACK TO ${name}`, []);
          queue(`RELEASE ${name}`, []);
          depth++;
        }
        throw cause;
      } finally {
        depth--;
      }
    },
    onRollback: (undo) => void undos.push(undo),
    onDisk: (act) => void afterwards.push(act),
    hop: (hop) => void hops.push(hop),
  };
  return {
    query,
    lost: () => lost,
    end: () => void (ended = true),
    undo: () => undoTo(0),
    afterwards,
    hops,
    post: (sql) => queue(sql, []),
    async commit() {
      await check();
      await last;
      if (ended) throw failed;
      queue("COMMIT", []);
      const command = (await send()).at(-1)?.command;
      // When `work` catches the error of a failed statement, the commit becomes a rollback without an error.
      if (command !== "COMMIT")
        throw new Error("committing: the transaction was rolled back after a failed statement", {
          cause: failed,
        });
    },
    async rollback() {
      queued = [];
      if (!isBegun) return;
      queue("ROLLBACK", []);
      await send().catch(() => undefined);
    },
  };
}

/** Errors after which the connection is closed: its own, those that end the session, and those that its prepared
 *  statements do not survive. */
const isFatal = (error: unknown): boolean =>
  !(error instanceof DatabaseError) || error.severity === "FATAL" || outdated(error);

/** Another node has migrated the schema, and a statement prepared before returns other columns now. */
const outdated = (error: unknown): boolean =>
  (error as { code?: string }).code === "0A000" && String(error).includes("cached plan");

/** Serialization failures, deadlocks and lock timeouts: the transaction was rolled back and may be
 *  retried. */
const transient = (error: unknown): boolean =>
  ["40001", "40P01", "55P03"].includes((error as { code?: string }).code ?? "") || outdated(error);

/** Throws when commits of this role do not wait for the disk of the server: a crash of the server would lose
 *  messages that their providers were told are stored. */
async function checkDurable(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ synchronous_commit: string }>("SHOW synchronous_commit");
  if (rows[0]?.synchronous_commit !== "off") return;
  throw new Error(
    "opening the store: synchronous_commit is off on this PostgreSQL server, so its crash would lose acknowledged messages. Remedy: ALTER ROLE ... SET synchronous_commit = on, or add options=-c%20synchronous_commit%3Don to the URL",
  );
}

/** Connects to the server; `schema` separates tests. Rejects when the server is unreachable. */
export async function openPostgres(
  url: string,
  options: {
    readonly schema?: string;
    readonly connections?: number;
    readonly clock?: Clock;
    /** A machine that stops or loses its network sends no error, so both sides need a limit for every wait. */
    readonly timing?: Partial<Timing["postgres"]>;
  } = {},
): Promise<Database> {
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
  const pool = new Pool({ ...setup, max: options.connections ?? 10 });
  pool.on("error", () => undefined); // the pool replaces an idle connection that fails
  pool.on("connect", (client) => client.on("error", () => undefined)); // a connection in use: its query rejects as well
  const listeners: (() => void)[] = [];
  const channel = options.schema ? `${wakeChannel}_${options.schema}` : wakeChannel;
  const listening = await listenFor(channel, () => listeners.forEach((listener) => listener()), {
    setup,
    clock: options.clock ?? systemClock,
    timing,
  });

  try {
    await checkDurable(pool);
  } catch (error) {
    await listening.close();
    await pool.end();
    throw error;
  }

  let observer: StoreObserver | null = null;
  /** Transactions that wake the other nodes when they commit. */
  const waking = new WeakSet<Query>();

  async function once<T>(
    work: (q: Query) => Promise<T>,
    { unhurried = false, durable = true, committed, saving }: TxOptions & { readonly saving: boolean },
  ): Promise<T> {
    const client = await pool.connect();
    const interrupted = Promise.withResolvers<never>();
    const { reject: interrupt } = interrupted;
    const line = lineOn(client, unhurried ? timing.migration : timing.response, { interrupt, saving });
    try {
      line.post("BEGIN");
      if (unhurried) {
        line.post("SET LOCAL lock_timeout = 0");
        line.post("SET LOCAL statement_timeout = 0");
      }
      if (!durable) line.post("SET LOCAL synchronous_commit = off");
      const result = await Promise.race([interrupted.promise, work(line.query)]);
      const began = systemClock.monotonic();
      await line.commit();
      observer?.({ hops: line.hops, commitMs: systemClock.monotonic() - began, syncMs: null });
      for (const act of line.afterwards) act();
      if (waking.has(line.query)) listening.notify();
      committed?.();
      return result;
    } catch (error) {
      line.end();
      line.undo();
      // A lost connection is closed, and the server rolls back its transaction.
      if (!line.lost()) await line.rollback();
      throw error;
    } finally {
      client.release(line.lost());
    }
  }

  let closing: Promise<void> | null = null;
  const close = async () => {
    await listening.close();
    await pool.end();
  };

  return {
    kind: "postgres",
    async tx(work, options = {}) {
      let saving = false;
      for (let attempt = 1; ; ) {
        try {
          return await once(work, { ...options, saving });
        } catch (error) {
          if (error instanceof NeedsSavepoints) saving = true;
          else if (attempt >= 5 || !transient(error)) throw error;
          else attempt++;
        }
      }
    },
    async read(work) {
      const client = await pool.connect();
      const line = lineOn(client, timing.response);
      try {
        return await work(line.query);
      } finally {
        client.release(line.lost());
      }
    },
    maintain: async () => false,
    onWake: (listener) => void listeners.push(listener),
    observe: (next) => void (observer = next),
    wake: async (q) => void waking.add(q),
    close: () => (closing ??= close()),
  };
}
