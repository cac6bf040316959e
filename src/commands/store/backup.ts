// bridgehead backup, verify and restore: creates online copies of the SQLite store, checks them, and
// restores them. bridgehead migrate: migrates the store's schema.

import { existsSync, mkdirSync, realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { openStore } from "../../app.ts";
import { loadStore } from "../../config/index.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import { createLog } from "../../ops/log.ts";
import { isJournal } from "../../ops/systemd.ts";
import { copyStore, replaceStore, type StoreSummary, stampOf, verifyStore } from "../../store/backup.ts";
import { migrations, schemaVersion } from "../../store/migrate.ts";
import { answeredBefore } from "../../store/restored.ts";
import { isDamagedStore } from "../../store/sqlite/damaged.ts";
import { lockStore } from "../../store/sqlite/lock.ts";
import type { Command, Io } from "../io.ts";
import { exitCodes, problemLine } from "../io.ts";
import { when } from "../text.ts";

export interface BackupOptions {
  readonly config: string;
  readonly file: string;
  readonly json?: boolean;
}

/** Copies the configured store to a new file while the daemon runs. */
export const backup: Command<BackupOptions> = {
  async run(options, io) {
    const store = await sqliteFile(options, io, postgresBackup);
    if (typeof store === "number") return store;
    if (!existsSync(store)) {
      io.err(`there is no store ${store}`);
      return exitCodes.failed;
    }
    const target = resolve(io.cwd, options.file);
    if (!existsSync(dirname(target))) {
      io.err(`the folder ${dirname(target)} does not exist`);
      return exitCodes.failed;
    }
    return guarded(io, () => {
      print(copyStore(store, target), target, "backed up to", options, io);
      return exitCodes.ok;
    });
  },
};

/** Checks a backup, or a store, completely and reports its defects. Changes nothing. */
export const verify: Command<BackupOptions> = {
  run: async (options, io) =>
    guarded(io, () => {
      const file = resolve(io.cwd, options.file);
      const summary = verifyStore(file);
      print(summary, file, "verified", options, io);
      if (summary.problems.length > 0) return exitCodes.damagedStore;
      return summary.schema > migrations.length ? exitCodes.newerSchema : exitCodes.ok;
    }),
};

/** Replaces the configured store with a verified backup and keeps the former one. Refused while the
 *  daemon runs. */
export const restore: Command<BackupOptions> = {
  async run(options, io) {
    const store = await sqliteFile(options, io, postgresRestore);
    if (typeof store === "number") return store;
    const source = resolve(io.cwd, options.file);
    return guarded(io, () => {
      if (existsSync(store) && existsSync(source) && realpathSync(store) === realpathSync(source)) {
        io.err(`${source} is the store itself; name a backup`);
        return exitCodes.failed;
      }
      const summary = verifyStore(source);
      if (summary.problems.length > 0) {
        print(summary, source, "verified", options, io);
        return exitCodes.damagedStore;
      }
      if (summary.schema > migrations.length) {
        io.err(`${source} has schema ${summary.schema}, this version knows up to ${migrations.length}`);
        return exitCodes.newerSchema;
      }
      mkdirSync(dirname(store), { recursive: true, mode: 0o700 });
      const unlock = lockStore(store);
      try {
        const aside = replaceStore(source, store, stampOf(clock.now()));
        print(summary, store, "restored to", options, io);
        if (options.json !== true) {
          if (aside !== null) io.out(`the former store is kept as ${aside}`);
          io.out(
            `at the next start everything that may have been answered since the backup is held: bridgehead inbox list --code ${answeredBefore}`,
          );
        }
      } finally {
        unlock();
      }
      return exitCodes.ok;
    });
  },
};

const postgresBackup =
  "the store is PostgreSQL: back it up with pg_dump --format=custom --file=FILE DATABASE, or with your server's own backups";
const postgresRestore =
  "the store is PostgreSQL: stop every daemon, run pg_restore --clean --if-exists --dbname=DATABASE FILE, and start again; a store restored so is recognized at the start";

/** Returns the path of the configured store, or the exit code. */
async function sqliteFile(options: BackupOptions, io: Io, otherwise: string): Promise<string | number> {
  const loaded = await loadStore(resolve(io.cwd, options.config), { env: io.env });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    return exitCodes.config;
  }
  if (loaded.store.kind === "sqlite" && loaded.store.file !== ":memory:") return loaded.store.file;
  io.err(loaded.store.kind === "sqlite" ? "the store is kept in memory only" : otherwise);
  return exitCodes.failed;
}

/** Prints errors that an operator can fix as one line, and returns their exit code. */
function guarded(io: Io, work: () => number): number {
  try {
    return work();
  } catch (error) {
    const { code, message, path } = error as NodeJS.ErrnoException;
    io.err(code === "ENOENT" ? `there is no file ${path ?? ""}`.trimEnd() : message);
    return isDamagedStore(error) ? exitCodes.damagedStore : exitCodes.failed;
  }
}

function print(summary: StoreSummary, file: string, did: string, options: BackupOptions, io: Io): void {
  if (options.json === true) {
    io.out(JSON.stringify({ file, ...summary }));
    return;
  }
  const { schema, size, newest, counts, problems } = summary;
  const last = newest === null ? "no events" : `newest event ${when(newest)} UTC`;
  io.out(`${did} ${file}: schema ${schema}, ${size} bytes, ${last}`);
  const rows = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  if (rows.length > 0) io.out(rows.join(", "));
  for (const problem of problems) io.out(`problem: ${problem}`);
  if (problems.length === 0 && did === "verified") io.out("no problems found");
}

/** Migrates the store's schema. `run` does the same at its start; this command lets operators migrate before it
 *  and see the result. */
export const migrate: Command<Pick<BackupOptions, "config">> = {
  async run(options, io) {
    const loaded = await loadStore(resolve(io.cwd, options.config), { env: io.env });
    if (!loaded.ok) {
      for (const problem of loaded.problems) io.err(problemLine(problem));
      return exitCodes.config;
    }
    const log = createLog({
      level: "info",
      format: "text",
      out: { write: io.err },
      clock,
      journal: isJournal(io.env["JOURNAL_STREAM"], 2),
    });
    const { db, unlock } = await openStore(loaded, clock, log);
    try {
      io.out(`schema ${await schemaVersion(db)}: up to date`);
    } finally {
      await db.close();
      unlock();
    }
    return exitCodes.ok;
  },
};
