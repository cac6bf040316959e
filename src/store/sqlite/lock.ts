// Ensures one daemon per SQLite store. The lock is an SQLite lock on a companion file. The operating system releases it
// when the process ends for any reason, so there are no stale locks to clean up and no process numbers to misread.

import { existsSync, mkdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import Sqlite from "better-sqlite3";
import { accessRemedy, createPrivateFile } from "../../ops/private-file.ts";

/** Locks the store for this process and returns the function that releases it. Throws at once, with the
 *  file name and the id of the process, when another process has the lock. The empty companion file `<file>-lock` stays. */
export function lockStore(file: string): () => void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  return lockFile(file, `the store ${file}`, "");
}

/** `what` names the file, `holders` the commands that may have the lock. */
function lockFile(file: string, what: string, holders: string): () => void {
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
      const remedy = accessRemedy(code ?? "", real) ?? `let this process's user write to the folder ${dirname(real)}`;
      throw new Error(`locking ${what} failed: ${message} (${remedy})`, { cause: error });
    }
    const pid = lockHolder(`${real}-lock`);
    const holder = `another Bridgehead process is running on it${pid === null ? "" : ` (pid ${pid})`}${holders}`;
    throw new Error(`locking ${what}: ${holder}; stop that one first`, { cause: error });
  }
  const locked = lock;
  return () => void locked.close();
}

/** Returns the id of the process that has locked the file. Null when the system does not tell: without /proc/locks (other
 *  systems, a unit with ProcSubset=pid), and for a process of another container. The file itself is not opened, because
 *  closing it would release the locks of this process. */
function lockHolder(file: string): number | null {
  try {
    const { dev, ino } = statSync(file, { bigint: true });
    const hex = (part: bigint) => part.toString(16).padStart(2, "0");
    const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn);
    const minor = (dev & 0xffn) | ((dev >> 12n) & ~0xffn);
    const place = `${hex(major)}:${hex(minor)}:${ino}`;
    // "1: POSIX  ADVISORY  WRITE 21752 fe:00:15549830 1073741824 1073742335"
    const lines = readFileSync("/proc/locks", "utf8").split("\n");
    const fields = lines.map((line) => line.split(/\s+/)).find((parts) => parts[5] === place);
    const pid = Number(fields?.[4]);
    return pid > 0 ? pid : null;
  } catch {
    return null;
  }
}

/** Starts an embedded platform, which must be the only one on its SQLite file, in an existing folder. Its `close`
 *  releases the lock. */
export async function startLocked<T extends { close(): Promise<void> }>(
  file: string,
  start: () => Promise<T>,
): Promise<T> {
  const what = `the database ${file} of the embedded platform`;
  const release = lockFile(file, what, ": a daemon with this configuration, or the command platform");
  try {
    const started = await start();
    return { ...started, close: () => started.close().finally(release) };
  } catch (error) {
    release();
    throw error;
  }
}
