// bridgehead backup, verify and restore: creates online copies of the SQLite store, checks them, and
// restores them. bridgehead migrate: migrates the store's schema.

import { existsSync, mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { openStore } from "../../app.ts";
import { loadStore } from "../../config/index.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import { createLog } from "../../ops/log.ts";
import { isJournal } from "../../ops/systemd.ts";
import { partialCopy, partialRestore, type StoreSummary, stampOf } from "../../store/backup.ts";
import { migrations, schemaVersion } from "../../store/migrate.ts";
import { answeredBefore } from "../../store/restored.ts";
import { isDamagedStore } from "../../store/sqlite/damaged.ts";
import { lockStore } from "../../store/sqlite/lock.ts";
import { type CommandOptions, exitCodes, fail, type Io } from "../io.ts";
import { when } from "../text.ts";
import { load } from "./open.ts";
import { inThread, withProgress, writtenShare } from "./progress.ts";

type BackupOptions = CommandOptions & { readonly file: string };

/** Copies the configured store to a new file while the daemon runs. */
export async function backup(options: BackupOptions, io: Io): Promise<number> {
  const store = await sqliteFile(options, io, postgresBackup);
  if (!existsSync(store)) fail(`there is no store ${store}`);
  const target = resolve(io.cwd, options.file);
  if (!existsSync(dirname(target))) fail(`the folder ${dirname(target)} does not exist`);
  const summary = await explained(() =>
    withProgress(io, "backing up", 1, (progress) => {
      // The first half is the copy, the second half its verification.
      const { size } = statSync(store);
      progress.measure(() => writtenShare(partialCopy(target), size) / 2);
      return inThread("copyStore", [store, target], progress);
    }),
  );
  print(summary, target, "backed up to", options, io);
  return exitCodes.ok;
}

const verified = (file: string, io: Io): Promise<StoreSummary> =>
  explained(() => withProgress(io, "verifying", 1, (progress) => inThread("verifyStore", [file], progress)));

/** Checks a backup, or a store, completely and reports its defects. Changes nothing. */
export async function verify(options: BackupOptions, io: Io): Promise<number> {
  const file = resolve(io.cwd, options.file);
  const summary = await verified(file, io);
  print(summary, file, "verified", options, io);
  if (summary.problems.length > 0) return exitCodes.damagedStore;
  return summary.schema > migrations.length ? exitCodes.newerSchema : exitCodes.ok;
}

/** Replaces the configured store with a verified backup and keeps the former one. Refused while the
 *  daemon runs. */
export async function restore(options: BackupOptions, io: Io): Promise<number> {
  const store = await sqliteFile(options, io, postgresRestore);
  const source = resolve(io.cwd, options.file);
  if (existsSync(store) && existsSync(source) && realpathSync(store) === realpathSync(source))
    fail(`${source} is the store itself; name a backup`);
  const summary = await verified(source, io);
  if (summary.problems.length > 0) {
    print(summary, source, "verified", options, io);
    return exitCodes.damagedStore;
  }
  if (summary.schema > migrations.length)
    fail(
      `${source} has schema ${summary.schema}, this version knows up to ${migrations.length}`,
      exitCodes.newerSchema,
    );
  mkdirSync(dirname(store), { recursive: true, mode: 0o700 });
  const unlock = await explained(async () => lockStore(store));
  try {
    const aside = await explained(() =>
      withProgress(io, "restoring", 1, (progress) => {
        progress.measure(() => writtenShare(partialRestore(store), summary.size));
        return inThread("replaceStore", [source, store, stampOf(clock.now())], progress);
      }),
    );
    print(summary, store, "restored to", options, io);
    if (options.json === true) return exitCodes.ok;
    if (aside !== null) io.out(`the former store is kept as ${aside}`);
    io.out(
      `at the next start everything that may have been answered since the backup is held: bridgehead inbox list --code ${answeredBefore}`,
    );
  } finally {
    unlock();
  }
  return exitCodes.ok;
}

const postgresBackup =
  "the store is PostgreSQL: back it up with pg_dump --format=custom --file=FILE DATABASE, or with your server's own backups";
const postgresRestore =
  "the store is PostgreSQL: stop every daemon, run pg_restore --clean --if-exists --dbname=DATABASE FILE, and start again; a store restored so is recognized at the start";

/** Returns the path of the configured store. */
async function sqliteFile(options: BackupOptions, io: Io, otherwise: string): Promise<string> {
  const { store } = await load(loadStore, options, io);
  if (store.kind !== "sqlite") return fail(otherwise);
  return store.file === ":memory:" ? fail("the store is kept in memory only") : store.file;
}

/** Fails with one line for an error that an operator can fix. */
async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code, message, path } = error as NodeJS.ErrnoException;
    return fail(
      code === "ENOENT" ? `there is no file ${path ?? ""}`.trimEnd() : message,
      isDamagedStore(error) ? exitCodes.damagedStore : exitCodes.failed,
    );
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
  const rows = Object.entries(counts).map(([name, count]) => `${name}: ${count}`);
  if (rows.length > 0) io.out(rows.join(", "));
  for (const problem of problems) io.out(`problem: ${problem}`);
  if (problems.length === 0 && did === "verified") io.out("no problems found");
}

/** Migrates the store's schema. `run` does the same at its start; this command lets operators migrate before it
 *  and see the result. */
export async function migrateStore(options: Pick<BackupOptions, "config">, io: Io): Promise<number> {
  const log = createLog({
    level: "info",
    format: "text",
    out: { write: io.err },
    clock,
    journal: isJournal(io.env["JOURNAL_STREAM"], 2),
  });
  const { db, unlock } = await openStore(await load(loadStore, options, io), clock, log);
  try {
    io.out(`schema ${await schemaVersion(db)}: up to date`);
  } finally {
    await db.close();
    unlock();
  }
  return exitCodes.ok;
}
