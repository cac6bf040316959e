// PostgreSQL driver: a pool, one connection per transaction, LISTEN/NOTIFY to wake the other nodes.

import type { Clock } from "bridgehead/contract";
import { type ClientBase, type CustomTypesConfig, DatabaseError, Pool, types as pgTypes } from "pg";
import { systemClock } from "../ops/clock.ts";
import { type Database, dialect, type Query, type Value } from "./driver.ts";
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

/** A connection in use, with the reason why it must not be reused. */
interface Line {
  readonly query: Query;
  /** Runs BEGIN, COMMIT and similar commands. */
  command(sql: string): Promise<string>;
  /** Returns the first failure that was not an error response of the server. The state of the connection is
   *  then unknown. */
  lost(): Error | undefined;
  /** Calls the `onRollback` callbacks of a transaction that was not committed. */
  undo(): void;
}

/** Wraps a connection. `interrupt` aborts a transaction that must run again. The statement that failed
 *  then never settles, because a savepoint around it would mistake the transient error for a failure of
 *  the work and only roll back to itself. */
function lineOn(client: ClientBase, queryMs: number, interrupt?: (error: unknown) => void): Line {
  let depth = 0;
  let lost: Error | undefined;
  const undos: (() => void)[] = [];
  const undoTo = (length: number) => {
    while (undos.length > length) undos.pop()?.();
  };
  const send = async (sql: string, values: readonly Value[]) => {
    try {
      // `query_timeout` belongs to pg and is missing in its types.
      const config = { text: sql, values: values.map(toParameter), query_timeout: queryMs };
      return await client.query<Record<string, unknown>>(config);
    } catch (error) {
      if (!(error instanceof DatabaseError) || error.severity === "FATAL") lost ??= error as Error;
      throw error;
    }
  };
  const ask = async (sql: string, values: readonly Value[]) => {
    try {
      return await send(dialect(sql, "postgres"), values);
    } catch (error) {
      if (!interrupt || !transient(error)) throw error;
      interrupt(error);
      return new Promise<never>(() => undefined);
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
      const name = `s${++depth}`;
      const before = undos.length;
      await send(`SAVEPOINT ${name}`, []);
      try {
        const result = await work();
        await send(`RELEASE ${name}`, []);
        return result;
      } catch (error) {
        undoTo(before);
        if (!lost) {
          await send(`ROLLBACK TO ${name}`, []);
          await send(`RELEASE ${name}`, []);
        }
        throw error;
      } finally {
        depth--;
      }
    },
    onRollback: (undo) => void undos.push(undo),
  };
  return {
    query,
    lost: () => lost,
    undo: () => undoTo(0),
    command: async (sql) => (await send(sql, [])).command,
  };
}

/** Serialization failures, deadlocks and lock timeouts: the transaction was rolled back and may be
 *  retried. */
const transient = (error: unknown): boolean =>
  ["40001", "40P01", "55P03"].includes((error as { code?: string }).code ?? "");

/** Timeouts in milliseconds. A machine that stops or loses its network sends no error, so both sides
 *  need a limit for every wait. */
export interface Patience {
  /** The server ends the idle transaction of a lost node, so that its locks block no other transaction. */
  readonly idleMs: number;
  /** Limit for the wait for another node's lock; the transaction is then retried. */
  readonly lockMs: number;
  /** The server cancels a statement after this time. */
  readonly statementMs: number;
  /** The client gives up on a server that does not respond; longer than `statementMs`. */
  readonly answerMs: number;
  /** Limit for opening a connection, or for getting a free one from the pool. */
  readonly connectMs: number;
}

const standard: Patience = {
  idleMs: 10_000,
  lockMs: 5000,
  statementMs: 30_000,
  answerMs: 35_000,
  connectMs: 15_000,
};

/** One day in milliseconds: longer than any migration may take, and within the range of a timer. */
const unhurriedMs = 86_400_000;

/** Connects to the server; `schema` separates tests. Rejects when the server is unreachable. */
export async function openPostgres(
  url: string,
  options: {
    readonly schema?: string;
    readonly connections?: number;
    readonly clock?: Clock;
    readonly patience?: Partial<Patience>;
  } = {},
): Promise<Database> {
  const patience = { ...standard, ...options.patience };
  const setup = {
    connectionString: url,
    types,
    idle_in_transaction_session_timeout: patience.idleMs,
    lock_timeout: patience.lockMs,
    statement_timeout: patience.statementMs,
    connectionTimeoutMillis: patience.connectMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
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
  });

  async function once<T>(work: (q: Query) => Promise<T>, unhurried: boolean): Promise<T> {
    const client = await pool.connect();
    const interrupted = Promise.withResolvers<never>();
    const line = lineOn(client, unhurried ? unhurriedMs : patience.answerMs, interrupted.reject);
    try {
      await line.command("BEGIN");
      if (unhurried) {
        await line.command("SET LOCAL lock_timeout = 0");
        await line.command("SET LOCAL statement_timeout = 0");
      }
      const result = await Promise.race([interrupted.promise, work(line.query)]);
      // When `work` catches the error of a failed statement, the commit becomes a rollback without an error.
      if ((await line.command("COMMIT")) !== "COMMIT")
        throw new Error("committing: the transaction was rolled back after a failed statement");
      return result;
    } catch (error) {
      line.undo();
      // A lost connection is closed, and the server rolls back its transaction.
      if (!line.lost()) await line.command("ROLLBACK").catch(() => undefined);
      throw error;
    } finally {
      client.release(line.lost());
    }
  }

  return {
    kind: "postgres",
    async tx(work, { unhurried = false } = {}) {
      for (let attempt = 1; ; attempt++) {
        try {
          return await once(work, unhurried);
        } catch (error) {
          if (attempt >= 5 || !transient(error)) throw error;
        }
      }
    },
    async read(work) {
      const client = await pool.connect();
      const line = lineOn(client, patience.answerMs);
      try {
        return await work(line.query);
      } finally {
        client.release(line.lost());
      }
    },
    onWake: (listener) => void listeners.push(listener),
    wake: async (q) => void (await q.run("SELECT pg_notify($1, '')", channel)),
    async close() {
      await listening.close();
      await pool.end();
    },
  };
}
