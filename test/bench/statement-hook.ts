// Observes the SQL statements that better-sqlite3 executes in this process.

import { createRequire } from "node:module";

/** Called in place of each execution. Must return the result of `execute`. */
export type Observer = (sql: string, execute: () => unknown) => unknown;

/** Replaces the methods of all statements. Transaction control is observed as well. Call it once in a process. */
export function observeStatements(observer: Observer): void {
  const Sqlite = createRequire(import.meta.url)("better-sqlite3") as typeof import("better-sqlite3");
  const memory = new Sqlite(":memory:");
  const prototype = Object.getPrototypeOf(memory.prepare("SELECT 1")) as Record<
    "run" | "get" | "all",
    (this: { readonly source: string }, ...values: unknown[]) => unknown
  >;
  memory.close();
  for (const name of ["run", "get", "all"] as const) {
    const execute = prototype[name];
    prototype[name] = function (...values) {
      return observer(this.source, () => execute.apply(this, values));
    };
  }
}
