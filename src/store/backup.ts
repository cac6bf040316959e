// Backups of an SQLite store: online copy, verification and restore. A copy is complete or does not exist:
// it is written under a temporary name, verified, synced and renamed. Every copy is marked as a backup. A
// daemon that starts on it holds the messages that may have been answered after the copy was made. The database of the
// embedded platform is copied into a second file next to the backup, `<backup>-platform`.

import { createHash } from "node:crypto";
import {
  chownSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import Sqlite from "better-sqlite3";
import { failpoints } from "../ops/failpoints.ts";
import { type CarriedOver, carryOver } from "./person/carry-over.ts";
import { migrationCopy, migrationPrefix, partialCopy, partialRestore, restoreCopy } from "./sqlite/copies.ts";
import { damaged } from "./sqlite/damaged.ts";

export interface StoreSummary {
  readonly schema: number;
  /** Bytes. */
  readonly size: number;
  /** True for a file created by `copyStore`. */
  readonly isBackup: boolean;
  /** Epoch milliseconds of the newest accepted event; null if none exists. */
  readonly newest: number | null;
  /** Rows of each table that holds data of customers. */
  readonly counts: Readonly<Record<string, number>>;
  /** The copy of the embedded platform's database next to the backup; null without one. */
  readonly platform: { readonly file: string; readonly size: number } | null;
  /** Path of that copy when the backup was made with one that is gone; otherwise null. */
  readonly missing: string | null;
  /** Problems found, at most ten sentences. Empty when the files are sound. */
  readonly problems: readonly string[];
}

/** The file next to a backup with the copy of the embedded platform's database. */
const platformCopy = (backup: string): string => `${backup}-platform`;

/** Tables without data of customers: state of the daemon. The rows of all others are counted. */
const uncounted: ReadonlySet<string> = new Set([
  "meta",
  "leases",
  "rates",
  "installations",
  "secrets",
  "logins",
  "agents",
  "lanes",
  "send_pauses",
  "channel_pauses",
  "own_addresses",
  "webhook_registrations",
]);
const most = 10;

/** The values of `backup` in `meta`; 0 or absent in a store that is no backup. */
const marks = { alone: 1, withPlatform: 2 } as const;

/** Called with the name of the part that begins, and the share of the work that is done (0 to 1). */
type ReportShare = (part: string, share: number) => void;

/** Copies one consistent state of the store at `file` to `destination`, and then the database of the embedded platform at
 *  `platform`, which therefore has every conversation that the store refers to. A daemon may write to both at the same time.
 *  `busyMs`: longest wait for a lock. Throws when `destination` exists, when the disk is full, and when a file is damaged.
 *  Blocks the thread. */
export function copyStore(file: string, destination: string, platform: string | null, busyMs: number): StoreSummary {
  const target = resolve(destination);
  const copies = [target, platformCopy(target)] as const;
  const existing = (platform === null ? [target] : copies).find((one) => existsSync(one));
  if (existing !== undefined)
    throw new Error(`copying the store to ${target}: the file ${existing} exists; name another one`);
  const partial = partialCopy(target);
  const second = platformCopy(partial);
  rmSync(second, { force: true });
  vacuumInto(file, partial, busyMs, platform === null ? marks.alone : marks.withPlatform);
  if (platform !== null) vacuumInto(platform, second, busyMs);
  failpoints["backup.copy"].publish({ phase: "after", partial });
  const summary = verifyStore(partial);
  if (summary.problems.length > 0) {
    for (const one of [partial, second]) rmSync(one, { force: true });
    throw damaged(file, summary.problems.join("; "));
  }
  if (platform !== null) renameSync(second, copies[1]);
  // The backup is complete when it has its own name.
  renameSync(partial, target);
  syncFolder(target);
  return { ...summary, platform: summary.platform && { ...summary.platform, file: copies[1] } };
}

/** Verifies the whole file: pages, references between rows, digests of stored bytes; and the copy of the platform's database
 *  next to it. Changes nothing.
 *  Throws when the file is not an SQLite database or cannot be opened. Blocks the thread. */
export function verifyStore(file: string, report: ReportShare = () => {}): StoreSummary {
  const size = statSync(file).size;
  if (size === 0) throw damaged(file, "the file is empty");
  let open: Sqlite.Database | null = null;
  try {
    const db = new Sqlite(file, { readonly: true, fileMustExist: true });
    open = db;
    report("checking pages", 0);
    const problems = pageProblems(db);
    report("checking references", 1 / 3);
    problems.push(...referenceProblems(db));
    const schema = metaOf(db, "schema");
    if (schema === 0) problems.push("it holds no store of Bridgehead");
    else problems.push(...digestProblems(db, (share) => report("checking digests", (2 + share) / 3)));
    const tables = namesOf(db);
    const counts = (schema === 0 ? [] : tables)
      .filter((name) => !uncounted.has(name) && !name.startsWith("sqlite_"))
      .map((name) => [name, countOf(db, name)] as const);
    const platform = platformBeside(file, problems);
    const mark = metaOf(db, "backup");
    return {
      schema,
      size,
      platform,
      missing: platform === null && mark === marks.withPlatform ? platformCopy(file) : null,
      isBackup: mark > 0,
      newest: tables.includes("events") ? newestEvent(db) : null,
      counts: Object.fromEntries(counts),
      problems: problems.slice(0, most),
    };
  } catch (error) {
    throw damaged(file, (error as Error).message, error);
  } finally {
    open?.close();
  }
}

/** Verifies the copy of the platform's database, if there is one. */
function platformBeside(backup: string, problems: string[]): StoreSummary["platform"] {
  const file = platformCopy(backup);
  if (!existsSync(file)) return null;
  const db = new Sqlite(file, { readonly: true, fileMustExist: true });
  try {
    const found = [...pageProblems(db), ...referenceProblems(db)];
    problems.push(...found.map((problem) => `${basename(file)}: ${problem}`));
    return { file, size: statSync(file).size };
  } finally {
    db.close();
  }
}

export interface Replaced {
  /** Path of the former file; null when there was none. */
  readonly aside: string | null;
  /** What was taken over from the former store; null for another database. */
  readonly carried: CarriedOver | null;
}

/** Replaces the SQLite file at `file` with the backup at `source`, and takes over the former store's opt-outs, pauses and
 *  record of erasures. The caller holds the lock of the file and has verified the source. After a crash one of the two
 *  files is in place, complete. */
export function replaceStore(source: string, file: string, stamp: string, now: number, busyMs: number): Replaced {
  const target = existsSync(file) ? resolve(file) : file;
  const partial = partialRestore(target);
  vacuumInto(source, partial, busyMs);
  const aside = existsSync(target) ? restoreCopy(target, stamp) : null;
  if (aside !== null) foldLog(target);
  const carried = carryOver(aside === null ? null : target, partial, now);
  sync(partial, "r+");
  if (aside !== null) {
    const { uid, gid } = statSync(target);
    if (process.getuid?.() === 0) chownSync(partial, uid, gid);
    for (const suffix of ["", "-wal"]) if (existsSync(target + suffix)) keep(target + suffix, aside + suffix);
    syncFolder(target);
  }
  failpoints["restore.swap"].publish({ phase: "before", file: target });
  // The WAL of the former store must never be applied to the restored one.
  for (const suffix of ["-wal", "-shm"]) rmSync(target + suffix, { force: true });
  renameSync(partial, target);
  syncFolder(target);
  failpoints["restore.swap"].publish({ phase: "after", file: target });
  return { aside, carried };
}

const keptCopies = 3;

/** Copies the store before a schema migration and keeps the newest three copies. Returns the path of the copy. */
export function copyBeforeMigration(file: string, schema: number, stamp: string, busyMs: number): string {
  const folder = dirname(file);
  const path = migrationCopy(file, stamp, schema);
  const prefix = basename(migrationPrefix(file));
  const copies = () => readdirSync(folder).filter((name) => name.startsWith(prefix));
  // Of a start that was killed.
  for (const name of copies()) if (name.includes(".partial")) rmSync(join(folder, name), { force: true });
  copyStore(file, path, null, busyMs);
  for (const old of copies().sort().slice(0, -keptCopies)) rmSync(join(folder, old), { force: true });
  return path;
}

/** The value of `PRAGMA auto_vacuum` in every store. */
const incremental = 2;

/** Writes a compact copy in one read transaction, marks it as a backup and syncs it. Replaces the
 *  leftovers of an earlier attempt. */
function vacuumInto(file: string, partial: string, busyMs: number, mark: number = marks.alone): void {
  for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(partial + suffix, { force: true });
  // SQLite writes into an existing empty file, so the file mode is correct from the first byte.
  closeSync(openSync(partial, "wx", 0o600));
  try {
    const source = new Sqlite(file, { fileMustExist: true, timeout: busyMs });
    try {
      // The copy of a store from before this setting gets it as well. To set it writes to the source, which is a backup
      // in a file system that may be mounted read-only.
      if (source.pragma("auto_vacuum", { simple: true }) !== incremental) source.pragma("auto_vacuum = INCREMENTAL");
      source.prepare("VACUUM INTO ?").run(partial);
    } finally {
      source.close();
    }
    const copy = new Sqlite(partial, { fileMustExist: true });
    try {
      copy.pragma("journal_mode = DELETE");
      // The platform's database has no such table. The copy of a store in use is complete, as after a clean end.
      if (namesOf(copy).includes("meta"))
        copy
          .prepare(
            "INSERT INTO meta (name, value) VALUES ('backup', ?), ('in_use', 0) ON CONFLICT DO UPDATE SET value = excluded.value",
          )
          .run(mark);
    } finally {
      copy.close();
    }
    sync(partial, "r+");
  } catch (error) {
    rmSync(partial, { force: true });
    if ((error as { code?: string }).code === "SQLITE_FULL")
      throw new Error(`copying the store ${file} to ${partial}: the disk is full`, { cause: error });
    throw damaged(file, (error as Error).message, error);
  }
}

/** Checkpoints the write-ahead log into the file, so that a crash cannot separate them. A damaged store
 *  stays unchanged, together with its log. */
function foldLog(file: string): void {
  try {
    const db = new Sqlite(file, { fileMustExist: true });
    try {
      db.pragma("wal_checkpoint(TRUNCATE)");
    } finally {
      db.close();
    }
  } catch {
    // The store is damaged, which may be the reason for its replacement.
  }
}

/** Creates a hard link to the file, or a copy when the file system does not support hard links. */
function keep(file: string, name: string): void {
  try {
    linkSync(file, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw error;
    copyFileSync(file, name);
  }
}

/** Syncs a file, opened with "r+", or a folder, opened with "r". */
function sync(path: string, flag: "r+" | "r"): void {
  const handle = openSync(path, flag);
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Syncs the directory to make a rename durable. */
const syncFolder = (file: string): void => sync(dirname(file), "r");

function pageProblems(db: Sqlite.Database): string[] {
  const rows = db.pragma(`integrity_check(${most})`) as { integrity_check: string }[];
  return rows.map((row) => row.integrity_check).filter((line) => line !== "ok");
}

function referenceProblems(db: Sqlite.Database): string[] {
  const rows = db.pragma("foreign_key_check") as { table: string; parent: string }[];
  return rows.length === 0
    ? []
    : [`rows that refer to missing rows: ${rows.length}, such as ${rows[0]?.table} to ${rows[0]?.parent}`];
}

/** SQLite has no checksums of its own. The digest under which stored bytes are filed detects a flipped bit in them. */
function digestProblems(db: Sqlite.Database, report: (share: number) => void): string[] {
  const wrong: string[] = [];
  const total = countOf(db, "blobs") + countOf(db, "raw_messages");
  let read = 0;
  const rows = db
    .prepare<[], { id: string; bytes: Buffer }>(
      "SELECT id, bytes FROM blobs UNION ALL SELECT digest, bytes FROM raw_messages",
    )
    .iterate();
  for (const { id, bytes } of rows) {
    if (read++ % 1000 === 0) report(read / total);
    if (!/^[0-9a-f]{64}$/.test(id) || createHash("sha256").update(bytes).digest("hex") === id) continue;
    wrong.push(`the stored bytes ${id.slice(0, 12)} do not match their digest`);
    if (wrong.length >= most) break;
  }
  return wrong;
}

const namesOf = (db: Sqlite.Database): string[] =>
  (db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all() as { name: string }[]).map(
    (row) => row.name,
  );

const countOf = (db: Sqlite.Database, table: string): number =>
  (db.prepare(`SELECT COUNT(*) AS count FROM ${table}`).get() as { count: number }).count;

function newestEvent(db: Sqlite.Database): number | null {
  const row = db.prepare("SELECT received_at FROM events ORDER BY id DESC LIMIT 1").get();
  return (row as { received_at: number } | undefined)?.received_at ?? null;
}

function metaOf(db: Sqlite.Database, name: string): number {
  if (!namesOf(db).includes("meta")) return 0;
  const row = db.prepare("SELECT value FROM meta WHERE name = ?").get(name);
  return (row as { value: number } | undefined)?.value ?? 0;
}
