// Loaded into a daemon by `--import` before its own code. Counts SQL statements on SQLite, calls between source files,
// abort signals and DOM exceptions, and samples memory and event loop delay. Sends a ProbeReport to the parent for each message, and resets its counters.

import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread, setEnvironmentData } from "node:worker_threads";
import { mostFiles, pairsPlace, places, sharedName } from "./entries.ts";
import { observeStatements } from "./statement-hook.ts";

/** Entries into functions, by source file. */
export interface PathCounts {
  /** Per file number. */
  readonly entries: readonly number[];
  /** Consecutive entries in different files. */
  readonly transitions: number;
  /** Transitions from A to B directly followed by one back to A. */
  readonly returns: number;
  /** Transitions per pair of files. */
  readonly pairs: readonly (readonly [from: number, to: number, count: number])[];
}

export interface ProbeReport {
  /** Executions per SQL text, without transaction control. */
  readonly statements: readonly (readonly [sql: string, count: number])[];
  /** Those that changed a row, by the texts of their writing statements: a commit without changes writes nothing. */
  readonly commits: readonly (readonly [writes: readonly string[], count: number])[];
  /** Created by own code and packages of the main thread. */
  readonly signals: number;
  /** Each captures a stack. Also those of an abort without a reason. */
  readonly exceptions: number;
  /** Of the main thread, and of all workers; 0 when the code is not instrumented. */
  readonly paths: readonly PathCounts[];
  /** Used heap after a full collection, in bytes. */
  readonly heap: number;
  /** Event loop delay in milliseconds, without the timer's resolution of 1 ms. */
  readonly delay: { readonly p99: number; readonly max: number };
}

if (isMainThread && process.send) {
  const statements = new Map<string, number>();
  const commits = new Map<string, number>();
  /** Of the running transaction. */
  const writes = new Set<string>();
  let changed = 0;
  observeStatements((sql, execute, changes) => {
    if (/^COMMIT/i.test(sql)) {
      // Daemons write with one connection.
      const before = changed;
      changed = changes();
      const key = JSON.stringify([...writes].sort());
      if (changed > before) commits.set(key, (commits.get(key) ?? 0) + 1);
    } else if (/^BEGIN/i.test(sql)) writes.clear();
    else if (!/^(?:ROLLBACK|SAVEPOINT|RELEASE)/i.test(sql)) {
      statements.set(sql, (statements.get(sql) ?? 0) + 1);
      if (/\b(?:INSERT|UPDATE|DELETE)\b/i.test(sql)) writes.add(sql);
    }
    return execute();
  });

  const created = { signals: 0, exceptions: 0 };
  observeSignals(created);

  // Workers that are created later share the arrays.
  const length = pairsPlace + mostFiles ** 2;
  const shared = [0, 1].map(() => new Int32Array(new SharedArrayBuffer(4 * length)));
  setEnvironmentData(sharedName, shared);
  const resetShared = () => {
    for (const array of shared) array.fill(0).fill(-1, places.current, places.previous + 1);
  };
  resetShared();
  const pathOf = (array: Int32Array): PathCounts => ({
    entries: [...array.subarray(places.entries, pairsPlace)],
    transitions: array[places.transitions] ?? 0,
    returns: array[places.returns] ?? 0,
    pairs: pairsOf(array.subarray(pairsPlace)),
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
    // Before the report is built: the paths of a report are 12 MB of garbage.
    const heap = process.memoryUsage().heapUsed;
    const report: ProbeReport = {
      statements: [...statements].sort((a, b) => b[1] - a[1]),
      commits: [...commits].map(([key, count]) => [JSON.parse(key) as string[], count]),
      ...created,
      paths: shared.map(pathOf),
      heap,
      delay: delays,
    };
    process.send?.(report);
    statements.clear();
    commits.clear();
    Object.assign(created, { signals: 0, exceptions: 0 });
    resetShared();
    setImmediate(() => delay.reset());
  });
  // The channel to the parent does not keep the daemon alive.
  process.channel?.unref();
}

function pairsOf(counts: Int32Array): PathCounts["pairs"] {
  const pairs: [number, number, number][] = [];
  for (const [at, count] of counts.entries())
    if (count > 0) pairs.push([Math.floor(at / mostFiles), at % mostFiles, count]);
  return pairs;
}

/** Replaces the global classes and the functions of AbortSignal that create signals. */
function observeSignals(created: { signals: number; exceptions: number }): void {
  globalThis.AbortController = class extends AbortController {
    constructor() {
      super();
      created.signals += 1;
    }
    override abort(reason?: unknown): void {
      if (reason === undefined && !this.signal.aborted) created.exceptions += 1;
      super.abort(reason);
    }
  };
  globalThis.DOMException = new Proxy(DOMException, {
    construct(target, args, caller) {
      created.exceptions += 1;
      return Reflect.construct(target, args, caller) as DOMException;
    },
  });
  const counted = <Create extends (...args: never[]) => AbortSignal>(create: Create): Create =>
    new Proxy(create, {
      apply(target, self, args: never[]) {
        created.signals += 1;
        return target.apply(self, args);
      },
    });
  Object.assign(AbortSignal, {
    abort: counted(AbortSignal.abort.bind(AbortSignal)),
    any: counted(AbortSignal.any.bind(AbortSignal)),
    timeout: counted(AbortSignal.timeout.bind(AbortSignal)),
  });
}
