// Opens the platform's SQLite file and migrates its tables.

import Database from "better-sqlite3";
import { createPrivateFile } from "../../ops/private-file.ts";
import { versions } from "./tables.ts";

export type Db = Database.Database;

/** `normal` may lose the last commits in a power cut (never in a crash); for demos and benchmarks. */
export type Durability = "full" | "normal";

/** `code` of the error for a file with a newer schema. */
export const newerFile = "PLATFORM_FILE_NEWER";

/** Opens or creates the file. Throws when its schema is newer than this version. */
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
    // A migration that rebuilds a table drops one that other tables reference.
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

/** Two processes may open a new file at the same time, so the version is read again under the lock. */
function bringUp(db: Db): void {
  const current = () => Number(db.pragma("user_version", { simple: true }));
  if (current() === versions.length) return;
  db.transaction(() => {
    for (const version of versions.slice(current())) db.exec(version);
    db.pragma(`user_version = ${versions.length}`);
  }).immediate();
}
