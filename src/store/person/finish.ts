// What follows an erasure: the erased bytes are removed from the files of the database, and searched for.

import Sqlite from "better-sqlite3";
import { Client } from "pg";
import { countInFile } from "./mentions.ts";

/** Result for an SQLite store. */
export interface FilesSearched {
  /** Where the addresses stand in the file and its log; 0 after a complete erasure. */
  readonly remaining: number;
  /** False when another process reads the log, so that it could not be emptied. */
  readonly isLogEmpty: boolean;
}

/** Empties the write-ahead log of the SQLite file and searches both for the texts (lower case). Deleted content is
 *  overwritten at the deletion (secure_delete). `mayRewrite`: no daemon runs, so the whole file may be written again
 *  when something remains. `kept`: longer addresses that stay. `busyMs`: longest wait for a lock. Blocks the thread. */
export function finishFile(
  file: string,
  texts: readonly string[],
  mayRewrite: boolean,
  kept: ReadonlySet<string>,
  busyMs: number,
): FilesSearched {
  const db = new Sqlite(file, { fileMustExist: true, timeout: busyMs });
  try {
    db.pragma("secure_delete = ON");
    // Twice: the first one makes the next writer begin the log anew.
    let isLogEmpty = truncate(db) || truncate(db);
    const count = () => countInFile(file, texts, kept) + countInFile(`${file}-wal`, texts, kept);
    let remaining = count();
    if (remaining > 0 && mayRewrite) {
      db.exec("VACUUM");
      isLogEmpty = truncate(db);
      remaining = count();
    }
    return { remaining, isLogEmpty };
  } finally {
    db.close();
  }
}

function truncate(db: Sqlite.Database): boolean {
  const [row] = db.pragma("wal_checkpoint(TRUNCATE)") as { busy: number }[];
  return row?.busy === 0;
}

/** Lets PostgreSQL reuse the space of the erased rows. Their bytes stay in the files until they are overwritten. */
export async function vacuumPostgres(url: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query("VACUUM");
  } finally {
    await client.end();
  }
}
