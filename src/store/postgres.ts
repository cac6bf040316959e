// PostgreSQL: a pool, one connection a transaction, LISTEN/NOTIFY to wake the other nodes.

import { Client, type ClientBase, type CustomTypesConfig, Pool, types as pgTypes } from "pg";
import { type Database, dialect, type Query, type Value } from "./driver.ts";

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

function query(client: ClientBase): Query {
  let depth = 0;
  const send = (sql: string, values: readonly Value[]) =>
    client.query({
      text: dialect(sql, "postgres"),
      values: values.map(toParameter),
    });
  return {
    all: async <T>(sql: string, ...values: Value[]) => (await send(sql, values)).rows as T[],
    one: async <T>(sql: string, ...values: Value[]) => (await send(sql, values)).rows[0] as T | undefined,
    run: async (sql, ...values) => (await send(sql, values)).rowCount ?? 0,
    async savepoint(work) {
      const name = `s${++depth}`;
      await client.query(`SAVEPOINT ${name}`);
      try {
        const result = await work();
        await client.query(`RELEASE ${name}`);
        return result;
      } catch (error) {
        await client.query(`ROLLBACK TO ${name}`);
        await client.query(`RELEASE ${name}`);
        throw error;
      } finally {
        depth--;
      }
    },
  };
}

/** Serialisation failures and deadlocks: the transaction did not happen and may simply run again. */
const transient = (error: unknown): boolean => {
  const code = (error as { code?: string }).code;
  return code === "40001" || code === "40P01";
};

const timedOut = (error: unknown): boolean =>
  error instanceof Error && error.message === "Query read timeout";

/** A machine that loses its line says nothing: neither side may wait for the other for ever. The server ends what a lost
 *  node left open, so that its locks hold nobody up; a node gives up on a server that does not answer. */
const patience = {
  idle_in_transaction_session_timeout: 20_000,
  query_timeout: 60_000,
  connectionTimeoutMillis: 10_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
};

/** Connects lazily; `schema` keeps tests apart. Throws when the server cannot be reached. */
export async function openPostgres(
  url: string,
  options: { schema?: string; connections?: number } = {},
): Promise<Database> {
  const setup = { ...patience, ...(options.schema ? { options: `-c search_path=${options.schema}` } : {}) };
  const pool = new Pool({ connectionString: url, max: options.connections ?? 10, types, ...setup });
  pool.on("error", () => undefined); // an idle connection that dies is replaced by the pool
  pool.on("connect", (client) => client.on("error", () => undefined)); // one in use: its query rejects as well
  const listeners: (() => void)[] = [];
  const channel = options.schema ? `${wakeChannel}_${options.schema}` : wakeChannel;
  let listening: Client | null = null;
  let closed = false;
  let connecting: Promise<void> | null = null;

  async function listen(): Promise<void> {
    const client = new Client({ connectionString: url, types, ...setup });
    client.on("notification", () => listeners.forEach((listener) => listener()));
    client.on("error", () => undefined);
    client.on("end", () => {
      if (listening === client) listening = null;
    });
    await client.connect();
    await client.query(`LISTEN "${channel}"`);
    listening = client;
  }
  await listen();

  async function once<T>(work: (q: Query) => Promise<T>): Promise<T> {
    const client = await pool.connect();
    let broken: Error | undefined;
    try {
      await client.query("BEGIN");
      const result = await work(query(client));
      // A failed statement that `work` kept to itself turns the commit into a rollback, without an error.
      const { command } = await client.query("COMMIT");
      if (command !== "COMMIT")
        throw new Error("committing: the transaction was rolled back after a failed statement");
      return result;
    } catch (error) {
      // A line that did not answer in time would not answer this either: it is closed, which rolls back as well.
      if (timedOut(error)) broken = error as Error;
      else
        await client.query("ROLLBACK").catch((cause: unknown) => {
          broken = cause as Error;
        });
      throw error;
    } finally {
      client.release(broken);
    }
  }

  return {
    kind: "postgres",
    async tx(work) {
      // A lost listener is only a lost wake-up (the sweep finds the work); it comes back with the next transaction.
      if (!listening && !closed) {
        connecting ??= listen().finally(() => (connecting = null));
        await connecting.catch(() => undefined);
      }
      for (let attempt = 1; ; attempt++) {
        try {
          return await once(work);
        } catch (error) {
          if (attempt >= 5 || !transient(error)) throw error;
        }
      }
    },
    async read(work) {
      const client = await pool.connect();
      let broken: Error | undefined;
      try {
        return await work(query(client));
      } catch (error) {
        if (timedOut(error)) broken = error as Error;
        throw error;
      } finally {
        client.release(broken);
      }
    },
    onWake: (listener) => void listeners.push(listener),
    wake: async (q) => void (await q.run("SELECT pg_notify($1, '')", channel)),
    async close() {
      closed = true;
      await listening?.end();
      await pool.end();
    },
  };
}
