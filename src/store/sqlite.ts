// SQLite driver: statements on one write connection, whose transactions are committed by sqlite/commits.ts, and on one
// for reading.

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import Sqlite from "better-sqlite3";
import { createPrivateFile } from "../ops/private-file.ts";
import { standardTiming, type Timing } from "../ops/timing.ts";
import { type Database, type DeferredRows, dialect, integral, type Query, type Value } from "./driver.ts";
import { LaneLeases } from "./lanes.ts";
import { checkFile } from "./sqlite/check.ts";
import { Commits } from "./sqlite/commits.ts";
import { damaged, isDamage, isDamagedStore } from "./sqlite/damaged.ts";
import type { WalOptions } from "./sqlite/wal.ts";

export function sqliteVersion(): string {
  const db = new Sqlite(":memory:");
  const version = db.prepare<[], string>("SELECT sqlite_version()").pluck().get();
  db.close();
  return version ?? "";
}

interface CachedStatement {
  readonly statement: Sqlite.Statement;
  /** What tells that an execution has written: the number of rows that it changed or returned (`rows`), or the
   *  execution itself (`always`: a change of the schema). */
  readonly writes: "never" | "rows" | "always";
  /** Returns the values in the order of their placeholders, because the driver supports anonymous ones only. */
  inOrder(values: readonly Value[]): Value[];
}
type Prepare = (sql: string) => CachedStatement;

/** A statement that changes nothing unless it changes a row. */
const changesRows = /^\s*(?:INSERT|UPDATE|DELETE|WITH)\b/;

/** Bounds the memory for prepared statements. Lists of placeholders make texts without limit. */
const mostPrepared = 1000;

/** Prepares and caches statements. now_ms() is bound as a value, once per statement; a function would be
 *  called for every row that is read. The plus changes no value. A bare placeholder compared with an
 *  indexed column may decide which partial index applies. SQLite would then prepare the statement again
 *  for each new value, which costs more than running it. */
function cachedStatements(db: Sqlite.Database, now: () => number, clockStep: number): Prepare {
  const statements = new Map<string, CachedStatement>();
  return (sql) => {
    let prepared = statements.get(sql);
    if (!prepared) {
      /** The place of each placeholder's value in the caller's list; null for now_ms(). */
      const places: (number | null)[] = [];
      const own = dialect(sql, "sqlite").replaceAll("clock_step()", String(clockStep));
      const text = own.replace(/\$(\d+)|now_ms\(\)/g, (_, number?: string) => {
        places.push(number === undefined ? null : Number(number) - 1);
        return "+?";
      });
      const statement = db.prepare(text);
      const writes = statement.readonly ? "never" : changesRows.test(text) ? "rows" : "always";
      const isTimed = places.includes(null);
      const inOrder = (values: readonly Value[]): Value[] => {
        const time = isTimed ? Math.floor(now()) : null;
        return places.map((place) => (place === null ? time : integral(values[place] ?? null)));
      };
      prepared = { statement, writes, inOrder };
      if (statements.size >= mostPrepared) for (const oldest of statements.keys().take(1)) statements.delete(oldest);
      statements.set(sql, prepared);
    }
    return prepared;
  };
}

function queryOn(
  prepareAny: Prepare,
  leases: LaneLeases,
  {
    checkOpen,
    wrote,
    nested,
    onRollback,
    onDisk,
    hop,
  }: Pick<Commits, "checkOpen" | "wrote" | "nested" | "onRollback" | "onDisk" | "hop">,
): Query {
  const prepare: Prepare = (sql) => {
    checkOpen();
    return prepareAny(sql);
  };
  const change = (sql: string, values: readonly Value[]): number => {
    const prepared = prepare(sql);
    const { changes } = prepared.statement.run(prepared.inOrder(values));
    if (changes > 0 || prepared.writes === "always") wrote();
    return changes;
  };
  /** Returns the rows, or the first row alone. */
  const select = (method: "all" | "get", sql: string, values: readonly Value[]): unknown => {
    const prepared = prepare(sql);
    const found = prepared.statement[method](prepared.inOrder(values)) as unknown[] | object | undefined;
    const isEmpty = found === undefined || (Array.isArray(found) && found.length === 0);
    if (prepared.writes !== "never" && !isEmpty) wrote();
    return found;
  };
  return {
    all: async <T>(sql: string, ...values: Value[]) => select("all", sql, values) as T[],
    one: async <T>(sql: string, ...values: Value[]) => select("get", sql, values) as T | undefined,
    run: async (sql, ...values) => change(sql, values),
    write: async (sql, ...values) => void change(sql, values),
    writeOne: async (otherwise, sql, ...values) => {
      if (change(sql, values) !== 1) throw otherwise();
    },
    defer: async <T>({ use, otherwise }: DeferredRows<T>, sql: string, ...values: Value[]) => {
      const rows = select("all", sql, values) as T[];
      if (otherwise && rows.length !== 1) throw otherwise();
      use(rows);
    },
    touched: new Map(),
    waits: new Set(),
    savepoint: nested,
    onRollback,
    onDisk,
    hop,
    leases,
  };
}

interface Reader {
  readonly db: Sqlite.Database;
  readonly query: Query;
  /** Number of reads under way. */
  reads: number;
}

const withoutTransaction = {
  checkOpen: () => undefined,
  wrote: () => undefined,
  nested: <T>(work: () => Promise<T>) => work(),
  onRollback: () => undefined,
  onDisk: (act: () => void) => act(),
  hop: () => undefined,
};

function openReader(
  file: string,
  { busy, clockStep }: Timing["sqlite"],
  now: () => number,
  leases: LaneLeases,
): Reader {
  const db = new Sqlite(file, { readonly: true, timeout: busy });
  return { db, query: queryOn(cachedStatements(db, now, clockStep), leases, withoutTransaction), reads: 0 };
}

/** Opens (and creates) the file; `:memory:` is allowed for tests. `now` is the clock behind now_ms().
 *  Damage that SQLite reports, now or in a later transaction, is thrown as DamagedStore. */
export function openSqlite(file: string, now: () => number, options: WalOptions = {}): Database {
  if (file !== ":memory:") {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    createPrivateFile(file);
  }
  const timing = options.timing ?? standardTiming.sqlite;
  const db = openWriter(file, timing);
  const leases = new LaneLeases(now);
  const prepare = cachedStatements(db, now, timing.clockStep);
  const commits = new Commits(file, db, (own) => queryOn(prepare, leases, own), options);
  let reading: Reader | null = null;
  let damage: string | null = null;
  const notice = (error: unknown) => {
    if (isDamagedStore(error)) damage ??= error.message;
  };
  return {
    kind: "sqlite",
    tx: (work, txOptions) => {
      const result = commits.run(work, txOptions);
      result.catch(notice);
      return result;
    },
    damage: () => damage,
    async check(longestMs, signal) {
      if (file === ":memory:") return { kind: "sound" };
      const result = await checkFile(file, longestMs, signal);
      if (result.kind === "damaged") notice(damaged(file, result.problem));
      return result;
    },
    async maintain() {
      const isUnfinished = await commits.run(
        async () => {
          commits.wrote();
          return maintain(db, options.analyzedPages);
        },
        { durable: false },
      );
      if (isUnfinished) return true;
      // SQLite reads the planner's statistics when a connection opens.
      const former = reading;
      reading = null;
      if (former?.reads === 0) former.db.close();
      return false;
    },
    // Reads use a separate connection: they see committed rows only, independent of the running
    // transaction. The result may follow from commits that are not on disk yet, and the caller may
    // acknowledge something because of it, so it waits for them.
    read: async (work) => {
      if (file === ":memory:") {
        await commits.idle();
        return work(commits.query);
      }
      const reader = (reading ??= openReader(file, timing, now, leases));
      reader.reads += 1;
      try {
        const result = await work(reader.query);
        await commits.wal?.durable();
        return result;
      } catch (given) {
        const error = isDamage(given) ? damaged(file, (given as Error).message, given) : given;
        notice(error);
        throw error;
      } finally {
        reader.reads -= 1;
        if (reader !== reading && reader.reads === 0) reader.db.close();
      }
    },
    synced: async () => commits.wal?.durable(),
    onWake: () => undefined,
    observe: (observer) => void (commits.observer = observer),
    wake: async () => undefined,
    hold: async () => undefined,
    async close() {
      await commits.idle();
      reading?.db.close();
      await commits.close();
    },
  };
}

// The SQLite file: how its write connection is opened, and its upkeep.

/** Switches the file to WAL. The switch needs exclusive access, and SQLite does not wait for that as it waits for a
 *  lock. The loop retries when two processes open a new file together. The file stays in WAL mode afterwards. */
function becomeWal(db: Sqlite.Database, { busy, busyRetry }: Timing["sqlite"]): void {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (let waited = 0; db.pragma("journal_mode", { simple: true }) !== "wal"; waited += busyRetry) {
    try {
      if (db.pragma("journal_mode = WAL", { simple: true }) === "memory") return;
    } catch (error) {
      if (waited >= busy || (error as { code?: string }).code !== "SQLITE_BUSY") throw error;
      Atomics.wait(pause, 0, 0, busyRetry);
    }
  }
}

/** Pages that one slice of maintenance moves: about 2 ms. */
const slicePages = 100;
/** Free pages that stay in the file, for the next messages. */
const keptPages = 1000;
/** Used pages of a file that gets statistics, about 2 MB. With few rows the planner would choose to read whole tables, also
 *  when they have grown since; without statistics it uses the indexes. */
const analyzedPages = 500;

/** Returns a slice of the free pages to the file system. The planner's statistics follow when none are
 *  left; they sample at most 400 rows of an index. */
function maintain(db: Sqlite.Database, leastPages = analyzedPages): boolean {
  const isIncremental = db.pragma("auto_vacuum", { simple: true }) === 2;
  const free = Number(db.pragma("freelist_count", { simple: true }));
  const excess = free - keptPages;
  if (isIncremental && excess > 0) {
    // `exec` runs the statement to its end; `run` would move a single page.
    db.exec(`PRAGMA incremental_vacuum(${Math.min(excess, slicePages)})`);
    return true;
  }
  if (Number(db.pragma("page_count", { simple: true })) - free < leastPages) return false;
  db.pragma("analysis_limit = 400");
  db.exec("PRAGMA optimize(0x10002)");
  return false;
}

/** Opens the write connection. Throws DamagedStore for a file that is not a database. */
function openWriter(file: string, timing: Timing["sqlite"]): Sqlite.Database {
  let db: Sqlite.Database | null = null;
  try {
    db = new Sqlite(file, { timeout: timing.busy });
    // Lets `incremental_vacuum` return free pages. Has an effect on a new file only.
    db.pragma("auto_vacuum = INCREMENTAL");
    becomeWal(db, timing);
    // Orders the writes so that no power failure damages the file. The commits are synced by commits.ts.
    db.pragma("synchronous = NORMAL");
    db.pragma("foreign_keys = ON");
    db.pragma("secure_delete = ON");
    // Keeps savepoint journals in memory; in files they would be the larger part of all writes.
    db.pragma("temp_store = MEMORY");
  } catch (error) {
    db?.close();
    throw damaged(file, (error as Error).message, error);
  }
  return db;
}
