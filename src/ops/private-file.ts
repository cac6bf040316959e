// Files that only the daemon's own user may read, whatever the umask is.

import { closeSync, fchmodSync, openSync } from "node:fs";

/** Creates an empty file with mode 0600 when none is there; leaves an existing one as it is. SQLite gives its -wal and
 *  -shm files the mode of the database. Called before a database or a lock is opened; throws what `open` throws. */
export function createPrivateFile(file: string): void {
  let descriptor: number;
  try {
    descriptor = openSync(file, "wx", 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return;
    throw error;
  }
  try {
    fchmodSync(descriptor, 0o600); // a umask such as 0277 has taken more away than it should
  } finally {
    closeSync(descriptor);
  }
}
