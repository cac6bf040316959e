// One daemon per SQLite store. The lock is SQLite's own, on a side file: the operating system lets it go however the
// process dies, so there is nothing stale to clean up and no process number to misread.

import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import Sqlite from "better-sqlite3";
import { createPrivateFile } from "../ops/private-file.ts";

/** Locks the store for this process and returns what lets it go. Throws at once, naming the file, when another process
 *  has it. The side file `<file>-lock` stays; it is empty. */
export function lockStore(file: string): () => void {
  if (file === ":memory:") return () => undefined;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // Two names of one store are one store.
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
