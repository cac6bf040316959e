// The platform's repositories over one database.

import { existsSync, linkSync, renameSync, rmSync, statSync } from "node:fs";
import Database from "better-sqlite3";
import { newToken } from "../../ops/clock.ts";
import { accessRemedy, createPrivateFile } from "../../ops/private-file.ts";
import { prepareAgents, prepareMembers, prepareStates } from "./agents.ts";
import { prepareConversations } from "./conversations.ts";
import { prepareFiles, preparePassages } from "./files.ts";
import { prepareIndexes } from "./indexes.ts";
import { count } from "./lists.ts";
import { prepareMessageFiles, prepareMessages } from "./messages.ts";
import { versions } from "./tables.ts";
import { preparePeople, prepareUsage } from "./users.ts";
import { prepareEscalations, prepareWebhooks } from "./webhooks.ts";

export type PlatformStore = ReturnType<typeof openPlatformStore>;

/** Opens or creates `file`; ":memory:" is not persistent. */
export function openPlatformStore(file: string, durability: Durability) {
  const db = openDatabase(file, durability);
  const commits = new PlatformCommits(db);
  return {
    commits,
    agents: prepareAgents(db),
    people: preparePeople(db),
    members: prepareMembers(db),
    states: prepareStates(db),
    conversations: prepareConversations(db),
    messages: prepareMessages(db),
    passages: preparePassages(db),
    files: prepareFiles(db),
    usage: prepareUsage(db),
    escalations: prepareEscalations(db),
    messageFiles: prepareMessageFiles(db),
    webhooks: prepareWebhooks(db),
    indexes: prepareIndexes(db),
    /** SQLite's data_version: changes when another process has written to the file. */
    outsideVersion: count<[]>(db, "PRAGMA data_version"),
    close(): void {
      commits.flush();
      db.close();
    },
  };
}

// Opens the platform's SQLite file and migrates its tables.

export type Db = Database.Database;

/** `normal` may lose the last commits in a power cut (never in a crash); for demos and benchmarks. */
export type Durability = "full" | "normal";

/** `code` of the error for a file with a newer schema, and for a damaged one (as for the daemon's store). */
export const newerFile = "PLATFORM_FILE_NEWER";
const damagedFile = "STORE_DAMAGED";

/** Opens or creates the file. Throws when its schema is newer than this version. */
export function openDatabase(file: string, durability: Durability): Db {
  let db: Db | null = null;
  try {
    if (isEmpty(file)) throw Object.assign(new Error(emptyText), { code: damagedFile });
    if (file !== ":memory:" && !existsSync(file)) createDatabase(file);
    db = new Database(file);
    db.pragma("journal_mode = WAL");
    db.pragma(`synchronous = ${durability}`);
    db.pragma("busy_timeout = 5000");
    // KiB: the inner pages of the indexes of a large store stay in memory. The default is 2 MiB.
    db.pragma("cache_size = -16384");
    // Erased texts do not stay in free pages.
    db.pragma("secure_delete = ON");
    const newer = newerVersion(db);
    if (newer !== null)
      throw Object.assign(new Error(`opening the platform's file ${file}: ${newer}`), { code: newerFile });
    // A migration that rebuilds a table drops one that other tables reference.
    db.pragma("foreign_keys = OFF");
    bringUp(db);
    db.pragma("foreign_keys = ON");
    return db;
  } catch (error) {
    db?.close();
    const { code = "", message } = error as NodeJS.ErrnoException;
    if (code === newerFile) throw error;
    const isDamaged = damage.test(code) || code === damagedFile;
    const remedy = isDamaged ? damageRemedy : (accessRemedy(code, file) ?? "check the path of the database");
    const opening = new Error(`opening the platform's file ${file}: ${message} (${remedy})`, { cause: error });
    throw isDamaged ? Object.assign(opening, { code: damagedFile }) : opening;
  }
}

/** Gives the file its name when it is complete: a process that dies before leaves none that the next start would refuse.
 *  Another process may create it at the same time; the first one wins. */
function createDatabase(file: string): void {
  const draft = `${file}-${newToken(6)}`;
  try {
    createPrivateFile(draft);
    const db = new Database(draft);
    try {
      bringUp(db);
    } finally {
      db.close();
    }
    linkSync(draft, file);
  } catch (error) {
    // A file system without hard links.
    if ((error as NodeJS.ErrnoException).syscall !== "link") throw error;
    if (!existsSync(file)) renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Why this version cannot use a file of the platform. */
export interface PlatformFileProblem {
  readonly kind: "newer" | "damaged" | "unusable";
  readonly message: string;
  readonly remedy: string;
}

/** Changes nothing. Returns null when this version can use the file. `isSound`: its pages are verified already; otherwise reads
 *  the whole file, and blocks the thread. */
export function platformFileProblem(file: string, isSound = false): PlatformFileProblem | null {
  let db: Db | null = null;
  try {
    if (isEmpty(file)) return { kind: "damaged", message: emptyText, remedy: damageRemedy };
    db = new Database(file, { readonly: true, fileMustExist: true });
    const newer = newerVersion(db);
    if (newer !== null) return { kind: "newer", message: newer, remedy: "run the newer Bridgehead that wrote it" };
    const found = isSound ? "ok" : String(db.pragma("quick_check(1)", { simple: true }));
    return found === "ok" ? null : { kind: "damaged", message: found, remedy: damageRemedy };
  } catch (error) {
    const { code = "", message } = error as NodeJS.ErrnoException;
    if (damage.test(code)) return { kind: "damaged", message, remedy: damageRemedy };
    return { kind: "unusable", message, remedy: accessRemedy(code, file) ?? "run this as the daemon's user" };
  } finally {
    db?.close();
  }
}

/** SQLite would open it as a new database. A platform's file is never empty. */
const isEmpty = (file: string): boolean => statSync(file, { throwIfNoEntry: false })?.size === 0;
const emptyText = "it is empty; remove it if this platform is new";

/** Says that a newer version has written the file; null when none has. */
function newerVersion(db: Db): string | null {
  const found = Number(db.pragma("user_version", { simple: true }));
  return found > versions.length ? `it was written by a newer version (${found})` : null;
}

const damage = /^SQLITE_(?:CORRUPT|NOTADB)/;
const damageRemedy =
  "stop the daemon, keep the file with its -wal, and restore the newest backup with the command restore";

/** Two processes may open a new file at the same time, so the version is read again under the lock. */
function bringUp(db: Db): void {
  const current = () => Number(db.pragma("user_version", { simple: true }));
  if (current() === versions.length) return;
  db.transaction(() => {
    for (const version of versions.slice(current())) db.exec(version);
    db.pragma(`user_version = ${versions.length}`);
  }).immediate();
}

/** Group commit: writes requested while the event loop is busy share one transaction and one fsync. */
export class PlatformCommits {
  readonly #savepoint: <T>(write: () => T) => T;
  readonly #transaction: (batch: readonly PendingWrite[]) => (() => void)[];
  #waiting: PendingWrite[] = [];
  #committed: () => void = () => undefined;

  constructor(db: Db) {
    // Nested in the transaction of a batch, it is a savepoint.
    this.#savepoint = db.transaction((write: () => unknown) => write()) as <T>(write: () => T) => T;
    this.#transaction = db.transaction((batch: readonly PendingWrite[]) => batch.map((each) => each.run()));
  }

  /** Registers a callback that runs after each commit. */
  onCommit(callback: () => void): void {
    this.#committed = callback;
  }

  /** Runs `write` in a savepoint and resolves when it is durable. Rejects with its exception, or with
   *  the commit error; nothing is written then. */
  write<T>(write: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.flush());
      const run = () => {
        try {
          const value = this.#savepoint(write);
          return () => resolve(value);
        } catch (error) {
          return () => reject(error);
        }
      };
      this.#waiting.push({ run, reject });
    });
  }

  /** Commits all pending writes now. */
  flush(): void {
    const batch = this.#waiting;
    this.#waiting = [];
    if (batch.length === 0) return;
    let resolvers: (() => void)[];
    try {
      resolvers = this.#transaction(batch);
    } catch (error) {
      for (const each of batch) each.reject(error);
      return;
    }
    for (const each of resolvers) each();
    this.#committed();
  }
}

interface PendingWrite {
  /** Runs the write. Returns what reports its result after the commit. */
  run(): () => void;
  reject(error: unknown): void;
}
