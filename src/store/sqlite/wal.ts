// The write-ahead log of an SQLite store: whether it is in place, its syncs, its length, and the checkpoints that keep it
// short. A worker copies it back (checkpointer.ts), because SQLite's own checkpoints would block the thread. SQLite itself syncs
// the header of the log when it starts it anew, the folder when it creates it, and the log and the database during a
// checkpoint.
//
// The descriptor here is of the log only: closing a descriptor of the database file would drop the POSIX locks that this
// process holds on it.

import { closeSync, fdatasync, fstatSync, openSync, statSync } from "node:fs";
import { promisify } from "node:util";
import type Sqlite from "better-sqlite3";
import { after, systemClock } from "../../ops/clock.ts";
import { standardTiming, type Timing } from "../../ops/timing.ts";
import { Checkpointer } from "./checkpointer.ts";
import { isFailedCheckpoint } from "./damaged.ts";

export interface WalOptions {
  readonly timing?: Timing["sqlite"];
  /** Replaces fdatasync; for tests. */
  readonly sync?: (descriptor: number) => Promise<void>;
  /** Pages in the log after which a checkpoint starts; for tests. */
  readonly checkpointPages?: number;
  /** Pages of a file that gets statistics; for tests. */
  readonly analyzedPages?: number;
}

/** What the writer of the log does. It decides how long a sync waits for the next commit. */
export interface Writer {
  /** True while a commit is under way, and while transactions wait. */
  isCommitting: boolean;
  /** Number of transactions in the last commit. */
  lastBatchSize: number;
}

/** Event loop turns after which work that a commit started has recorded its attempt. The HTTP client needs one. */
const idleTurns = 2;
/** Event loop turns for which a sync waits at most for a commit that is under way. */
const followTurns = 16;
/** 4 MB of pages: the log stays small, and a page that changes often is copied once. Twice as many without a worker, so
 *  that a daemon with little work starts it half as often. */
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

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Open one per connection after the switch to WAL. */
export class Wal {
  /** True when commits wait for `room`. */
  isFull = false;
  /** Set when the disk has failed. The kernel may have dropped the pages that it could not write and reports that once;
   *  later syncs succeed without them. So nothing is acknowledged until the process starts anew. */
  failure: Error | null = null;
  /** The sync that is under way; null without one, and while it still waits for the commit that follows. Not null as long as
   *  `#syncing` may not cover the last commit. */
  running: Promise<void> | null = null;
  /** Milliseconds of the last sync. The observer resets it to null. */
  syncMs: number | null = null;
  readonly #file: string;
  readonly #descriptor: number;
  readonly #db: Sqlite.Database;
  readonly #writer: Writer;
  readonly #sync: (descriptor: number) => Promise<void>;
  readonly #syncShare: number;
  /** Commits that wrote, counted; how many of them are on disk, and how many the running sync covers. The first stands for those of
   *  earlier processes, which may not be on disk yet. */
  #committed = 1;
  #synced = 0;
  #covering = 0;
  #syncing: Promise<void> | null = null;
  #nextSync: Promise<void> | null = null;
  /** False while the sync that starts next is needed by patient transactions alone. */
  #isSyncUrgent = false;
  /** Ends the wait of a sync for others that need it. */
  #startShared: () => void = () => undefined;
  readonly #identities: readonly (string | null)[];
  readonly #pages: number;
  readonly #checkpointer: Checkpointer;
  readonly #length: Sqlite.Statement<[], [number, number, number]>;
  /** Pages in the log. Exact after a commit that made the file longer; else as of the last measurement. */
  #logged = 0;
  /** Bytes in the log's file, which stays as long as it was when the log starts anew. */
  #size = 0;
  /** Commits since the length was measured. */
  #unmeasured = 0;
  /** Length of the log at which the next checkpoint starts, and at which commits wait for one. */
  #checkpointAt: number;
  #waitAt: number;

  constructor(file: string, db: Sqlite.Database, options: WalOptions, writer: Writer) {
    const { checkpointerIdle, syncShare } = options.timing ?? standardTiming.sqlite;
    this.#file = file;
    this.#db = db;
    this.#writer = writer;
    this.#sync = options.sync ?? promisify(fdatasync);
    this.#syncShare = syncShare;
    this.#pages = options.checkpointPages ?? standardPages;
    this.#checkpointAt = this.#pages;
    this.#waitAt = this.#pages * pauseAt;
    this.#checkpointer = new Checkpointer(file, checkpointerIdle, systemClock);
    db.pragma("wal_autocheckpoint = 0");
    db.pragma(`journal_size_limit = ${this.#pages * pauseAt * pageBytes}`);
    db.exec("BEGIN IMMEDIATE; COMMIT"); // SQLite opens the log with the first transaction
    this.#descriptor = openSync(`${file}-wal`, "r");
    this.#identities = this.#found();
    // NOOP copies nothing and returns the length of the log.
    this.#length = db.prepare<[], [number, number, number]>("PRAGMA wal_checkpoint(NOOP)").raw();
    this.#measure(fstatSync(this.#descriptor).size);
  }

  /** Resolves when all commits so far are on disk; rejects when the disk failed. `shared`: see `CommitPace`. */
  durable(shared = false): Promise<void> {
    if (this.failure) return Promise.reject(this.failure);
    if (this.#synced === this.#committed) return Promise.resolve();
    const isCovered = this.running !== null && this.#covering === this.#committed;
    if (!shared && !isCovered) {
      this.#isSyncUrgent = true;
      this.#startShared();
    }
    if (this.#syncing === null) return this.#startSync();
    if (this.running === null || isCovered) return this.#syncing;
    this.#nextSync ??= this.#syncing.then(() => {
      this.#nextSync = null;
      return this.durable(true);
    });
    return this.#nextSync;
  }

  /** Marks the store as unusable. */
  fail(cause: unknown): Error {
    const what = cause instanceof Error ? cause.message : String(cause);
    this.failure ??= new Error(
      `the store's disk failed to write (${what}); nothing is acknowledged any more. Remedy: check the disk and its free space, and restart the daemon`,
      { cause },
    );
    return this.failure;
  }

  /** Throws when the store's file or its log is no longer the open one. SQLite continues to write to a deleted file, so
   *  a commit would succeed and its data would be lost with the process. */
  checkInPlace(): void {
    const found = this.#found();
    if (found.every((identity, at) => identity !== null && identity === this.#identities[at])) return;
    throw new Error(
      `the store ${this.#file} was deleted or replaced while it is in use; nothing is accepted any more. Remedy: stop the daemon, put the store or a backup in place, and start it`,
    );
  }

  /** Call after each commit that wrote. Counts it, notes the length of the log and starts a checkpoint when it is long. While the
   *  file grows, its size is the length. Otherwise the log was started anew and is shorter than its file; SQLite is
   *  asked now and then, because that is a statement. */
  wrote(): void {
    this.#committed += 1;
    const { size } = fstatSync(this.#descriptor);
    this.#unmeasured += 1;
    if (size < this.#size || (size === this.#size && this.#unmeasured >= measureAfter)) this.#measure(size);
    else if (size > this.#size) this.#logged = Math.floor((size - headerBytes) / frameBytes);
    this.#size = size;
    this.isFull = this.#logged >= this.#waitAt;
    const { running, worker } = this.#checkpointer;
    if (this.#logged < this.#checkpointAt || running !== null) return;
    const startAt = this.#checkpointAt + (worker === null ? this.#pages : 0);
    if (this.#logged >= startAt) void this.#checkpoint();
  }

  /** Resolves when the log has room for another commit: at once, unless a writer without pauses has kept the checkpoints
   *  from completing. Call outside of transactions and make no commits until it resolves. */
  async room(): Promise<void> {
    await this.#checkpointer.run(); // the one that is running may have begun before the last commits
    const complete = await this.#checkpoint();
    if (!complete && this.#checkpointer.isBroken) this.#checkpointHere();
    // Another process reads an old state, such as a backup. Growing is better than standing still.
    this.#waitAt = complete ? this.#pages * pauseAt : this.#logged * 2;
    this.isFull = false;
  }

  /** Call with no transaction under way, before the connection is closed. Copies the log into the file, unless a sync
   *  has failed. */
  async close(): Promise<void> {
    await this.#checkpointer.close();
    if (this.failure === null) this.#db.pragma("wal_checkpoint(TRUNCATE)");
  }

  /** Call after the connection was closed. */
  release(): void {
    closeSync(this.#descriptor);
  }

  #startSync(): Promise<void> {
    this.#syncing = this.#syncSoon().finally(() => {
      this.#syncing = null;
      this.running = null;
    });
    return this.#syncing;
  }

  async #syncSoon(): Promise<void> {
    // Without load, the work that a commit started records its attempt at once, and that waits for the disk as well:
    // one sync covers both commits. Under load many commits share a sync anyway.
    const turns = this.#writer.lastBatchSize > 1 ? 0 : followTurns;
    for (let turn = 0; turn < turns && (turn < idleTurns || this.#writer.isCommitting); turn += 1) await nextTurn();
    if (!this.#isSyncUrgent) await this.#untilUrgent();
    this.#isSyncUrgent = false;
    const covers = this.#committed;
    this.#covering = covers;
    const began = systemClock.monotonic();
    try {
      this.running = this.#sync(this.#descriptor);
      await this.running;
    } catch (error) {
      throw this.fail(error);
    }
    this.syncMs = systemClock.monotonic() - began;
    if (this.failure) throw this.failure;
    this.#synced = covers;
  }

  /** Waits until a sync is needed by others than patient transactions, for a limited time. */
  #untilUrgent(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#startShared = resolve;
    return promise.finally(after(this.#syncShare, resolve));
  }

  /** Device and inode of the file and of its log; null for one that does not exist. */
  #found(): (string | null)[] {
    return [this.#file, `${this.#file}-wal`].map((path) => {
      const found = statSync(path, { throwIfNoEntry: false });
      return found === undefined ? null : `${found.dev}:${found.ino}`;
    });
  }

  /** Blocks the thread; for a machine that cannot start another one. */
  #checkpointHere(): void {
    try {
      this.#db.pragma("wal_checkpoint(PASSIVE)");
    } catch (error) {
      if (isFailedCheckpoint(error)) this.fail(error);
    }
  }

  #measure(size: number): void {
    this.#size = size;
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
    if (isFailedCheckpoint(error)) this.fail(new Error(error?.message));
    return complete;
  }
}
