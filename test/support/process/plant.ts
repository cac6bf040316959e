// Loaded into the daemon before anything else (`node --import`): wraps exported functions of its modules with the named
// defects and circumstances. PLANT="<name>,<name>". A module that imports a wrapped one gets a generated module in its place,
// which exports all of the real one, and the wrappers. Logs "planted" once for each name that has changed something.

import { writeSync } from "node:fs";
import { registerHooks } from "node:module";
import { isMainThread } from "node:worker_threads";
import { type TimingOverrides, timingWith } from "../../../src/ops/timing.ts";
import { escalationDefects, textDefects } from "./defects.ts";
import { defects } from "./mail/defects.ts";
import type { Plant, Wraps } from "./planting.ts";

// Not defects, but circumstances that would take too long to wait for, or need more than one machine: planted as defects are.

/** Durations of the daemon that differ from the standard ones. */
const timed =
  (timing: TimingOverrides): Plant =>
  (altered) => ({
    "src/commands/run.ts": {
      runDaemon: (real) => (options, io) => {
        altered();
        return real(options, { ...io, timing: timingWith(timing, io.timing) });
      },
    },
  });

const circumstances: { readonly [name: string]: Plant } = {
  "quick-log-level": timed({ upkeep: { logLevelCheck: 50 } }),
  "quick-retention": timed({ upkeep: { retentionFirst: 10 } }),
  "quick-store-check": timed({ upkeep: { storeCheckDelay: 10 } }),
  /** A start that waits for the first connections until they are made. */
  "patient-start": timed({ startup: { firstConnections: 3_600_000 } }),
  "quick-start-timeout": timed({ startup: { extensionEvery: 10 } }),
  "quick-shutdown": timed({ shutdown: { drain: 100, longest: 2000 } }),
  /** A lease that hardly holds one call. */
  "short-lease": timed({ ask: { rateWait: 0, read: 500, leaseMargin: 500 } }),
  /** Leases on PostgreSQL that end a few seconds after their holder died. SQLite has a single process and forgets them. */
  "short-takeover": timed({
    channels: { lease: 3000, renewal: 1000 },
    ask: { rateWait: 0, read: 1000, leaseMargin: 1000 },
    send: { attempt: 6000, leaseMargin: 2000, crossing: 2000 },
  }),
  /** Looks at a provider's list of texts that need not wait until it is certainly complete. */
  "quick-looks": timed({ adapters: { sms: { processing: 400 } } }),
  /** Looks that do not decide within twice this time, however slow the machine is. */
  "slow-looks": timed({ adapters: { sms: { processing: 10_000 } } }),
  /** Calls to providers that give up on a silent one soon. */
  "short-calls": timed({ webhook: { answer: 6000 }, adapters: { sms: { request: 6000 } } }),
  /** A node that works in lanes which other nodes have leased. */
  "leases-ignored": (altered) => ({
    "src/pipeline/ask/rows.ts": {
      leaseTurns: (real) => async (q, claim) => {
        const taken = await q.run(
          "UPDATE lanes SET lease_until = 0, holder = NULL WHERE direction = 'in' AND lease_until > now_ms()",
        );
        await q.run("UPDATE turns SET state = 'waiting' WHERE state = 'asking'");
        if (taken > 0) altered();
        return real(q, claim);
      },
    },
  }),
  /** Shortens the 45 seconds after which a notification of unknown outcome is repeated. */
  "short-doubt": timed({ reconcile: { notificationWindow: 300 } }),
  /** What is sent again and again, because the daemon dies each time, does not wait longer each time. */
  "no-patience": timed({ send: { retry: { phone: [0], mail: [0] } } }),
  /** Two daemons on one SQLite store, as two nodes are on PostgreSQL. */
  "shared-store": (altered) => ({
    "src/store/sqlite/lock.ts": {
      lockStore: () => () => {
        altered();
        return () => undefined;
      },
    },
  }),
};

export const plantable: readonly string[] = [defects, textDefects, escalationDefects, circumstances].flatMap((all) =>
  Object.keys(all),
);

/** Throws when there is no such defect or circumstance. */
export function plantNamed(name: string): Plant {
  const plant = (defects[name] ?? textDefects[name] ?? escalationDefects[name])?.plant ?? circumstances[name];
  if (!plant) throw new Error(`there is no defect ${name}`);
  return plant;
}

type Any = (...args: unknown[]) => unknown;
type Wrapper = (real: unknown, module: object) => unknown;

const root = new URL("../../../", import.meta.url).href;
const mark = "?planted";
const registry = "bridgehead.planted";

/** One report for each name. */
function reporting(name: string): () => void {
  let reported = false;
  return () => {
    if (!reported) writeSync(2, `${JSON.stringify({ level: "info", message: "planted", plant: name })}\n`);
    reported = true;
  };
}

/** The wrappers of all plants, by file and export. */
function collected(all: readonly Wraps[]): Map<string, Map<string, Wrapper[]>> {
  const files = new Map<string, Map<string, Wrapper[]>>();
  for (const wraps of all)
    for (const [file, wrappers] of Object.entries(wraps)) {
      const names = files.get(file) ?? new Map<string, Wrapper[]>();
      files.set(file, names);
      for (const [name, wrapper] of Object.entries(wrappers)) names.set(name, [...(names.get(name) ?? []), wrapper]);
    }
  return files;
}

/** The functions replace classes too. They are hoisted, because modules may import each other in a circle; a default export
 *  is a value. */
function generated(file: string, names: Iterable<string>): string {
  const real = JSON.stringify(root + file);
  const own = [...names].map((name) =>
    name === "default"
      ? "export default wrapped().default;"
      : `export function ${name}(...args) {
  const planted = wrapped().${name};
  return new.target ? new planted(...args) : planted(...args);
}`,
  );
  return `import * as real from ${real};
export * from ${real};
let made;
function wrapped() { return (made ??= globalThis[Symbol.for("${registry}")](${JSON.stringify(file)}, real)); }
${own.join("\n")}
`;
}

const planted = (process.env["PLANT"] ?? "").split(",").filter(Boolean);

if (isMainThread && planted.length > 0) {
  const files = collected(planted.map((name) => plantNamed(name)(reporting(name))));
  const wrap = (file: string, module: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(
      [...(files.get(file) ?? [])].map(([name, wrappers]) => {
        if (!(name in module)) throw new Error(`planting: ${file} exports no ${name}`);
        return [name, wrappers.reduce((inner, wrapper) => wrapper(inner, module) as Any, module[name])];
      }),
    );
  (globalThis as Record<symbol, unknown>)[Symbol.for(registry)] = wrap;
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const resolved = nextResolve(specifier, context);
      const ours = resolved.url.startsWith(root) && files.has(resolved.url.slice(root.length));
      return ours && context.parentURL !== resolved.url + mark
        ? { ...resolved, url: resolved.url + mark, format: "module" }
        : resolved;
    },
    load(url, context, nextLoad) {
      if (!url.startsWith(root) || !url.endsWith(mark)) return nextLoad(url, context);
      const file = url.slice(root.length, -mark.length);
      return { format: "module", shortCircuit: true, source: generated(file, files.get(file)?.keys() ?? []) };
    },
  });
}
