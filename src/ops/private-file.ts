// Files that only the daemon's user may read, independent of the umask.

import { closeSync, fchmodSync, openSync } from "node:fs";

/** Creates an empty file with mode 0600 unless it exists; an existing file stays unchanged. SQLite gives its -wal and
 *  -shm files the mode of the database. Called before a database or a lock is opened; throws the errors of `open`. */
export function createPrivateFile(file: string): void {
  let descriptor: number;
  try {
    descriptor = openSync(file, "wx", 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    throw error;
  }
  try {
    fchmodSync(descriptor, 0o600); // a umask such as 0277 removes the owner's write permission as well
  } finally {
    closeSync(descriptor);
  }
}
