// bridgehead store copy: copies the whole store from SQLite to PostgreSQL or back, and verifies the copy. The daemon then
// continues on the copy as if it were the same store. No daemon starts on the former store any more.

import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { openDatabase } from "../../app.ts";
import { loseSessions } from "../../calls/rows.ts";
import { loadStore, parseStore, type StoreConfig } from "../../config/index.ts";
import { systemClock } from "../../ops/clock.ts";
import { type CopiedTable, copyRows } from "../../store/copy.ts";
import type { Database } from "../../store/driver.ts";
import { endLeases } from "../../store/leases.ts";
import { migrate } from "../../store/migrate.ts";
import { lockStore } from "../../store/sqlite/lock.ts";
import { type CommandOptions, exitCodes, fail, type Io } from "../io.ts";
import { type ListColumn, listing } from "../text.ts";
import { load, requireSchema } from "./open.ts";
import { ProgressBar } from "./progress.ts";

type StoreCopyOptions = CommandOptions & { readonly to: string };

export async function copyToOther(options: StoreCopyOptions, io: Io): Promise<number> {
  const { store } = await load(loadStore, options, io);
  const target = parseStore(options.to, io.cwd, io.env);
  if ("problem" in target) return fail(`--to ${target.problem}`, exitCodes.usage);
  const problem = refusal(store, target);
  if (problem !== null) fail(problem, exitCodes.usage);
  return locked([store, target], () => copy(store, target, options, io));
}

/** Returns why the pair cannot be copied; null when it can. */
function refusal(source: StoreConfig, target: StoreConfig): string | null {
  if (source.kind === target.kind)
    return source.kind === "sqlite"
      ? "both stores are SQLite: use backup and restore"
      : "both stores are PostgreSQL: use pg_dump and pg_restore";
  const file = source.kind === "sqlite" ? source.file : target.kind === "sqlite" ? target.file : "";
  if (file === ":memory:") return "a store in memory cannot be copied";
  if (source.kind === "sqlite" && !existsSync(file)) return `there is no store ${file}`;
  return existsSync(dirname(file)) ? null : `the folder ${dirname(file)} does not exist`;
}

/** Holds the locks of the SQLite stores. Throws when a daemon runs on one. */
async function locked<T>(stores: readonly StoreConfig[], work: () => Promise<T>): Promise<T> {
  const unlocks: (() => void)[] = [];
  try {
    for (const store of stores) if (store.kind === "sqlite") unlocks.push(lockStore(store.file));
    return await work();
  } finally {
    for (const unlock of unlocks) unlock();
  }
}

const columns: readonly ListColumn<CopiedTable>[] = [
  { head: "TABLE", cell: ({ table }) => table },
  { head: "ROWS", right: true, cell: ({ rows }) => rows },
  { head: "CHECKSUM", cell: ({ checksum }) => checksum },
];

async function copy(from: StoreConfig, to: StoreConfig, options: StoreCopyOptions, io: Io): Promise<number> {
  const opened: Database[] = [];
  const open = async (store: StoreConfig) => {
    const db = await openDatabase({ store }, systemClock, io.timing);
    opened.push(db);
    return db;
  };
  const shows: { progress?: ProgressBar } = {};
  try {
    const source = await open(from);
    await requireSchema(source, options.config);
    const target = await open(to);
    await migrate(target);
    const tables = await copyRows({
      source,
      target,
      targetFile: to.kind === "sqlite" ? to.file : null,
      finish: async (q) => {
        await endLeases(q);
        await loseSessions(q);
      },
      progress: {
        total: (rows) => void (shows.progress = new ProgressBar(io, "copying", rows)),
        table: (name) => shows.progress?.part(name),
        rows: (count) => shows.progress?.add(count),
      },
    });
    shows.progress?.end();
    if (options.json === true) io.out(JSON.stringify({ tables }));
    else
      for (const line of [
        listing(columns, tables, io),
        "all counts and checksums are the same in both stores",
        `next: set the key store of the configuration to ${shown(to, options.to)}, and start the daemon`,
        "no daemon starts on the former store any more: the copy continues its work",
      ])
        io.out(line);
    return exitCodes.ok;
  } finally {
    shows.progress?.end();
    for (const db of opened) await db.close();
  }
}

/** Without the password, which belongs into a reference. */
function shown(store: StoreConfig, written: string): string {
  if (store.kind === "sqlite") return `sqlite:${store.file}`;
  const url = URL.parse(written);
  if (url === null) return written;
  if (url.password !== "") url.password = "********";
  return url.href;
}
