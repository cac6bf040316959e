// The write-ahead log of an SQLite store: whether it is in place, its length, and the checkpoints that keep it short. A
// worker copies it back (checkpointer.ts), because SQLite's own checkpoints would block the thread.
//
// The descriptor here is of the log only: closing a descriptor of the database file would drop the POSIX locks that this
// process holds on it.

import { closeSync, fstatSync, openSync, statSync } from "node:fs";
import type Sqlite from "better-sqlite3";
import { systemClock } from "../../ops/clock.ts";
import { standardTiming, type Timing } from "../../ops/timing.ts";
import { Checkpointer } from "./checkpointer.ts";

export interface WalOptions {
  readonly timing?: Timing["sqlite"];
  /** Replaces fdatasync; for tests. */
  readonly sync?: (descriptor: number) => Promise<void>;
  /** Pages in the log after which a checkpoint starts; for tests. */
  readonly checkpointPages?: number;
  /** Pages of a file that gets statistics; for tests. */
  readonly analyzedPages?: number;
}

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

/** Open one per connection after the switch to WAL. */
export class Wal {
  /** For fdatasync. */
  readonly descriptor: number;
  /** True when commits wait for `room`. */
  isFull = false;
  readonly #file: string;
  readonly #db: Sqlite.Database;
  readonly #failed: (cause: unknown) => void;
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

  /** `failed` is called when a sync of a checkpoint failed. */
  constructor(file: string, db: Sqlite.Database, options: WalOptions, failed: (cause: unknown) => void) {
    this.#file = file;
    this.#db = db;
    this.#failed = failed;
    this.#pages = options.checkpointPages ?? standardPages;
    this.#checkpointAt = this.#pages;
    this.#waitAt = this.#pages * pauseAt;
    const { checkpointerIdle } = options.timing ?? standardTiming.sqlite;
    this.#checkpointer = new Checkpointer(file, checkpointerIdle, systemClock);
    db.pragma("wal_autocheckpoint = 0");
    db.pragma(`journal_size_limit = ${this.#pages * pauseAt * pageBytes}`);
    db.exec("BEGIN IMMEDIATE; COMMIT"); // SQLite opens the log with the first transaction
    this.descriptor = openSync(`${file}-wal`, "r");
    this.#identities = this.#found();
    // NOOP copies nothing and returns the length of the log.
    this.#length = db.prepare<[], [number, number, number]>("PRAGMA wal_checkpoint(NOOP)").raw();
    this.#measure(fstatSync(this.descriptor).size);
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

  /** Call after each commit that wrote. Notes the length of the log and starts a checkpoint when it is long. While the
   *  file grows, its size is the length. Otherwise the log was started anew and is shorter than its file; SQLite is
   *  asked now and then, because that is a statement. */
  grown(): void {
    const { size } = fstatSync(this.descriptor);
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

  /** Call with no transaction under way, before the connection is closed. `whole` copies the log into the file. */
  async close(whole: boolean): Promise<void> {
    await this.#checkpointer.close();
    if (whole) this.#db.pragma("wal_checkpoint(TRUNCATE)");
  }

  /** Call after the connection was closed. */
  release(): void {
    closeSync(this.descriptor);
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
      if (String((error as { code?: string }).code).startsWith("SQLITE_IOERR")) this.#failed(error);
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
    // Pages that an earlier checkpoint copied may be lost with this sync, and no later one would copy them again.
    if (error?.code.startsWith("SQLITE_IOERR")) this.#failed(new Error(error.message));
    return complete;
  }
}
