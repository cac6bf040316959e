// Ensures one daemon per SQLite store. The lock is an SQLite lock on a companion file. The operating system releases it
// when the process ends for any reason, so there are no stale locks to clean up and no process numbers to misread.

import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import Sqlite from "better-sqlite3";
import { createPrivateFile } from "../../ops/private-file.ts";

/** Locks the store for this process and returns the function that releases it. Throws at once, with the
 *  file name, when another process has the lock. The empty companion file `<file>-lock` stays. */
export function lockStore(file: string): () => void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  return lockFile(file);
}

function lockFile(file: string): () => void {
  if (file === ":memory:") return () => undefined;
  // Resolves symbolic links, so that all names of one store share one lock.
  const real = existsSync(file) ? realpathSync(file) : file;
  let lock: Sqlite.Database | undefined;
  try {
    createPrivateFile(`${real}-lock`);
    lock = new Sqlite(`${real}-lock`, { timeout: 0 });
    lock.pragma("locking_mode = EXCLUSIVE");
    lock.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    lock?.close();
    const { code, message } = error as { code?: string; message: string };
    if (code !== "SQLITE_BUSY") {
      const remedy = `let this process's user write to the folder ${dirname(real)}`;
      throw new Error(`locking the store ${file} failed: ${message} (${remedy})`, { cause: error });
    }
    throw new Error(`locking the store ${file}: another Bridgehead process is running on it; stop that one first`, {
      cause: error,
    });
  }
  const locked = lock;
  return () => void locked.close();
}

/** Starts a service that must be the only one on its SQLite file, in an existing folder. Its `close` releases the lock. */
export async function startLocked<T extends { close(): Promise<void> }>(
  file: string,
  start: () => Promise<T>,
): Promise<T> {
  const release = lockFile(file);
  try {
    const started = await start();
    return { ...started, close: () => started.close().finally(release) };
  } catch (error) {
    release();
    throw error;
  }
}
