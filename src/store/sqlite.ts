// SQLite driver: one write connection, transactions queued and committed in groups. A commit does not wait
// for the disk. An asynchronous sync of the write-ahead log follows, and the promises of the transactions
// resolve after it (wal.ts). Transactions continue meanwhile; their commits share the next sync.

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import Sqlite from "better-sqlite3";
import { systemClock } from "../ops/clock.ts";
import { createPrivateFile } from "../ops/private-file.ts";
import { standardTiming } from "../ops/timing.ts";
import { type Database, dialect, type Query, type TxOptions, type Value } from "./driver.ts";
import { LaneLeases } from "./lanes.ts";
import { damaged, isDamage, isFailedSync } from "./sqlite/damaged.ts";
import { inPlaceCheck, maintain, openWal, openWriter } from "./sqlite/file.ts";
import type { WalOptions } from "./sqlite/wal.ts";

interface Prepared {
  readonly statement: Sqlite.Statement;
  /** What tells that an execution has written: the number of rows that it changed or returned (`rows`), or the
   *  execution itself (`always`: a change of the schema). */
  readonly writes: "never" | "rows" | "always";
  /** Returns the values in the order of their placeholders, because the driver supports anonymous ones
   *  only. */
  inOrder(values: readonly Value[]): Value[];
}
type Prepare = (sql: string) => Prepared;

/** A statement that changes nothing unless it changes a row. */
const changesRows = /^\s*(?:INSERT|UPDATE|DELETE|WITH)\b/;

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
      const statement = db.prepare(text);
      const writes = statement.readonly ? "never" : changesRows.test(text) ? "rows" : "always";
      prepared = { statement, writes, inOrder: (values) => order.map((take) => take(values)) };
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
  wrote: () => void = () => undefined,
): Query {
  const prepare: Prepare = (sql) => {
    check();
    return prepareAny(sql);
  };
  const change = (sql: string, values: readonly Value[]): number => {
    const prepared = prepare(sql);
    const { changes } = prepared.statement.run(prepared.inOrder(values));
    if (changes > 0 || prepared.writes === "always") wrote();
    return changes;
  };
  return {
    async all<T>(sql: string, ...values: Value[]) {
      const prepared = prepare(sql);
      const rows = prepared.statement.all(prepared.inOrder(values)) as T[];
      if (prepared.writes !== "never" && rows.length > 0) wrote();
      return rows;
    },
    async one<T>(sql: string, ...values: Value[]) {
      const prepared = prepare(sql);
      const row = prepared.statement.get(prepared.inOrder(values)) as T | undefined;
      if (prepared.writes !== "never" && row !== undefined) wrote();
      return row;
    },
    run: async (sql, ...values) => change(sql, values),
    write: async (sql, ...values) => void change(sql, values),
    async writeOne(otherwise, sql, ...values) {
      if (change(sql, values) !== 1) throw otherwise();
    },
    touched: new Map(),
    waits: new Set(),
    savepoint,
    onRollback,
    leases,
  };
}

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

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
  readonly committed: (() => void) | undefined;
  /** True when it does not wait for a running sync. */
  readonly hurried: boolean;
}

/** A transaction that has run, with the callback that reports its result. */
interface Done {
  readonly one: Waiting;
  /** False when the transaction was rolled back alone. */
  readonly isKept: boolean;
  readonly report: () => void;
}

/** Event loop turns for which a commit waits for further transactions. */
const gatherTurns = 8;

/** Opens (and creates) the file; `:memory:` is allowed for tests. `now` is the clock behind now_ms().
 *  Damage that SQLite reports, now or in a later transaction, is thrown as DamagedStore. */
export function openSqlite(file: string, now: () => number, options: WalOptions = {}): Database {
  if (file !== ":memory:") {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    createPrivateFile(file);
  }
  const { busy, commitBatch, commitGather } = options.timing ?? standardTiming.sqlite;
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
  /** True when the running commit may have changed the file. */
  let hasWritten = false;
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
    () => void (hasWritten = true),
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

  /** Runs and commits the first transactions of the batch, and returns the others. */
  async function commitTogether(batch: readonly Waiting[]): Promise<readonly Waiting[]> {
    try {
      wal?.check();
      const hints = [...q.touched];
      let done = await commitAll(batch, false);
      if (done === null) {
        for (const [work, channels] of hints) q.touched.set(work, channels);
        done = await commitAll(batch, true);
      }
      acknowledge(done ?? []);
      return batch.slice(done?.length);
    } catch (error) {
      if (isFailedSync(error)) wal?.fail(error);
      // Rejects the whole batch. Work that caught the first disk error also fails here, because its
      // savepoint no longer exists.
      for (const one of batch) one.reject(error);
      return [];
    }
  }

  /** Reports the results of one commit, each when it is durable. A failed transaction waits too: its error
   *  may follow from rows that are not on disk yet. */
  function acknowledge(done: readonly Done[]): void {
    const later = done.filter(({ one }) => one.durable);
    wal?.commit(hasWritten, later.length > 0);
    for (const { one, isKept, report } of done) {
      if (isKept) one.committed?.();
      if (!one.durable) report();
    }
    if (later.length === 0) return;
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
    hasWritten = false;
    const again = Promise.withResolvers<null>();
    beginAgain = () => {
      again.resolve(null);
      return new Promise<never>(() => undefined);
    };
    try {
      begin.run();
      const results: Done[] = [];
      const end = systemClock.monotonic() + commitBatch;
      for (const one of batch) {
        if (results.length > 0 && systemClock.monotonic() > end) break;
        const result = await Promise.race([again.promise, runOne(one, batch.length === 1)]);
        if (result === null) return null;
        results.push(result);
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

  /** A transaction that is alone needs no savepoint, because the whole commit is rolled back. */
  async function runOne(one: Waiting, alone: boolean): Promise<Done> {
    try {
      const value = await (alone ? one.run(q) : nested(() => one.run(q)));
      return { one, isKept: true, report: () => one.resolve(value) };
    } catch (error) {
      // A full disk or an I/O error may have rolled back the whole transaction; then nothing was committed.
      if (alone || !db.inTransaction) throw error;
      return { one, isKept: false, report: () => one.reject(error) };
    }
  }

  const whenDurable = async (): Promise<void> => wal?.durable();
  const idle = async (): Promise<void> => {
    for (let running = flushing; running; running = flushing) await running;
  };
  /** Number of transactions in the last commit. */
  let crowd = 1;
  /** Ends the wait for a sync. */
  let hurry: () => void = () => undefined;
  /** Waits for further transactions, because each commit costs as much as several statements. While a sync
   *  runs nothing is delayed by it: the sync of the next commit cannot begin earlier. A transaction that
   *  does not wait for the disk ends this wait. Under load a few turns of the event loop follow. */
  async function gather(): Promise<void> {
    const since = systemClock.monotonic();
    for (let sync = wal?.running; sync && !waiting.some(({ hurried }) => hurried); sync = wal?.running) {
      const { promise, resolve } = Promise.withResolvers<void>();
      hurry = resolve;
      await Promise.race([promise, sync.catch(() => undefined)]);
    }
    if (systemClock.monotonic() - since > commitGather) return;
    for (let turn = 0; turn < Math.min(gatherTurns, crowd * 2); turn += 1) await nextTurn();
  }
  async function flush(): Promise<void> {
    let rest: readonly Waiting[] = [];
    while (waiting.length > 0) {
      await (rest.length > 0 ? nextTurn() : gather());
      await wal?.room();
      const batch = waiting.splice(0);
      rest = await commitTogether(batch);
      waiting.unshift(...rest);
      crowd = batch.length - rest.length;
    }
    flushing = null;
  }

  const tx = <T>(
    work: (q: Query) => Promise<T>,
    { durable = true, committed, hurried = !durable }: TxOptions = {},
  ) =>
    new Promise<T>((resolve, reject) => {
      const refuse = (error: unknown) => reject(described(error));
      waiting.push({ run: work, resolve, reject: refuse, durable, committed, hurried });
      if (hurried) hurry();
      flushing ??= flush();
    });

  return {
    kind: "sqlite",
    tx,
    maintain: () =>
      tx(
        async () => {
          hasWritten = true;
          return maintain(db);
        },
        { durable: false },
      ),
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
