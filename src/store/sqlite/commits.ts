// Commits of one SQLite connection. Transactions are queued and committed in groups, without blocking the thread: SQLite runs
// with synchronous=NORMAL, so a commit writes to the write-ahead log and returns. One asynchronous sync of the log (wal.ts) then
// covers all commits before it, and their transactions are acknowledged after it. Transactions continue in the meantime; their
// commits share the next sync.

import type Sqlite from "better-sqlite3";
import { after, systemClock } from "../../ops/clock.ts";
import type { Hop } from "../../ops/hops.ts";
import { standardTiming, type Timing } from "../../ops/timing.ts";
import type { CommitPace, Query, StoreObserver, TxOptions } from "../driver.ts";
import { damaged, isDamage, isFailedSync } from "./damaged.ts";
import { Wal, type WalOptions, type Writer } from "./wal.ts";

interface WaitingTransaction {
  run(q: Query): Promise<unknown>;
  resolve(value: unknown): void;
  reject(error: unknown): void;
  /** False when the result is reported at the commit, before it is on disk. */
  readonly durable: boolean;
  readonly committed: (() => void) | undefined;
  readonly pace: CommitPace | undefined;
}

/** A transaction that has run, with the callback that reports its result. */
interface Done {
  readonly one: WaitingTransaction;
  /** False when the transaction was rolled back alone. */
  readonly isKept: boolean;
  readonly report: () => void;
}

/** Event loop turns for which a commit waits for further transactions. */
const gatherTurns = 8;
const isHurried = ({ pace }: WaitingTransaction) => pace === "hurried" || pace === "shared";
/** Its sync waits for one that others need. */
const isPatient = ({ pace }: WaitingTransaction) => pace !== undefined && pace !== "hurried";
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** The transactions of one connection. */
export class Commits {
  /** The statements of the running transaction. */
  readonly query: Query;
  readonly #db: Sqlite.Database;
  readonly #file: string;
  /** Null for a store in memory. */
  readonly wal: Wal | null;
  readonly #limits: Pick<Timing["sqlite"], "commitBatch" | "commitGather" | "commitJoin" | "reportSlice">;
  readonly #statements: Record<"begin" | "commit" | "rollback" | "save" | "release" | "undo", Sqlite.Statement>;
  readonly #waiting: WaitingTransaction[] = [];
  #flushing: Promise<void> | null = null;
  /** Ends the timer of the transactions that wait for another to join; null without any. */
  #joined: (() => void) | null = null;
  /** Reverts changes in memory; see `Query.onRollback`. */
  readonly #undos: (() => void)[] = [];
  /** Of the running commit; see `Query.onDisk` and `Query.hop`. */
  #afterwards: (() => void)[] = [];
  #hops: Hop[] = [];
  /** What is called for each commit when it is on disk, in their order. After a failed sync no later one is. */
  readonly #reports: { readonly act: () => void; isDue: boolean }[] = [];
  #isReporting = false;
  /** Duration of the last commit. */
  #commitMs = 0;
  /** Set by the daemon. */
  observer: StoreObserver | null = null;
  /** True when the running commit may have changed the file. */
  #hasWritten = false;
  /** True in the retry with savepoints. A savepoint costs a copy of every page written after it, and rollbacks are
   *  rare. */
  #saving = false;
  /** Ends the batch, which runs again. The work that called it never continues. */
  #beginAgain: () => void = () => undefined;
  readonly #writer: Writer = { isCommitting: false, lastBatchSize: 1 };
  /** Ends the wait for a sync. */
  #hurry: () => void = () => undefined;

  /** `query` makes the statements of the transactions. */
  constructor(file: string, db: Sqlite.Database, query: (commits: Commits) => Query, options: WalOptions) {
    this.#file = file;
    this.#db = db;
    this.#limits = options.timing ?? standardTiming.sqlite;
    try {
      this.wal = file === ":memory:" ? null : new Wal(file, db, options, this.#writer);
    } catch (error) {
      db.close();
      throw damaged(file, (error as Error).message, error);
    }
    this.#statements = {
      begin: db.prepare("BEGIN IMMEDIATE"),
      commit: db.prepare("COMMIT"),
      rollback: db.prepare("ROLLBACK"),
      save: db.prepare("SAVEPOINT one"),
      release: db.prepare("RELEASE one"),
      undo: db.prepare("ROLLBACK TO one"),
    };
    this.query = query(this);
  }

  /** See `Database.tx`. */
  run<T>(work: (q: Query) => Promise<T>, options: TxOptions = {}): Promise<T> {
    const { durable = true, committed, pace = durable ? undefined : "hurried" } = options;
    return new Promise<T>((resolve, reject) => {
      const refuse = (error: unknown) =>
        reject(isDamage(error) ? damaged(this.#file, (error as Error).message, error) : error);
      const one = { run: work, resolve, reject: refuse, durable, committed, pace } as WaitingTransaction;
      this.#waiting.push(one);
      if (isHurried(one)) this.#hurry();
      if (pace !== "joining") void this.#startFlush();
      else if (!this.#flushing) this.#joined ??= after(this.#limits.commitJoin, () => void this.#startFlush());
    });
  }

  #startFlush(): Promise<void> {
    this.#joined?.();
    this.#joined = null;
    this.#writer.isCommitting = true;
    this.#flushing ??= this.#flush();
    return this.#flushing;
  }

  /** Resolves when no transaction waits or runs. */
  async idle(): Promise<void> {
    while (this.#flushing || this.#waiting.length > 0) await this.#startFlush();
  }

  /** Closes the connection too. Rejects when the log cannot be copied (a full disk); the next start copies it. After a failed
   *  sync the connection stays open until the process ends: SQLite copies the log when the last one is closed, and the
   *  kernel may have dropped pages of it. */
  async close(): Promise<void> {
    await this.wal?.durable().catch(() => undefined);
    this.#isReporting = false;
    this.#report(Infinity);
    try {
      await this.wal?.close();
    } catch (error) {
      throw damaged(this.#file, (error as Error).message, error);
    } finally {
      if (!this.wal?.failure) this.#db.close();
      this.wal?.release();
    }
  }

  /** Call when a statement of the running transaction has changed the file. */
  readonly wrote = (): void => void (this.#hasWritten = true);

  /** Call before each statement. After a full disk or an I/O error SQLite may have rolled back. Further statements would
   *  then be committed one by one, so they are rejected. */
  readonly checkOpen = (): void => {
    if (this.wal !== null && !this.#db.inTransaction)
      throw new Error("the transaction was rolled back by the database");
  };

  readonly onRollback = (undo: () => void): void => void this.#undos.push(undo);

  readonly onDisk = (act: () => void): void => void this.#afterwards.push(act);

  readonly hop = (hop: Hop): void => void this.#hops.push(hop);

  /** Rolls back the writes of `work` when it throws. Without savepoints the whole batch restarts with them, and the
   *  promise of this call never settles. */
  readonly nested = async <T>(work: () => Promise<T>): Promise<T> => {
    const { save, release, undo } = this.#statements;
    if (this.#saving) save.run();
    const before = this.#undos.length;
    const afterwards = this.#afterwards.length;
    const hops = this.#hops.length;
    try {
      const result = await work();
      if (this.#saving) release.run();
      return result;
    } catch (error) {
      if (!this.#saving) {
        this.#beginAgain();
        return new Promise<never>(() => undefined);
      }
      this.#undoTo(before);
      this.#afterwards.length = afterwards;
      this.#hops.length = hops;
      if (this.#db.inTransaction) {
        undo.run();
        release.run();
      }
      throw error;
    }
  };

  #undoTo(length: number): void {
    while (this.#undos.length > length) this.#undos.pop()?.();
  }

  async #flush(): Promise<void> {
    let rest: readonly WaitingTransaction[] = [];
    while (this.#waiting.length > 0) {
      await (rest.length > 0 ? nextTurn() : this.#gather());
      if (this.wal?.isFull && !this.wal.failure) await this.wal.room();
      const batch = this.#waiting.splice(0);
      rest = await this.#commitTogether(batch);
      this.#waiting.unshift(...rest);
      const done = batch.slice(0, batch.length - rest.length);
      this.#writer.lastBatchSize = done.filter(({ pace }) => pace !== "joining").length;
    }
    this.#flushing = null;
    this.#writer.isCommitting = false;
  }

  /** Waits for further transactions, because each commit costs as much as several statements. While a sync runs nothing
   *  is delayed by it: the sync of the next commit cannot begin earlier. A transaction that does not wait for the
   *  disk ends this wait. Under load a few turns of the event loop follow. */
  async #gather(): Promise<void> {
    const since = systemClock.monotonic();
    while (this.wal?.running && !this.#waiting.some(isHurried)) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#hurry = resolve;
      await Promise.race([promise, this.wal.running.catch(() => undefined)]);
    }
    if (systemClock.monotonic() - since > this.#limits.commitGather) return;
    for (let turn = 0; turn < Math.min(gatherTurns, this.#writer.lastBatchSize * 2); turn += 1) await nextTurn();
  }

  /** Runs and commits the first transactions of the batch, and returns the others. Each result is reported when it is durable.
   *  A failed transaction waits too: its error may follow from rows that are not on disk yet. */
  async #commitTogether(batch: readonly WaitingTransaction[]): Promise<readonly WaitingTransaction[]> {
    const { touched } = this.query;
    try {
      if (this.wal?.failure) throw this.wal.failure;
      const hints = [...touched];
      let done = await this.#commitAll(batch, false);
      if (done === null) {
        for (const [work, channels] of hints) touched.set(work, channels);
        done = (await this.#commitAll(batch, true)) ?? [];
      }
      const later = done.filter(({ one }) => one.durable);
      const shared = later.every(({ one }) => isPatient(one));
      const onDisk = later.length > 0 ? (this.wal?.durable(shared) ?? Promise.resolve()) : null;
      const [afterwards, hops, commitMs] = [this.#afterwards, this.#hops, this.#commitMs];
      this.#afterwards = [];
      this.#hops = [];
      const act = () => {
        const syncMs = this.wal?.syncMs ?? null;
        if (this.wal) this.wal.syncMs = null;
        this.observer?.({ hops, commitMs, syncMs });
        for (const one of afterwards) one();
      };
      // In the order of the commits: one that waits for no sync may follow one whose sync runs.
      const acts = { act, isDue: onDisk === null };
      this.#reports.push(acts);
      if (!onDisk) this.#report();
      for (const { one, isKept, report } of done) {
        if (isKept) one.committed?.();
        if (!one.durable) report();
      }
      void onDisk?.then(
        () => {
          for (const { report } of later) report();
          acts.isDue = true;
          this.#report();
        },
        (error: unknown) => later.forEach(({ one }) => one.reject(error)),
      );
      return batch.slice(done.length);
    } catch (error) {
      if (isFailedSync(error)) this.wal?.fail(error);
      // Rejects the whole batch. Work that caught the first disk error also fails here, because its savepoint no
      // longer exists.
      const reject = () => batch.forEach((one) => one.reject(error));
      void (this.wal?.durable() ?? Promise.resolve()).then(reject, reject);
      return [];
    }
  }

  /** Reports the commits that are due, until `end` (monotonic milliseconds). Many of calls wait for one sync, so other work of
   *  the thread runs after each slice. */
  readonly #report = (end = systemClock.monotonic() + this.#limits.reportSlice): void => {
    if (this.#isReporting) return;
    while (this.#reports[0]?.isDue && systemClock.monotonic() < end) this.#reports.shift()?.act();
    this.#isReporting = this.#reports[0]?.isDue === true;
    if (!this.#isReporting) return;
    setImmediate(() => {
      this.#isReporting = false;
      this.#report();
    });
  };

  /** Runs one commit. Returns the callbacks that report the result to the callers. Returns null, with nothing written,
   *  when a rollback was needed and there was no savepoint. Throws when nothing was committed. */
  async #commitAll(batch: readonly WaitingTransaction[], withSavepoints: boolean): Promise<Done[] | null> {
    this.#saving = withSavepoints;
    this.#undos.length = 0;
    this.#afterwards = [];
    this.#hops = [];
    this.#hasWritten = false;
    let isCommitted = false;
    try {
      this.#statements.begin.run();
      const results: Done[] = [];
      const end = systemClock.monotonic() + this.#limits.commitBatch;
      for (const one of batch) {
        if (results.length > 0 && systemClock.monotonic() > end) break;
        const { promise, resolve, reject } = Promise.withResolvers<Done | null>();
        const giveUp = () => resolve(null);
        this.#beginAgain = giveUp;
        this.#runOne(one, batch.length === 1).then(resolve, reject);
        const result = await promise;
        if (result === null) return null;
        results.push(result);
      }
      this.wal?.checkInPlace();
      const began = systemClock.monotonic();
      this.#statements.commit.run();
      this.#commitMs = systemClock.monotonic() - began;
      isCommitted = true;
      if (this.#hasWritten) this.wal?.wrote();
      return results;
    } finally {
      if (!isCommitted) {
        this.#undoTo(0);
        if (this.#db.inTransaction) this.#statements.rollback.run();
      }
    }
  }

  /** A transaction that is alone needs no savepoint, because the whole commit is rolled back. */
  async #runOne(one: WaitingTransaction, alone: boolean): Promise<Done> {
    try {
      const value = await (alone ? one.run(this.query) : this.nested(() => one.run(this.query)));
      return { one, isKept: true, report: () => one.resolve(value) };
    } catch (error) {
      // A full disk or an I/O error may have rolled back the whole transaction; then nothing was committed.
      if (alone || !this.#db.inTransaction) throw error;
      return { one, isKept: false, report: () => one.reject(error) };
    }
  }
}
