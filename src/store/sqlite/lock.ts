// Ensures one daemon per SQLite store. The lock is an SQLite lock on a companion file. The operating system
// releases it when the process ends for any reason, so there are no stale locks to clean up and no process
// numbers to misread.

import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import Sqlite from "better-sqlite3";
import { createPrivateFile } from "../../ops/private-file.ts";

/** Locks the store for this process and returns the function that releases it. Throws at once, with the
 *  file name, when another process has the lock. The empty companion file `<file>-lock` stays. */
export function lockStore(file: string): () => void {
  if (file === ":memory:") return () => undefined;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // Resolves symbolic links, so that all names of one store share one lock.
  const real = existsSync(file) ? realpathSync(file) : file;
  createPrivateFile(`${real}-lock`);
  const lock = new Sqlite(`${real}-lock`, { timeout: 0 });
  try {
    lock.pragma("locking_mode = EXCLUSIVE");
    lock.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    if ((error as { code?: string }).code !== "SQLITE_BUSY") {
      throw new Error(`locking the store ${file} failed`, { cause: error });
    }
    throw new Error(
      `locking the store ${file}: another Bridgehead process is running on it; stop that one first`,
      {
        cause: error,
      },
    );
  }
  return () => void lock.close();
}
