// One daemon per SQLite store. The lock is an exclusive transaction on a small file beside the store: the operating
// system ends it with the process, however that dies.

import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import Sqlite from "better-sqlite3";

/** Another process runs on this store. */
export class StoreInUse extends Error {
  constructor(file: string, cause: unknown) {
    super(
      `opening the store ${file}: another bridgehead runs on it; stop that one, or give this one a store of its own`,
      {
        cause,
      },
    );
  }
}

/** Takes the lock or throws StoreInUse. Call the result to give it back. */
export function lockStore(file: string): () => void {
  if (file === ":memory:") return () => undefined;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // Two names of one file are one store.
  const real = existsSync(file) ? realpathSync(file) : file;
  const db = new Sqlite(`${real}-lock`, { timeout: 0 });
  try {
    db.pragma("locking_mode = EXCLUSIVE");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if ((error as { code?: string }).code === "SQLITE_BUSY") throw new StoreInUse(file, error);
    throw new Error(`locking the store ${file} failed`, { cause: error });
  }
  return () => db.close();
}
