// The SQLite file: how its write connection is opened, and its upkeep.

import Sqlite from "better-sqlite3";
import { damaged } from "./damaged.ts";

/** Switches the file to WAL. The switch needs exclusive access, and SQLite does not wait for that as it waits for a
 *  lock. The loop retries when two processes open a new file together. The file stays in WAL mode afterwards. */
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
export function maintain(db: Sqlite.Database): boolean {
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

/** Opens the write connection. Throws DamagedStore for a file that is not a database. */
export function openWriter(file: string, busyMs: number): Sqlite.Database {
  let db: Sqlite.Database | null = null;
  try {
    db = new Sqlite(file, { timeout: busyMs });
    // Lets `incrementalVacuum` return free pages. Has an effect on a new file only.
    db.pragma("auto_vacuum = INCREMENTAL");
    becomeWal(db);
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
