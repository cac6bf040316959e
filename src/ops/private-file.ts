// Files that only the daemon's user may read, independent of the umask, and why they cannot be written.

import { accessSync, closeSync, constants, fchmodSync, openSync } from "node:fs";
import { dirname } from "node:path";

/** Creates an empty file with mode 0600 unless it exists; an existing file stays unchanged. Returns false when it exists.
 *  SQLite gives its -wal and -shm files the mode of the database. Called before a database or a lock is opened; throws the
 *  errors of `open`. */
export function createPrivateFile(file: string): boolean {
  let descriptor: number;
  try {
    descriptor = openSync(file, "wx", 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
  try {
    fchmodSync(descriptor, 0o600); // a umask such as 0277 removes the owner's write permission as well
  } finally {
    closeSync(descriptor);
  }
  return true;
}

/** Whether the path is in a file system that is mounted read-only. The kernel mounts one so after a disk error. */
export function isMountedReadOnly(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EROFS";
  }
}

/** The remedy for such a path. */
export const readOnlyRemedy =
  "its file system is mounted read-only: for the service everything is, except /var/lib/bridgehead and what ReadWritePaths= in a drop-in names; elsewhere look for disk errors in the kernel's log (dmesg), and mount it writable";

/** Remedies for errors of opening or writing a file, by the prefix of the code of SQLite or Node.js. */
const accessRemedies: readonly (readonly [code: string, remedy: string])[] = [
  ["SQLITE_CANTOPEN", "check that it is a file, and run this as the daemon's user"],
  ["SQLITE_READONLY", "run this as the daemon's user, and check that the file system is writable"],
  ["SQLITE_PERM", "run this as the daemon's user"],
  ["SQLITE_FULL", "free some space on the disk"],
  ["SQLITE_IOERR", "check that it is a file, that the disk is not full, and the kernel's log for disk errors"],
  ["ENOSPC", "free some space on the disk"],
];

/** Returns the remedy for an error with this code at a file; undefined for an error that is not about access. */
export function accessRemedy(code: string, file: string): string | undefined {
  if (/^(EROFS|SQLITE_CANTOPEN|SQLITE_READONLY)/.test(code) && isMountedReadOnly(dirname(file))) return readOnlyRemedy;
  return accessRemedies.find(([beginning]) => code.startsWith(beginning))?.[1];
}
