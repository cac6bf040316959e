// Detects whether code does more than compute: I/O and timers, started at once or later from a promise.

import { AsyncLocalStorage, createHook } from "node:async_hooks";
import childProcess from "node:child_process";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { setImmediate as turn } from "node:timers/promises";

// Promises, ticks and immediates count as computing, and so does any resource that a package names itself
// with AsyncResource.
const doing = /^(Timeout|WORKER|STATWATCHER|FILEHANDLE\w*|FSREQ\w*|HTTP\w+|\w+WRAP)$/;
const turns = 5;

/** Runs `body` and lists all its actions, including those in the first turns of the event loop after it. */
export async function watchStillness<T>(
  body: () => T,
): Promise<{ readonly value: T; readonly acts: readonly string[] }> {
  const acts: string[] = [];
  const inside = new AsyncLocalStorage<true>();
  // Counts only resources created by `body`, because other tests of the process run concurrently.
  const hook = createHook({
    init: (_id, type) => {
      if (inside.getStore() && doing.test(type)) acts.push(type);
    },
  });
  hook.enable();
  try {
    const value = inside.run(true, () => watchingBlockingCalls(acts, body));
    for (let n = 0; n < turns; n++) await turn();
    return { value, acts };
  } finally {
    hook.disable();
  }
}

/** Watches the connections, timers and processes that begin in the calls passed to `watch`. */
export function watchRemains(): {
  watch<T>(body: () => T): T;
  /** Returns the types of those that have not ended. A timer that keeps no process alive (`AbortSignal.timeout`) is left out. */
  list(): readonly string[];
  end(): void;
} {
  const open = new Map<number, { readonly type: string; readonly resource: { hasRef?(): boolean } }>();
  const inside = new AsyncLocalStorage<true>();
  const lasting = /^(Timeout|TCPWRAP|PIPEWRAP|PROCESSWRAP|STATWATCHER|WORKER)$/;
  const hook = createHook({
    init: (id, type, _trigger, resource) => {
      if (inside.getStore() && lasting.test(type)) open.set(id, { type, resource });
    },
    destroy: (id) => void open.delete(id),
  });
  hook.enable();
  return {
    watch: (body) => inside.run(true, body),
    list: () =>
      [...open.values()]
        .filter(({ type, resource }) => type !== "Timeout" || resource.hasRef?.() !== false)
        .map(({ type }) => type),
    end: () => void hook.disable(),
  };
}

// Blocking calls leave no asynchronous trace. They are therefore replaced while `body` runs; no other code
// can run at that time.
function watchingBlockingCalls<T>(acts: string[], body: () => T): T {
  const undo = [fs, childProcess].flatMap((module) => spyOnBlockingCalls(module as never, acts));
  syncBuiltinESMExports();
  try {
    return body();
  } finally {
    for (const restore of undo) restore();
    syncBuiltinESMExports();
  }
}

type Functions = Record<string, (...args: unknown[]) => unknown>;

function spyOnBlockingCalls(module: Functions, acts: string[]): (() => void)[] {
  const names = Object.keys(module).filter((name) => /^[a-z]\w+Sync$/.test(name));
  return names.map((name) => {
    const original = module[name] as Functions[string];
    const spy = (...args: unknown[]) => {
      acts.push(`${name}(${typeof args[0] === "string" ? args[0] : ""})`);
      return original(...args);
    };
    // Keeps properties of the function such as `realpathSync.native`.
    module[name] = Object.assign(spy, original);
    return () => {
      module[name] = original;
    };
  });
}
