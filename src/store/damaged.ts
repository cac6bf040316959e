// A damaged SQLite file as an error that names the file and the remedy.

import { statSync } from "node:fs";

/** The file cannot be used as it is. A restart does not help: `main` ends the process with the exit code for it. */
export interface DamagedStore extends Error {
  readonly code: "STORE_DAMAGED";
  readonly file: string;
}

/** What SQLite reports about a file that is damaged, cut short, or no database. */
const codes = ["SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ", "SQLITE_FORMAT"];

export function isDamage(error: unknown): boolean {
  const code = (error as { code?: string } | null)?.code ?? "";
  return codes.some((one) => code === one || code.startsWith(`${one}_`));
}

/** `what`: what is wrong with the file. A cause that is no damage (a full disk, a missing file) is returned as it is. */
export function damaged(file: string, what: string, cause?: unknown): Error {
  if (isDamagedStore(cause)) return cause;
  if (cause instanceof Error && !isDamage(cause)) return cause;
  const remedy =
    "stop the daemon, keep the file with its -wal beside it, and run bridgehead restore with the newest backup";
  const message = `the store ${file} is damaged (${sizeOf(file)}): ${what}. Remedy: ${remedy}`;
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
