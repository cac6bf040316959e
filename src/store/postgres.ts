// PostgreSQL driver: a pool, one connection per transaction, LISTEN/NOTIFY to wake the other nodes.

import type { Clock } from "bridgehead/contract";
import { type ClientBase, type CustomTypesConfig, DatabaseError, Pool, types as pgTypes } from "pg";
import { systemClock } from "../ops/clock.ts";
import { standardTiming, type Timing } from "../ops/timing.ts";
import { type Database, dialect, type Query, type TxOptions, type Value } from "./driver.ts";
import { listenFor } from "./listener.ts";

const wakeChannel = "bridgehead_wake";
// int8 (20) and numeric (1700) arrive as text by default; all integers of the store fit a double.
const integers: ReadonlySet<number> = new Set([20, 1700]);
const standardParser = pgTypes.getTypeParser as (oid: number, format?: "text" | "binary") => unknown;
const types: CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: "text" | "binary") =>
    integers.has(oid) ? Number : standardParser(oid, format)) as CustomTypesConfig["getTypeParser"],
};

/** PostgreSQL text cannot contain NUL. NULs are removed, so that an external message cannot block
 *  intake. */
function toParameter(value: Value): Value {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return typeof value === "string" ? value.replaceAll("\0", "") : value;
}

interface Statement {
  readonly text: string;
  /** Name of the prepared statement; absent beyond `mostPrepared`. */
  readonly name?: string;
}
/** By the SQL text of the callers. Each connection parses and plans a named statement once. */
const statements = new Map<string, Statement>();
/** Bounds what a connection keeps on the server. Lists of placeholders make texts without limit. */
const mostPrepared = 500;

function statementOf(sql: string): Statement {
  let known = statements.get(sql);
  if (known === undefined) {
    const text = dialect(sql, "postgres");
    if (statements.size >= mostPrepared) return { text };
    known = { text, name: `s${statements.size}` };
    statements.set(sql, known);
  }
  return known;
}

/** A connection in use, with the reason why it must not be reused. */
interface Line {
  readonly query: Query;
  /** Sends BEGIN, SET or SAVEPOINT without waiting. Its failure is the failure of the next statement. */
  post(sql: string): void;
  /** Runs COMMIT or ROLLBACK and returns its command tag. */
  command(sql: string): Promise<string>;
  /** Returns the first failure of a statement that was not awaited. */
  failed(): unknown;
  /** Returns the first failure that was not an error response of the server, or that prepared statements
   *  cannot survive. The connection is then closed. */
  lost(): Error | undefined;
  /** Ends the use of the connection, before its ROLLBACK and its return to the pool. Work that was
   *  abandoned sends nothing any more: its next statement never settles. */
  end(): void;
  /** Calls the `onRollback` callbacks of a transaction that was not committed. */
  undo(): void;
}

/** Thrown into a transaction without savepoints when a savepoint's work failed: it runs again with
 *  them. */
class NeedsSavepoints extends Error {}

/** Wraps a connection. Statements are sent without waiting for the ones before them; the server runs them
 *  in order, and after a failure it refuses the rest of the transaction. `interrupt` aborts a transaction
 *  that must run again. The statement that failed then never settles, because the caller would mistake
 *  the error for a failure of its work. */
function lineOn(
  client: ClientBase,
  queryMs: number,
  { interrupt, saving = false }: { interrupt?: (error: unknown) => void; saving?: boolean } = {},
): Line {
  let depth = 0;
  let lost: Error | undefined;
  let failed: unknown;
  let ended = false;
  const undos: (() => void)[] = [];
  const undoTo = (length: number) => {
    while (undos.length > length) undos.pop()?.();
  };
  const send = async (statement: Statement, values: readonly Value[]) => {
    try {
      // `query_timeout` belongs to pg and is missing in its types.
      const config = { ...statement, values: values.map(toParameter), query_timeout: queryMs };
      return await client.query<Record<string, unknown>>(config);
    } catch (error) {
      if (!(error instanceof DatabaseError) || error.severity === "FATAL" || outdated(error))
        lost ??= error as Error;
      throw error;
    }
  };
  const never = () => new Promise<never>(() => undefined);
  const post = (sent: Promise<unknown>) => {
    const inSavepoint = depth > 0 && !saving;
    sent.catch((error: unknown) => {
      failed ??= error;
      if (interrupt && failed === error && (transient(error) || inSavepoint))
        interrupt(transient(error) ? error : new NeedsSavepoints());
    });
  };
  const ask = async (sql: string, values: readonly Value[]) => {
    if (ended) return never();
    try {
      const result = await send(statementOf(sql), values);
      if (failed === undefined) return result;
      throw failed;
    } catch (error) {
      const cause = failed ?? error; // the server refuses every statement after the first failure
      if (!interrupt || !transient(cause)) throw cause;
      interrupt(cause);
      return never();
    }
  };
  const query: Query = {
    all: async <T>(sql: string, ...values: Value[]) => (await ask(sql, values)).rows as T[],
    one: async <T>(sql: string, ...values: Value[]) => (await ask(sql, values)).rows[0] as T | undefined,
    run: async (sql, ...values) => (await ask(sql, values)).rowCount ?? 0,
    touched: new Map(),
    leases: null,
    waits: new Set(),
    async savepoint(work) {
      if (ended) return never();
      depth++;
      const before = undos.length;
      const name = `s${depth}`;
      if (saving) post(send({ text: `SAVEPOINT ${name}` }, []));
      try {
        const result = await work();
        if (saving) await send({ text: `RELEASE ${name}` }, []);
        return result;
      } catch (error) {
        if (!saving && interrupt) {
          interrupt(new NeedsSavepoints());
          return await never();
        }
        const cause = failed ?? error;
        undoTo(before);
        if (!lost && saving) {
          failed = undefined;
          post(send({ text: `ROLLBACK TO ${name}` }, []));
          post(send({ text: `RELEASE ${name}` }, []));
        }
        throw cause;
      } finally {
        depth--;
      }
    },
    onRollback: (undo) => void undos.push(undo),
  };
  return {
    query,
    lost: () => lost,
    failed: () => failed,
    end: () => void (ended = true),
    undo: () => undoTo(0),
    post: (sql) => post(send({ text: sql }, [])),
    command: async (sql) => (await send({ text: sql }, [])).command,
  };
}

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
    types,
    idle_in_transaction_session_timeout: timing.idleTransaction,
    lock_timeout: timing.lock,
    statement_timeout: timing.statement,
    connectionTimeoutMillis: timing.connect,
    pipeline: true,
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
      // When `work` catches the error of a failed statement, the commit becomes a rollback without an error.
      if ((await line.command("COMMIT")) !== "COMMIT")
        throw (
          line.failed() ?? new Error("committing: the transaction was rolled back after a failed statement")
        );
      if (waking.has(line.query)) listening.notify();
      committed?.();
      return result;
    } catch (error) {
      line.end();
      line.undo();
      // A lost connection is closed, and the server rolls back its transaction.
      if (!line.lost()) await line.command("ROLLBACK").catch(() => undefined);
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
    wake: async (q) => void waking.add(q),
    close: () => (closing ??= close()),
  };
}
