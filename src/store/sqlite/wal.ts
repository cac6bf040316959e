// Makes the commits of one SQLite connection durable without blocking the thread. SQLite runs with synchronous=NORMAL: a
// commit writes to the write-ahead log and returns. One asynchronous fdatasync of the log then covers all commits before
// it, and the driver acknowledges them after it. Also keeps the log short by checkpoints in a worker thread.
//
// SQLite itself syncs the header of the log when it starts it anew, the folder when it creates it, and the log and the
// database during a checkpoint. The descriptor here is of the log only: closing a descriptor of the database file would
// drop the POSIX locks that this process holds on it.

import { closeSync, fdatasync, fstatSync, openSync, statSync } from "node:fs";
import { promisify } from "node:util";
import type Sqlite from "better-sqlite3";
import { standardTiming, type Timing } from "../../ops/timing.ts";
import { Checkpointer } from "./checkpointer.ts";

export interface WalOptions {
  readonly timing?: Timing["sqlite"];
  /** Replaces fdatasync; for tests. */
  readonly sync?: (descriptor: number) => Promise<void>;
  /** Pages in the log after which a checkpoint starts; for tests. */
  readonly checkpointPages?: number;
}

/** 4 MB of pages: the log stays small, and a page that changes often is copied once. */
const standardPages = 1000;
/** Commits wait for a checkpoint when the log has grown to this multiple. A writer that never pauses would let it grow
 *  without bound, because only a log that was copied completely is reused. */
const pauseAt = 4;

/** Commits after which the length of the log is measured, when its file did not grow. */
const measureAfter = 50;
/** The file format: a header, and a frame for each page. */
const pageBytes = 4096;
const headerBytes = 32;
const frameBytes = pageBytes + 24;

/** Open one per connection after the switch to WAL. */
export class Wal {
  readonly #path: string;
  readonly #db: Sqlite.Database;
  readonly #descriptor: number;
  readonly #identity: string;
  readonly #sync: (descriptor: number) => Promise<void>;
  readonly #pages: number;
  readonly #checkpointer: Checkpointer;
  readonly #length: Sqlite.Statement<[], [number, number, number]>;
  /** Commits that wrote, counted; how many of them are durable, and how many the running sync covers. */
  #committed = 0;
  #synced = 0;
  #covering = 0;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #failure: Error | null = null;
  /** Pages in the log. Exact after a commit that made the file longer; else as of the last measurement. */
  #logged = 0;
  /** Bytes in the log's file, which stays as long as it was when the log starts anew. */
  #size = 0;
  /** Commits since the length was measured. */
  #unmeasured = 0;
  /** Length of the log at which the next checkpoint starts, and at which commits wait for one. */
  #checkpointAt: number;
  #waitAt: number;

  constructor(file: string, db: Sqlite.Database, options: WalOptions = {}) {
    this.#path = `${file}-wal`;
    this.#db = db;
    this.#sync = options.sync ?? promisify(fdatasync);
    this.#pages = options.checkpointPages ?? standardPages;
    this.#checkpointAt = this.#pages;
    this.#waitAt = this.#pages * pauseAt;
    this.#checkpointer = new Checkpointer(file, (options.timing ?? standardTiming.sqlite).checkpointerIdle);
    db.pragma("wal_autocheckpoint = 0");
    db.pragma(`journal_size_limit = ${this.#pages * pauseAt * pageBytes}`);
    db.exec("BEGIN IMMEDIATE; COMMIT"); // SQLite opens the log with the first transaction
    this.#descriptor = openSync(this.#path, "r");
    const { dev, ino } = fstatSync(this.#descriptor);
    this.#identity = `${dev}:${ino}`;
    // NOOP copies nothing and returns the length of the log.
    this.#length = db.prepare<[], [number, number, number]>("PRAGMA wal_checkpoint(NOOP)").raw();
    this.#measure();
  }

  /** False when the log file was deleted or replaced: SQLite then writes to a file without a name. */
  isInPlace(): boolean {
    const found = statSync(this.#path, { throwIfNoEntry: false });
    return found !== undefined && `${found.dev}:${found.ino}` === this.#identity;
  }

  /** Throws after a failed sync. The kernel may have dropped the pages that it could not write and reports that once;
   *  later syncs succeed without them. So nothing is acknowledged until the process starts anew. */
  check(): void {
    if (this.#failure) throw this.#failure;
  }

  /** The running sync, if one runs. */
  get running(): Promise<void> | null {
    return this.#running;
  }

  /** Call after each commit. `wrote` is false for a commit that certainly changed nothing: it needs no sync. `needed`
   *  starts the sync; it is false when no transaction of the commit asked for durability. A later sync covers
   *  the commit, and `durable` starts one. */
  commit(wrote: boolean, needed: boolean): void {
    if (wrote) {
      this.#committed += 1;
      this.#observe();
    }
    if (needed) this.durable().catch(() => undefined);
    if (this.#logged >= this.#checkpointAt && !this.#checkpointer.isRunning) void this.#checkpoint();
  }

  /** Resolves when all commits so far are on disk; rejects when the disk failed. */
  durable(): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#synced === this.#committed) return Promise.resolve();
    if (!this.#running) return this.#start();
    if (this.#covering === this.#committed) return this.#running;
    this.#next ??= this.#running.then(() => {
      this.#next = null;
      return this.durable();
    });
    return this.#next;
  }

  /** Resolves when the log has room for another commit: at once, unless a writer without pauses has kept the checkpoints
   *  from completing. Call outside of transactions and make no commits until it resolves. */
  async room(): Promise<void> {
    if (this.#logged < this.#waitAt || this.#failure) return;
    await this.#checkpointer.run(); // the one that is running may have begun before the last commits
    const complete = await this.#checkpoint();
    if (!complete && this.#checkpointer.isBroken) this.#checkpointHere();
    // Another process reads an old state, such as a backup. Growing is better than standing still.
    this.#waitAt = complete ? this.#pages * pauseAt : this.#logged * 2;
  }

  /** Call with no transaction under way, before the connection is closed. */
  async close(): Promise<void> {
    await this.durable().catch(() => undefined);
    await this.#checkpointer.close();
    if (!this.#failure) this.#db.pragma("wal_checkpoint(TRUNCATE)");
  }

  /** Call after the connection was closed. */
  release(): void {
    closeSync(this.#descriptor);
  }

  /** Marks the store as unusable; also called when SQLite reports that one of its syncs failed. */
  fail(cause: unknown): Error {
    const what = cause instanceof Error ? cause.message : String(cause);
    this.#failure ??= new Error(
      `the store's disk failed to write (${what}); nothing is acknowledged any more. Remedy: check the disk and its free space, and restart the daemon`,
      { cause },
    );
    return this.#failure;
  }

  /** Blocks the thread; for a machine that cannot start another one. */
  #checkpointHere(): void {
    try {
      this.#db.pragma("wal_checkpoint(PASSIVE)");
    } catch (error) {
      if (String((error as { code?: string }).code).startsWith("SQLITE_IOERR")) this.fail(error);
    }
  }

  #start(): Promise<void> {
    const covers = this.#committed;
    this.#covering = covers;
    const running = this.#sync(this.#descriptor).then(
      () => {
        this.#running = null;
        if (this.#failure) throw this.#failure;
        this.#synced = covers;
      },
      (error: unknown) => {
        this.#running = null;
        throw this.fail(error);
      },
    );
    this.#running = running;
    return running;
  }

  /** Notes the length of the log after a commit. While the file grows, its size is the length. Otherwise the log was
   *  started anew and is shorter than its file; SQLite is asked now and then, because that is a statement. */
  #observe(): void {
    const { size } = fstatSync(this.#descriptor);
    this.#unmeasured += 1;
    if (size > this.#size) this.#logged = Math.floor((size - headerBytes) / frameBytes);
    else if (size < this.#size || this.#unmeasured >= measureAfter) this.#measure();
    this.#size = size;
  }

  #measure(): void {
    this.#size = fstatSync(this.#descriptor).size;
    this.#unmeasured = 0;
    const logged = this.#length.get()?.[1] ?? 0;
    if (logged < this.#logged) {
      this.#checkpointAt = this.#pages;
      this.#waitAt = this.#pages * pauseAt;
    }
    this.#logged = logged;
  }

  async #checkpoint(): Promise<boolean> {
    const { complete, error } = await this.#checkpointer.run();
    this.#checkpointAt = this.#logged + this.#pages;
    // The next commit may start the log anew.
    if (complete) this.#unmeasured = measureAfter;
    // Pages that an earlier checkpoint copied may be lost with this sync, and no later one would copy them again.
    if (error?.code.startsWith("SQLITE_IOERR")) this.fail(new Error(error.message));
    return complete;
  }
}
