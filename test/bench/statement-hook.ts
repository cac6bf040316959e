// Observes the SQL statements that better-sqlite3 executes in this process.

import { createRequire } from "node:module";

/** Called in place of each execution. Must return the result of `execute`. `changes` returns the number of rows that the
 *  connection has changed since it was opened. */
export type Observer = (sql: string, execute: () => unknown, changes: () => number) => unknown;

/** Replaces the methods of all statements. Transaction control is observed as well. Call it once in a process. */
export function observeStatements(observer: Observer): void {
  const Sqlite = createRequire(import.meta.url)("better-sqlite3") as typeof import("better-sqlite3");
  const memory = new Sqlite(":memory:");
  type Statement = { readonly source: string; readonly database: ReturnType<typeof Sqlite> };
  const prototype = Object.getPrototypeOf(memory.prepare("SELECT 1")) as Record<
    "run" | "get" | "all",
    (this: Statement, ...values: unknown[]) => unknown
  >;
  memory.close();
  const { get } = prototype;
  const counters = new WeakMap<object, Statement>();
  const changesOf = (database: Statement["database"]): number => {
    const counter = counters.get(database) ?? database.prepare("SELECT total_changes() AS changes");
    counters.set(database, counter);
    return (get.call(counter, []) as { readonly changes: number }).changes;
  };
  for (const name of ["run", "get", "all"] as const) {
    const execute = prototype[name];
    prototype[name] = function (...values) {
      return observer(
        this.source,
        () => execute.apply(this, values),
        () => changesOf(this.database),
      );
    };
  }
}
