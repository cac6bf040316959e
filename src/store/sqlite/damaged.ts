// Reports a damaged SQLite file as an error with the file name and the remedy.

import { statSync } from "node:fs";
import { accessRemedy } from "../../ops/private-file.ts";

/** The file is unusable and a restart does not help. `main` ends the process with the exit code for this error. */
export interface DamagedStore extends Error {
  readonly code: "STORE_DAMAGED";
  readonly file: string;
}

/** SQLite error codes for a file that is damaged, truncated, or not a database. */
const codes = ["SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ", "SQLITE_FORMAT"];

export function isDamage(error: unknown): boolean {
  const code = (error as { code?: string } | null)?.code ?? "";
  return codes.some((one) => code === one || code.startsWith(`${one}_`));
}

/** Returns whether SQLite could not sync a file. What it wrote before may be lost, so the store must not be used on. */
export function isFailedSync(error: unknown): boolean {
  return /^SQLITE_IOERR_(DIR_)?FSYNC$/.test((error as { code?: string } | null)?.code ?? "");
}

/** Returns whether a checkpoint may not be repeated. Pages that it or an earlier one copied may be lost, and no later one would
 *  copy them again. A write that was refused (a quota: SQLite reports a full disk as SQLITE_FULL, and all else so) has copied
 *  nothing that counts. */
export function isFailedCheckpoint(error: unknown): boolean {
  const code = (error as { code?: string } | null)?.code ?? "";
  return code.startsWith("SQLITE_IOERR") && code !== "SQLITE_IOERR_WRITE";
}

/** Between the problem and its remedy in the messages of this file. */
export const beforeRemedy = ". Remedy: ";

/** Adds the file and a remedy to an access error of SQLite and keeps its code. Other errors are returned unchanged. */
function inaccessible(file: string, error: Error): Error {
  const code = (error as NodeJS.ErrnoException).code ?? "";
  const remedy = code.startsWith("SQLITE_") ? accessRemedy(code, file) : undefined;
  if (remedy === undefined) return error;
  const message = `the store ${file} cannot be used: ${error.message} (${code})${beforeRemedy}${remedy}`;
  return Object.assign(new Error(message, { cause: error }), { code });
}

/** Creates the error for a damaged file; `what` describes the damage. A cause that is not damage (a full
 *  disk, a missing file) is returned unchanged, except that access errors of SQLite get the file name. */
export function damaged(file: string, what: string, cause?: unknown): Error {
  if (isDamagedStore(cause)) return cause;
  if (cause instanceof Error && !isDamage(cause)) return inaccessible(file, cause);
  const remedy =
    "stop the daemon, keep the file with its -wal beside it, and restore the newest backup with the command restore";
  const message = `the store ${file} is damaged (${sizeOf(file)}): ${what}${beforeRemedy}${remedy}`;
  return Object.assign(new Error(message, { cause }), { code: "STORE_DAMAGED", file } as const);
}

export function isDamagedStore(error: unknown): error is DamagedStore {
  return (error as { code?: string } | null)?.code === "STORE_DAMAGED";
}

function sizeOf(file: string): string {
  try {
    return `${statSync(file).size} bytes`;
  } catch {
    return "it cannot be read";
  }
}
