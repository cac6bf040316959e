// PostgreSQL: a pool, one connection a transaction, LISTEN/NOTIFY to wake the other nodes.

import type { Clock } from "bridgehead/contract";
import { type ClientBase, type CustomTypesConfig, DatabaseError, Pool, types as pgTypes } from "pg";
import { systemClock } from "../ops/clock.ts";
import { type Database, dialect, type Query, type Value } from "./driver.ts";
import { listenFor } from "./listener.ts";

const wakeChannel = "bridgehead_wake";
// int8 (20) and numeric (1700) arrive as text by default; all our integers fit a double.
const integers: ReadonlySet<number> = new Set([20, 1700]);
const standardParser = pgTypes.getTypeParser as (oid: number, format?: "text" | "binary") => unknown;
const types: CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: "text" | "binary") =>
    integers.has(oid) ? Number : standardParser(oid, format)) as CustomTypesConfig["getTypeParser"],
};

/** A text of PostgreSQL holds no NUL; what a stranger wrote must not stop intake for that. */
function toParameter(value: Value): Value {
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return typeof value === "string" ? value.replaceAll("\0", "") : value;
}

/** A connection in use, and why it must not be used again. */
interface Line {
  readonly query: Query;
  /** BEGIN and the like. */
  command(sql: string): Promise<string>;
  /** The first failure that was not the server's own answer: nobody knows in what state the connection is. */
  lost(): Error | undefined;
}

/** `interrupt`: ends a transaction that must run again. Who waits for one of its statements then waits for ever: to undo
 *  only the savepoint around it would take a moment's trouble for a failure of the work. */
function lineOn(client: ClientBase, queryMs: number, interrupt?: (error: unknown) => void): Line {
  let depth = 0;
  let lost: Error | undefined;
  const send = async (sql: string, values: readonly Value[]) => {
    try {
      // `query_timeout` is pg's own, and not in its types.
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
    touched: new Set(),
    waits: new Set(),
    async savepoint(work) {
      const name = `s${++depth}`;
      await send(`SAVEPOINT ${name}`, []);
      try {
        const result = await work();
        await send(`RELEASE ${name}`, []);
        return result;
      } catch (error) {
        if (!lost) {
          await send(`ROLLBACK TO ${name}`, []);
          await send(`RELEASE ${name}`, []);
        }
        throw error;
      } finally {
        depth--;
      }
    },
  };
  return { query, lost: () => lost, command: async (sql) => (await send(sql, [])).command };
}

/** Serialisation failures, deadlocks and locks that were not to be had in time: the transaction did not happen and may
 *  simply run again. */
const transient = (error: unknown): boolean =>
  ["40001", "40P01", "55P03"].includes((error as { code?: string }).code ?? "");

/** A machine that stops or loses its line says nothing: neither side may wait for the other for ever. In milliseconds. */
export interface Patience {
  /** The server ends what a lost node left open, so that its locks hold nobody up. */
  readonly idleMs: number;
  /** Waits for another node's lock, then tries the transaction again. */
  readonly lockMs: number;
  /** The server gives a statement up. */
  readonly statementMs: number;
  /** We give up on a server that does not answer; longer than `statementMs`. */
  readonly answerMs: number;
  /** For a connection, or for a free place among ours. */
  readonly connectMs: number;
}

const standard: Patience = {
  idleMs: 10_000,
  lockMs: 5000,
  statementMs: 30_000,
  answerMs: 35_000,
  connectMs: 15_000,
};

/** Milliseconds of a day: longer than any migration may take, and a timer can still hold it. */
const unhurriedMs = 86_400_000;

/** Connects; `schema` keeps tests apart. Rejects when the server cannot be reached. */
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
  pool.on("error", () => undefined); // an idle connection that dies is replaced by the pool
  pool.on("connect", (client) => client.on("error", () => undefined)); // one in use: its query rejects as well
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
      // A failed statement that `work` kept to itself turns the commit into a rollback, without an error.
      if ((await line.command("COMMIT")) !== "COMMIT")
        throw new Error("committing: the transaction was rolled back after a failed statement");
      return result;
    } catch (error) {
      // What is lost is closed, and the server rolls back by itself.
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
