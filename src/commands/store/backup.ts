// bridgehead backup, verify and restore: creates online copies of the SQLite store, checks them, and
// restores them. bridgehead migrate: migrates the store's schema.

import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { openStore } from "../../app.ts";
import { loadStore } from "../../config/index.ts";
import { commandText, shellQuoted } from "../../domain/command-text.ts";
import { counted } from "../../domain/duration-text.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import { createLog } from "../../ops/log.ts";
import { accessRemedy } from "../../ops/private-file.ts";
import { isJournal } from "../../ops/systemd.ts";
import { type Replaced, type StoreSummary } from "../../store/backup.ts";
import { migrations, schemaVersion } from "../../store/migrate.ts";
import type { CarriedOver, RevertedErasure } from "../../store/person/carry-over.ts";
import { answeredBefore } from "../../store/restored.ts";
import { partialCopy, partialRestore, stampOf } from "../../store/sqlite/copies.ts";
import { beforeRemedy, isDamagedStore } from "../../store/sqlite/damaged.ts";
import { lockStore } from "../../store/sqlite/lock.ts";
import { type CommandOptions, exitCodes, fail, type Io } from "../io.ts";
import { clean, when } from "../text.ts";
import { load } from "./open.ts";
import { inThread, withProgress, writtenShare } from "./progress.ts";

type BackupOptions = CommandOptions & { readonly file: string };

/** Copies the configured store, and the database of the embedded platform, to new files while the daemon runs. */
export async function backup(options: BackupOptions, io: Io): Promise<number> {
  const { store, embedded } = await sqliteFiles(options, io, postgresBackup);
  if (!existsSync(store)) fail(`there is no store ${store}`);
  const platform = embedded !== null && existsSync(embedded) ? embedded : null;
  const target = resolve(io.cwd, options.file);
  if (!existsSync(dirname(target)))
    fail(`the folder ${dirname(target)} does not exist: install -d -m 700 -o bridgehead ${dirname(target)}`);
  const summary = await explained(() =>
    withProgress(io, "backing up", 1, (progress) => {
      // The first half is the copy, the second half its verification.
      const { size } = statSync(store);
      progress.measure(() => writtenShare(partialCopy(target), size) / 2);
      return inThread("copyStore", [store, target, platform, io.timing.sqlite.busy], progress);
    }),
  );
  print(summary, target, "backed up to", options, io);
  return exitCodes.ok;
}

const verified = (file: string, io: Io): Promise<StoreSummary> =>
  explained(
    () => withProgress(io, "verifying", 1, (progress) => inThread("verifyStore", [file], progress)),
    "use another backup; if this is the store itself, stop the daemon, keep the file with its -wal beside it, and restore the newest backup",
  );

/** Checks a backup, or a store, completely and reports its defects. Changes nothing. */
export async function verify(options: BackupOptions, io: Io): Promise<number> {
  const file = resolve(io.cwd, options.file);
  const found = await verified(file, io);
  const lost =
    found.missing === null
      ? []
      : [`the copy of the embedded platform is missing: move ${found.missing} back to its place beside ${file}`];
  const newer = await newerPlatform(found);
  const summary = { ...found, problems: [...found.problems, ...lost, ...(newer === null ? [] : [newer])] };
  print(summary, file, "verified", options, io);
  if (summary.problems.length > 0) return exitCodes.damagedStore;
  return summary.schema > migrations.length ? exitCodes.newerSchema : exitCodes.ok;
}

/** Says that a newer version has written the backup's copy of the embedded platform; null when none has. */
async function newerPlatform({ platform }: StoreSummary): Promise<string | null> {
  if (platform === null) return null;
  const { platformFileProblem } = await import("../../platform/index.ts");
  const found = platformFileProblem(platform.file, true);
  return found?.kind === "newer" ? `${platform.file}: ${found.message}` : null;
}

/** Replaces the configured store with a verified backup, and the database of the embedded platform with its copy. Keeps the
 *  former files. Refused while the daemon runs. */
export async function restore(options: BackupOptions, io: Io): Promise<number> {
  const { store, embedded } = await sqliteFiles(options, io, postgresRestore);
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
  const newer = embedded === null ? null : await newerPlatform(summary);
  if (newer !== null) fail(newer, exitCodes.newerSchema);
  // The store is replaced first: a platform with more conversations than the store refers to is harmless.
  const files = [{ from: source, to: store, size: summary.size }];
  const platform = embedded === ":memory:" ? null : summary.platform;
  if (platform !== null && embedded !== null) files.push({ from: platform.file, to: embedded, size: platform.size });
  const unlocks: (() => void)[] = [];
  try {
    for (const { to } of files) unlocks.push(await explained(async () => lockStore(to)));
    const replaced: Replaced[] = [];
    const now = clock.now();
    for (const { from, to, size } of files)
      replaced.push(
        await explained(() =>
          withProgress(io, "restoring", 1, (progress) => {
            progress.measure(() => writtenShare(partialRestore(to), size));
            return inThread("replaceStore", [from, to, stampOf(now), now, io.timing.sqlite.busy], progress);
          }),
        ),
      );
    const carried = replaced[0]?.carried ?? null;
    print(summary, store, "restored to", options, io, { carried });
    if (options.json === true) return exitCodes.ok;
    if (files[1] !== undefined) io.out(`restored the embedded platform to ${files[1].to}`);
    else if (embedded !== null && summary.missing !== null)
      io.err(`${summary.missing} is missing, with which the backup was made: ${embedded} is unchanged`);
    else if (embedded !== null) io.out(`the backup has no copy of the embedded platform: ${embedded} is unchanged`);
    const asides = replaced.flatMap(({ aside }) => aside ?? []);
    for (const aside of asides) io.out(`the former file is kept as ${aside}`);
    io.out(
      `at the next start everything that may have been answered since the backup is held: ${commandText(`inbox list --code ${answeredBefore}`, options.config)}`,
    );
    if (carried !== null) printCarried(carried, asides.length > 0, options, io);
    if (asides.length > 0)
      io.out(
        "retention and erase do not change the former files: delete them when you no longer need them; the daemon does it after retention.raw",
      );
  } finally {
    for (const unlock of unlocks) unlock();
  }
  return exitCodes.ok;
}

/** Prints what was taken over from the former store, what is lost, and which erasures are to be repeated. */
function printCarried(
  { optOuts, lifted, pauses, erasures, lost }: CarriedOver,
  isReplaced: boolean,
  { config }: CommandOptions,
  io: Io,
): void {
  if (lost.length > 0)
    io.err(
      `${isReplaced ? "the former store cannot be read" : "there was no former store"}: ${lost.join(", ")} made since the backup are lost; repeat those that you know before you start the daemon`,
    );
  if (optOuts + lifted + pauses > 0)
    io.out(
      `taken over from the former store: ${counted(optOuts, "opt-out")} and ${counted(pauses, "pause")} made since the backup, ${counted(lifted, "opt-out")} lifted or erased since`,
    );
  const repeated = new Map<string, RevertedErasure>();
  for (const one of erasures) if (one.addresses.length > 0) repeated.set(one.addresses.join(" "), one);
  for (const { erasedAt, actor, addresses } of repeated.values())
    io.err(
      `erased since the backup, and in the store again (erased ${when(erasedAt)} UTC by ${actor}): repeat it before you start the daemon: ${commandText(`erase ${addresses.map((one) => `--person ${shellQuoted(clean(one))}`).join(" ")}`, config)}`,
    );
  const others = erasures.filter(({ addresses }) => addresses.length === 0).length;
  if (others > 0)
    io.err(
      `${counted(others, "other erasure")} since the backup: the restored store contains no person with these addresses, but texts of others may mention them; repeat these, too`,
    );
}

const postgresBackup =
  "the store is PostgreSQL: back it up with pg_dump --format=custom --file=FILE DATABASE, or with your server's own backups";
const postgresRestore =
  "the store is PostgreSQL: stop every daemon, run pg_restore --clean --if-exists --dbname=DATABASE FILE, and start again; a store restored so is recognized at the start; opt-outs, pauses and erasures made since the dump are not in it";

/** Returns the paths of the configured store, and of the database of the embedded platform. */
async function sqliteFiles(
  options: BackupOptions,
  io: Io,
  otherwise: string,
): Promise<{ readonly store: string; readonly embedded: string | null }> {
  const { store, embedded } = await load(loadStore, options, io);
  if (store.kind !== "sqlite")
    return fail(
      embedded === null
        ? otherwise
        : `${otherwise}; the embedded platform is not in it: stop the daemon and copy ${embedded}, too`,
    );
  if (store.file === ":memory:") return fail("the store is kept in memory only");
  return { store: store.file, embedded };
}

/** Fails with one line for an error that an operator can fix. `remedy`: that of a damaged file which may be a backup. */
async function explained<T>(work: () => Promise<T>, remedy?: string): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code, message, path } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return fail(`there is no file ${path ?? ""}`.trimEnd());
    const own = path === undefined ? undefined : accessRemedy(code ?? "", path);
    if (!isDamagedStore(error)) return fail(own === undefined ? message : `${message} (${own})`);
    const [problem] = message.split(beforeRemedy);
    return fail(remedy === undefined ? message : `${problem}${beforeRemedy}${remedy}`, exitCodes.damagedStore);
  }
}

function print(
  summary: StoreSummary,
  file: string,
  did: string,
  options: BackupOptions,
  io: Io,
  more: Readonly<Record<string, unknown>> = {},
): void {
  if (options.json === true) {
    io.out(JSON.stringify({ file, ...summary, ...more }));
    return;
  }
  const { schema, size, newest, counts, platform, problems } = summary;
  const last = newest === null ? "no events" : `newest event ${when(newest)} UTC`;
  io.out(`${did} ${file}: schema ${schema}, ${size} bytes, ${last}`);
  const rows = Object.entries(counts).map(([name, count]) => `${name}: ${count}`);
  if (rows.length > 0) io.out(rows.join(", "));
  if (platform !== null && did !== "restored to") io.out(`embedded platform: ${platform.file}, ${platform.size} bytes`);
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
  const { db, unlock } = await openStore(await load(loadStore, options, io), clock, log, io.timing);
  try {
    io.out(`schema ${await schemaVersion(db)}: up to date`);
  } finally {
    await db.close();
    unlock();
  }
  return exitCodes.ok;
}
