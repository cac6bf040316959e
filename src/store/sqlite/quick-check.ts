// The process that checks the structure of one SQLite file and exits. A thread would not do: SQLite returns at the end of
// the check only, which takes a minute for some gigabytes, and neither a thread nor its process can end before.
//
// argv[2]: the file. stdout: one JSON object, `QuickCheckResult`.

import { constants, setPriority } from "node:os";
import Sqlite from "better-sqlite3";

/** `problem`: the first one that was found; null without any. `error`: why the file could not be checked. */
export type QuickCheckResult =
  | { readonly problem: string | null }
  | { readonly error: string; readonly code: string | undefined };

function check(file: string): QuickCheckResult {
  try {
    const db = new Sqlite(file, { readonly: true, fileMustExist: true });
    const [first] = db.pragma("quick_check(1)") as { quick_check: string }[];
    const found = first?.quick_check ?? "ok";
    return { problem: found === "ok" ? null : found };
  } catch (error) {
    return { error: (error as Error).message, code: (error as { code?: string }).code };
  }
}

try {
  setPriority(constants.priority.PRIORITY_LOW);
} catch {
  // Not permitted, as under the systemd unit.
}
process.stdout.write(JSON.stringify(check(process.argv[2] ?? "")));
