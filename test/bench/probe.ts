// Loaded into a daemon by `--import` before its own code. Counts SQL statements on SQLite and calls between source files,
// and samples memory and event loop delay. Sends a ProbeReport to the parent for each message, and resets its counters.

import { createRequire } from "node:module";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread, setEnvironmentData } from "node:worker_threads";
import { places, sharedName } from "./entries.ts";

const mostFiles = 2000;

/** Entries into functions, by source file. */
export interface PathCounts {
  /** Per file number. */
  readonly entries: readonly number[];
  /** Consecutive entries in different files. */
  readonly transitions: number;
  /** Transitions from A to B directly followed by one back to A. */
  readonly returns: number;
}

export interface ProbeReport {
  /** Executions per SQL text, without transaction control. */
  readonly statements: readonly (readonly [sql: string, count: number])[];
  readonly commits: number;
  /** Of the main thread, and of all workers; 0 when the code is not instrumented. */
  readonly paths: readonly PathCounts[];
  /** Used heap after a full collection, in bytes. */
  readonly heap: number;
  /** Event loop delay in milliseconds, without the timer's resolution of 1 ms. */
  readonly delay: { readonly p99: number; readonly max: number };
}

if (isMainThread && process.send) {
  const statements = new Map<string, number>();
  let commits = 0;
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
      const { source } = this;
      if (/^COMMIT/i.test(source)) commits += 1;
      else if (!/^(?:BEGIN|ROLLBACK|SAVEPOINT|RELEASE)/i.test(source))
        statements.set(source, (statements.get(source) ?? 0) + 1);
      return execute.apply(this, values);
    };
  }

  // Workers that are created later share the arrays.
  const shared = [0, 1].map(() => new Int32Array(new SharedArrayBuffer(4 * (places.entries + mostFiles))));
  setEnvironmentData(sharedName, shared);
  const resetShared = () => {
    for (const array of shared) array.fill(0).fill(-1, places.current, places.previous + 1);
  };
  resetShared();
  const pathOf = (array: Int32Array): PathCounts => ({
    entries: [...array.subarray(places.entries)],
    transitions: array[places.transitions] ?? 0,
    returns: array[places.returns] ?? 0,
  });

  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  setFlagsFromString("--no-expose-gc");

  process.on("message", () => {
    // Before the collection, which delays the event loop itself.
    const delays = { p99: delay.percentile(99) / 1e6 - 1, max: delay.max / 1e6 - 1 };
    collect();
    const report: ProbeReport = {
      statements: [...statements].sort((a, b) => b[1] - a[1]),
      commits,
      paths: shared.map(pathOf),
      heap: process.memoryUsage().heapUsed,
      delay: delays,
    };
    process.send?.(report);
    statements.clear();
    commits = 0;
    resetShared();
    setImmediate(() => delay.reset());
  });
  // The channel to the parent does not keep the daemon alive.
  process.channel?.unref();
}
