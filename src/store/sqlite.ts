// SQLite driver: one write connection, transactions queued and committed in groups. A commit does not wait
// for the disk. An asynchronous sync of the write-ahead log follows, and the promises of the transactions
// resolve after it (wal.ts). Transactions continue meanwhile; their commits share the next sync.

import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import Sqlite from "better-sqlite3";
import { createPrivateFile } from "../ops/private-file.ts";
import { standardTiming } from "../ops/timing.ts";
import { damaged, isDamage, isFailedSync } from "./damaged.ts";
import { type Database, dialect, type Query, type TxOptions, type Value } from "./driver.ts";
import { LaneLeases } from "./lane-leases.ts";
import { Wal, type WalOptions } from "./wal.ts";

interface Prepared {
  readonly statement: Sqlite.Statement;
  /** Returns the values in the order of their placeholders, because the driver supports anonymous ones
   *  only. */
  inOrder(values: readonly Value[]): Value[];
}
type Prepare = (sql: string) => Prepared;

/** Prepares and caches statements. now_ms() is bound as a value, once per statement; a function would be
 *  called for every row that is read. The plus changes no value. A bare placeholder compared with an
 *  indexed column may decide which partial index applies. SQLite would then prepare the statement again
 *  for each new value, which costs more than running it. */
function cachedStatements(db: Sqlite.Database, now: () => number): Prepare {
  const statements = new Map<string, Prepared>();
  return (sql) => {
    let prepared = statements.get(sql);
    if (!prepared) {
      const order: ((values: readonly Value[]) => Value)[] = [];
      const text = dialect(sql, "sqlite").replace(/\$(\d+)|now_ms\(\)/g, (_, number?: string) => {
        const index = Number(number) - 1;
        order.push(number === undefined ? () => Math.floor(now()) : (values) => values[index] ?? null);
        return "+?";
      });
      prepared = { statement: db.prepare(text), inOrder: (values) => order.map((take) => take(values)) };
      statements.set(sql, prepared);
    }
    return prepared;
  };
}

function queryOn(
  prepareAny: Prepare,
  savepoint: Query["savepoint"],
  onRollback: Query["onRollback"],
  leases: LaneLeases,
  check: () => void = () => undefined,
): Query {
  const prepare: Prepare = (sql) => {
    check();
    return prepareAny(sql);
  };
  return {
    async all<T>(sql: string, ...values: Value[]) {
      const prepared = prepare(sql);
      return prepared.statement.all(prepared.inOrder(values)) as T[];
    },
    async one<T>(sql: string, ...values: Value[]) {
      const prepared = prepare(sql);
      return prepared.statement.get(prepared.inOrder(values)) as T | undefined;
    },
    async run(sql, ...values) {
      const prepared = prepare(sql);
      return prepared.statement.run(prepared.inOrder(values)).changes;
    },
    touched: new Map(),
    waits: new Set(),
    savepoint,
    onRollback,
    leases,
  };
}

interface Reader {
  readonly db: Sqlite.Database;
  readonly query: Query;
}

function openReader(file: string, busyMs: number, now: () => number, leases: LaneLeases): Reader {
  const db = new Sqlite(file, { readonly: true, timeout: busyMs });
  return {
    db,
    query: queryOn(
      cachedStatements(db, now),
      (work) => work(),
      () => undefined,
      leases,
    ),
  };
}

interface Waiting {
  run(q: Query): Promise<unknown>;
  resolve(value: unknown): void;
  reject(error: unknown): void;
  /** False when the result is reported at the commit, before it is on disk. */
  readonly durable: boolean;
}

/** A transaction that has run, with the callback that reports its result. */
interface Done {
  readonly one: Waiting;
  readonly report: () => void;
}

/** Switches the file to WAL. The switch needs exclusive access, and SQLite does not wait for that as it
 *  waits for a lock. The loop retries when two processes open a new file together. The file stays in WAL
 *  mode afterwards. */
function becomeWal(db: Sqlite.Database): void {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (let attempt = 1; db.pragma("journal_mode", { simple: true }) !== "wal"; attempt++) {
    try {
      if (db.pragma("journal_mode = WAL", { simple: true }) === "memory") return;
    } catch (error) {
      if (attempt >= 250 || (error as { code?: string }).code !== "SQLITE_BUSY") throw error;
      Atomics.wait(pause, 0, 0, 20);
    }
  }
}

/** Pages that one slice of maintenance moves: about 2 ms. */
const slicePages = 100;
/** Free pages that stay in the file, for the next messages. */
const keptPages = 1000;

/** Returns a slice of the free pages to the file system. The planner's statistics follow when none are
 *  left; they sample at most 400 rows of an index. */
function maintain(db: Sqlite.Database): boolean {
  const isIncremental = db.pragma("auto_vacuum", { simple: true }) === 2;
  const excess = Number(db.pragma("freelist_count", { simple: true })) - keptPages;
  if (isIncremental && excess > 0) {
    // `exec` runs the statement to its end; `run` would move a single page.
    db.exec(`PRAGMA incremental_vacuum(${Math.min(excess, slicePages)})`);
    return true;
  }
  db.pragma("analysis_limit = 400");
  db.exec("PRAGMA optimize(0x10002)");
  return false;
}

const batchLimit = 256;
/** Event loop turns for which a commit waits for further transactions. */
const gatherLimit = 8;

/** Opens the write connection. Throws DamagedStore for a file that is not a database. */
function openWriter(file: string, busyMs: number): Sqlite.Database {
  let db: Sqlite.Database | null = null;
  try {
    db = new Sqlite(file, { timeout: busyMs });
    // Lets `incrementalVacuum` return free pages. Has an effect on a new file only.
    db.pragma("auto_vacuum = INCREMENTAL");
    becomeWal(db);
    // Orders the writes so that no power failure damages the file. The commits are synced by wal.ts.
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

/** Returns device and inode; null when the file does not exist. */
function identityOf(file: string): string | null {
  const found = statSync(file, { throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev}:${found.ino}`;
}

/** Returns a check that throws when `file` is no longer the open file. SQLite continues to write to a
 *  deleted file, so a commit would succeed and its data would be lost with the process. */
function inPlaceCheck(file: string, wal: Wal | null): () => void {
  if (wal === null) return () => undefined;
  const opened = identityOf(file);
  return () => {
    if (identityOf(file) === opened && wal.isInPlace()) return;
    throw new Error(
      `the store ${file} was deleted or replaced while it is in use; nothing is accepted any more. Remedy: stop the daemon, put the store or a backup in place, and start it`,
    );
  };
}

/** Null for a store in memory. */
function openWal(file: string, db: Sqlite.Database, options: WalOptions): Wal | null {
  if (file === ":memory:") return null;
  try {
    return new Wal(file, db, options);
  } catch (error) {
    db.close();
    throw damaged(file, (error as Error).message, error);
  }
}

/** Opens (and creates) the file; `:memory:` is allowed for tests. `now` is the clock behind now_ms().
 *  Damage that SQLite reports, now or in a later transaction, is thrown as DamagedStore. */
export function openSqlite(file: string, now: () => number, options: WalOptions = {}): Database {
  if (file !== ":memory:") {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    createPrivateFile(file);
  }
  const { busy } = options.timing ?? standardTiming.sqlite;
  const db = openWriter(file, busy);
  const wal = openWal(file, db, options);
  const checkInPlace = inPlaceCheck(file, wal);
  const described = (error: unknown): unknown =>
    isDamage(error) ? damaged(file, (error as Error).message, error) : error;

  const prepare = cachedStatements(db, now);
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const rollback = db.prepare("ROLLBACK");
  const save = db.prepare("SAVEPOINT one");
  const release = db.prepare("RELEASE one");
  const undo = db.prepare("ROLLBACK TO one");

  const leases = new LaneLeases(now);
  const undos: (() => void)[] = [];
  const undoTo = (length: number) => {
    while (undos.length > length) undos.pop()?.();
  };
  const q = queryOn(
    prepare,
    (work) => nested(work),
    (undo) => void undos.push(undo),
    leases,
    // After a full disk or an I/O error SQLite may have rolled back. Further statements would then be
    // committed one by one, so they are rejected.
    () => {
      if (!db.inTransaction && file !== ":memory:")
        throw new Error("the transaction was rolled back by the database");
    },
  );
  /** True in the retry with savepoints. A savepoint costs a copy of every page written after it, and
   *  rollbacks are rare. */
  let saving = false;
  let beginAgain: () => Promise<never> = () => Promise.reject(new Error("no transaction is under way"));
  /** Rolls back the writes of `work` when it throws. Without savepoints the whole batch restarts with
   *  them, and the promise of this call never settles. */
  async function nested<T>(work: () => Promise<T>): Promise<T> {
    if (saving) save.run();
    const before = undos.length;
    try {
      const result = await work();
      if (saving) release.run();
      return result;
    } catch (error) {
      if (!saving) return beginAgain();
      undoTo(before);
      if (db.inTransaction) {
        undo.run();
        release.run();
      }
      throw error;
    }
  }
  const waiting: Waiting[] = [];
  let flushing: Promise<void> | null = null;
  let reading: Reader | null = null;

  async function commitTogether(batch: readonly Waiting[]): Promise<void> {
    try {
      wal?.check();
      const hints = [...q.touched];
      let done = await commitAll(batch, false);
      if (done === null) {
        for (const [work, channels] of hints) q.touched.set(work, channels);
        done = await commitAll(batch, true);
      }
      acknowledge(done ?? []);
    } catch (error) {
      if (isFailedSync(error)) wal?.fail(error);
      // Rejects the whole batch. Work that caught the first disk error also fails here, because its
      // savepoint no longer exists.
      for (const one of batch) one.reject(error);
    }
  }

  /** Reports the results of one commit, each when it is durable. A failed transaction waits too: its error
   *  may follow from rows that are not on disk yet. */
  function acknowledge(done: readonly Done[]): void {
    const later = done.filter(({ one }) => one.durable);
    wal?.commit(later.length > 0);
    for (const { one, report } of done) if (!one.durable) report();
    void whenDurable().then(
      () => later.forEach(({ report }) => report()),
      (error: unknown) => later.forEach(({ one }) => one.reject(error)),
    );
  }

  /** Runs one commit. Returns the callbacks that report the result to the callers. Returns null, with
   *  nothing written, when a rollback was needed and there was no savepoint. Throws when nothing was
   *  committed. */
  async function commitAll(batch: readonly Waiting[], withSavepoints: boolean): Promise<Done[] | null> {
    saving = withSavepoints;
    undos.length = 0;
    const again = Promise.withResolvers<null>();
    beginAgain = () => {
      again.resolve(null);
      return new Promise<never>(() => undefined);
    };
    try {
      begin.run();
      const results: Done[] = [];
      for (const one of batch) {
        const report = await Promise.race([again.promise, runOne(one, batch.length === 1)]);
        if (report === null) return null;
        results.push({ one, report });
      }
      checkInPlace();
      commit.run();
      undos.length = 0;
      return results;
    } finally {
      undoTo(0);
      if (db.inTransaction) rollback.run();
    }
  }

  /** Returns the callback that reports the result. A transaction that is alone needs no savepoint,
   *  because the whole commit is rolled back. */
  async function runOne(one: Waiting, alone: boolean): Promise<() => void> {
    if (alone) {
      const value = await one.run(q);
      return () => one.resolve(value);
    }
    try {
      const value = await nested(() => one.run(q));
      return () => one.resolve(value);
    } catch (error) {
      // A full disk or an I/O error may have rolled back the whole transaction; then nothing was committed.
      if (!db.inTransaction) throw error;
      return () => one.reject(error);
    }
  }

  const whenDurable = async (): Promise<void> => wal?.durable();
  const idle = async (): Promise<void> => {
    for (let running = flushing; running; running = flushing) await running;
  };
  /** Number of transactions in the last commit. */
  let crowd = 1;
  const flush = async (): Promise<void> => {
    while (waiting.length > 0) {
      // Under load the commit waits longer for further transactions. It waits in turns of the event loop,
      // which cost a single transaction almost nothing.
      for (let turn = 0; turn < Math.min(gatherLimit, crowd * 2); turn += 1)
        await new Promise<void>((resolve) => setImmediate(resolve));
      await wal?.room();
      crowd = waiting.length;
      await commitTogether(waiting.splice(0, batchLimit));
    }
    flushing = null;
  };

  const tx = <T>(work: (q: Query) => Promise<T>, { durable = true }: TxOptions = {}) =>
    new Promise<T>((resolve, reject) => {
      waiting.push({ run: work, resolve, reject: (error) => reject(described(error)), durable });
      flushing ??= flush();
    });

  return {
    kind: "sqlite",
    tx,
    maintain: () => tx(async () => maintain(db), { durable: false }),
    // Reads use a separate connection: they see committed rows only, independent of the running
    // transaction. The result may follow from commits that are not on disk yet, and the caller may
    // acknowledge something because of it, so it waits for them.
    read: async (work) => {
      if (file === ":memory:") {
        await idle();
        return work(q);
      }
      reading ??= openReader(file, busy, now, leases);
      const result = await work(reading.query).catch((error: unknown) => {
        throw described(error);
      });
      await whenDurable();
      return result;
    },
    onWake: () => undefined,
    wake: async () => undefined,
    async close() {
      await idle();
      reading?.db.close();
      await wal?.close();
      db.close();
      wal?.release();
    },
  };
}
