// The platform's own SQLite file: opening it and bringing its tables up to date.

import Database from "better-sqlite3";
import { createPrivateFile } from "../../ops/private-file.ts";
import { versions } from "./tables.ts";

export type Db = Database.Database;

/** `normal` may lose the last moments at a power cut (never at a crash); for trying out and measuring. */
export type Durability = "full" | "normal";

/** The `code` of the error about a file of a newer version. */
export const newerFile = "PLATFORM_FILE_NEWER";

/** Opens or makes the file. Throws when it was written by a newer version. */
export function openDatabase(file: string, durability: Durability): Db {
  let db: Db | null = null;
  try {
    if (file !== ":memory:") createPrivateFile(file);
    db = new Database(file);
    db.pragma("journal_mode = WAL");
    db.pragma(`synchronous = ${durability}`);
    db.pragma("busy_timeout = 5000");
    const found = Number(db.pragma("user_version", { simple: true }));
    if (found > versions.length)
      throw Object.assign(
        new Error(`opening the platform's file ${file}: it was written by a newer version (${found})`),
        { code: newerFile },
      );
    // A version that makes a table anew drops one that others refer to.
    db.pragma("foreign_keys = OFF");
    bringUp(db);
    db.pragma("foreign_keys = ON");
    return db;
  } catch (error) {
    db?.close();
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === newerFile) throw error;
    throw new Error(`opening the platform's file ${file}: ${message} (check the path of the database)`, {
      cause: error,
    });
  }
}

/** Two processes may open a new file at once: the version is read again under the lock. */
function bringUp(db: Db): void {
  const current = () => Number(db.pragma("user_version", { simple: true }));
  if (current() === versions.length) return;
  db.transaction(() => {
    for (const version of versions.slice(current())) db.exec(version);
    db.pragma(`user_version = ${versions.length}`);
  }).immediate();
}
