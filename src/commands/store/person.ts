// bridgehead erase and bridgehead export: one person's data. Both work while the daemon runs.

import { closeSync, existsSync, mkdirSync, openSync, readdirSync, statSync, writeFileSync, writeSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { loadAdapter } from "../../channels/loader.ts";
import { type Config, loadPolicy } from "../../config/index.ts";
import { counted } from "../../domain/duration-text.ts";
import { systemClock } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import { startable } from "../../pipeline/channel-runtime.ts";
import type { Database } from "../../store/driver.ts";
import { countInFlight, type ErasedRows, erasePerson, erasureParts } from "../../store/person/erase.ts";
import { exportPerson } from "../../store/person/export.ts";
import { findPerson, type PersonRecords } from "../../store/person/find.ts";
import { type FilesSearched, vacuumPostgres } from "../../store/person/finish.ts";
import { type ErasureOrder, recordDeleted } from "../../store/person/ledger.ts";
import { eraseInColumns } from "../../store/person/mentions.ts";
import { copiesOf } from "../../store/sqlite/copies.ts";
import { lockStore } from "../../store/sqlite/lock.ts";
import { openSqlite } from "../../store/sqlite.ts";
import { addressesOf } from "../doctor/stored.ts";
import { type CommandOptions, exitCodes, fail, type Io } from "../io.ts";
import { addressFor } from "../start.ts";
import { operatorOf } from "../text.ts";
import { load, useStore } from "./open.ts";
import { platformUsers, requireDeleted } from "./platform-users.ts";
import { inThread, type ProgressBar, withProgress } from "./progress.ts";

interface PersonOptions extends CommandOptions {
  /** Addresses and numbers of one person. */
  readonly person: readonly string[];
  /** erase: also deletes the person on the platform. */
  readonly platform?: boolean;
  /** erase: folders with backups to search. */
  readonly backups?: readonly string[];
}

export async function erasePersonData(options: PersonOptions, io: Io): Promise<number> {
  const folders = backupFolders(options.backups ?? [], io.cwd);
  const found = await loadPerson(options, io);
  return useStore(found.loaded, io, async (db) => {
    const find = () => db.read((q) => findPerson(q, found.addresses));
    refuseOwn(await find(), found);
    const { store, embedded } = found.loaded;
    const deleteUsers = options.platform === true && embedded === null ? await platformUsers(options, io) : null;
    const unlock = store.kind === "sqlite" ? tryLock(store.file) : null;
    try {
      // The daemon writes the outcome of what it does now; an answer to an erased question is dropped.
      if (unlock === null) await untilIdle(db, await find(), io);
      const records = await find();
      // The platform first: when it fails, the store still has everything that a repetition needs.
      const before = deleteUsers === null ? null : await deleteUsers(records.platform);
      if (before !== null) requireDeleted(before);
      const places = { store, embedded, folders, isLocked: unlock !== null, timing: io.timing };
      const order = { actor: operatorOf(io), deleted: before?.conversations ?? [] };
      const erased = await withProgress(io, "erasing", erasureParts(records) + 1, (progress) =>
        eraseEverywhere(db, records, places, order, progress),
      );
      // A running daemon may have opened conversations in the meantime.
      const { platform: opened } = await db.read((q) => findPerson(q, records.addresses));
      const after = deleteUsers === null || opened.length === 0 ? null : await deleteUsers(opened);
      if (after !== null) await db.tx((q) => recordDeleted(q, records.addresses, after.conversations));
      const platform = before && { deleted: before.deleted + (after?.deleted ?? 0), failed: after?.failed ?? [] };
      const result = { ...erased, probable: records.probable, platform };
      if (options.json === true) io.out(JSON.stringify(result));
      else print(result, { kind: store.kind, open: opened.length, isSearched: folders.length > 0 }, io);
      return isComplete(result) ? exitCodes.ok : exitCodes.failed;
    } finally {
      unlock?.();
    }
  });
}

/** Returns the absolute paths. Fails when one is no folder, because its backups would count as searched. */
function backupFolders(folders: readonly string[], cwd: string): string[] {
  const paths = folders.map((folder) => resolve(cwd, folder));
  const wrong = paths.find((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true);
  if (wrong !== undefined) fail(`there is no folder ${wrong}: correct --backups; nothing was erased`);
  return paths;
}

/** False when something of the person remains that a repetition erases. */
function isComplete({ late, searched, embedded, platform }: Erasure): boolean {
  const remaining = (searched?.remaining ?? 0) + (embedded?.remaining ?? 0);
  const failed = platform?.failed.length ?? 0;
  return late + remaining + failed === 0 && embedded?.problem === undefined;
}

/** Refuses to erase what the configuration names. */
function refuseOwn({ addresses }: PersonRecords, { own, responders }: FoundPerson): void {
  const channel = addresses.find((address) => own.includes(address));
  if (channel !== undefined) fail(`${channel} is the address of a channel: name an address of the person`);
  const responder = addresses.find((address) => responders.includes(address));
  if (responder !== undefined)
    fail(`${responder} is a responder: remove it from escalation.responders first, and reload the daemon`);
}

interface ErasedPlaces {
  readonly store: Config["store"];
  /** Database of the embedded platform. */
  readonly embedded: string | null;
  /** Folders with backups to search. */
  readonly folders: readonly string[];
  /** True when no daemon runs, so that whole files may be written again. */
  readonly isLocked: boolean;
  readonly timing: Timing;
}

/** Erases the person from the store, its files and the embedded platform, and searches the backups. */
async function eraseEverywhere(
  db: Database,
  records: PersonRecords,
  { store, embedded, folders, isLocked, timing }: ErasedPlaces,
  order: ErasureOrder,
  progress: ProgressBar,
) {
  const { addresses } = records;
  const { busy } = timing.sqlite;
  const { rows, kept } = await erasePerson(db, records, () => progress.add(1), timing, order);
  const late = (await db.read((q) => findPerson(q, addresses))).events.length;
  progress.part("searching the files");
  const file = store.kind === "sqlite" ? store.file : null;
  const searched =
    file === null ? null : await inThread("finishFile", [file, addresses, isLocked, kept, busy], progress);
  if (store.kind === "postgres") await vacuumPostgres(store.url);
  const platformFile =
    embedded === null ? null : await eraseEmbedded(embedded, records, { isLocked, timing }, progress);
  const found: string[] = [];
  const live = [file, embedded].flatMap((one) => (one !== null && existsSync(one) ? [one] : []));
  for (const path of backupsOf(live, file === null ? [] : folders))
    if ((await inThread("countInFile", [path, addresses, kept], progress)) > 0) found.push(path);
  const copies = (await Promise.all(live.map(copiesOf))).flat().map(({ path }) => path);
  return { rows, late, searched, backups: found, copies, embedded: platformFile };
}

interface FoundPerson {
  readonly loaded: Awaited<ReturnType<typeof load<Awaited<ReturnType<typeof loadPolicy>>>>>;
  /** As the operator writes them, and their canonical forms. */
  readonly addresses: readonly string[];
  readonly responders: readonly string[];
  /** Addresses of the channels. */
  readonly own: readonly string[];
}

/** An address of a chat that is no word or number of other people's texts, in which it is erased. */
const distinctive = /[@+:]|^(?=.*\p{L}).{8,}$/u;

function wholeAddress(foreign: readonly { readonly name: string }[]): string {
  const known = "write a whole email address, or a number with its country code (+15550111)";
  if (foreign.length === 0) return known;
  const names = [...new Set(foreign.map(({ name }) => name))].join(", ");
  return `${known}, or an address of ${names} with a prefix, or with at least 8 characters, one of them a letter`;
}

async function loadPerson(options: PersonOptions, io: Io): Promise<FoundPerson> {
  const loaded = await load(loadPolicy, options, io);
  const builtIn = await Promise.all(["email", "sms"].map((name) => loadAdapter(name, dirname(loaded.file))));
  const foreign = loaded.written.map(({ adapter }) => adapter).filter(({ traits }) => !startable(traits.platform));
  const canonical = options.person.flatMap((one) => {
    const forms = builtIn.flatMap((adapter) => adapter.address?.(one) ?? []);
    const others = foreign.flatMap((adapter) => addressFor(adapter, one) ?? []);
    // A short code is the number of a service, and digits alone stand in many texts.
    if (!forms.some((form) => /[@+:]/.test(form)) && !others.some((form) => distinctive.test(form)))
      fail(`--person ${JSON.stringify(one)} is no complete address: ${wholeAddress(foreign)}`, exitCodes.usage);
    return [...forms, ...others];
  });
  const responders = [...(loaded.policy?.responders.values() ?? [])].flatMap(({ email, sms }) =>
    [email, sms].flatMap((one) => one?.toLowerCase() ?? []),
  );
  const own = loaded.written.flatMap((one) => addressesOf(one));
  return { loaded, addresses: [...options.person, ...canonical], responders, own };
}

/** Locks an SQLite store; null when a daemon has the lock. */
function tryLock(file: string): (() => void) | null {
  try {
    return lockStore(file);
  } catch {
    return null;
  }
}

/** Waits for questions that are being asked and replies that are being sent, a limited time. */
async function untilIdle(db: Database, records: PersonRecords, io: Io): Promise<void> {
  const { inFlight, inFlightCheck } = io.timing.commands;
  const began = systemClock.monotonic();
  while (!io.signal.aborted && systemClock.monotonic() - began < inFlight) {
    if ((await db.read((q) => countInFlight(q, records))) === 0) return;
    await systemClock.sleep(inFlightCheck, io.signal);
  }
}

/** Returns the files that may be backups of these databases: next to them, and in the given folders. */
function backupsOf(files: readonly string[], folders: readonly string[]): string[] {
  const beside = files.flatMap((file) =>
    readdirSync(dirname(file))
      .filter((name) => name.startsWith(`${basename(file)}.before-`) && !name.endsWith("-shm"))
      .map((name) => join(dirname(file), name)),
  );
  const others = folders
    .flatMap((folder) => readdirSync(folder, { withFileTypes: true, recursive: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return [...new Set([...beside, ...others])].sort();
}

interface ErasedFile {
  readonly file: string;
  readonly users: number;
  /** Where the addresses still stand in the file and its log. */
  readonly remaining: number;
  /** Why the file could not be changed. */
  readonly problem?: string;
}

/** Deletes the person in the file of the embedded platform, and replaces the addresses in texts of other people. */
async function eraseEmbedded(
  file: string,
  records: PersonRecords,
  { isLocked, timing }: Pick<ErasedPlaces, "isLocked" | "timing">,
  progress: ProgressBar,
): Promise<ErasedFile | null> {
  if (!existsSync(file)) return null;
  try {
    const { deleteUsers } = await import("../../platform/index.ts");
    const ids = records.platform.map(({ id }) => id);
    const users = await deleteUsers(file, [...records.addresses, ...ids]);
    const kept = new Set<string>();
    const db = openSqlite(file, () => systemClock.now(), { timing: timing.sqlite });
    try {
      await eraseInColumns(db, records.addresses, kept);
    } finally {
      await db.close();
    }
    const given = [file, records.addresses, isLocked, kept, timing.sqlite.busy] as const;
    const { remaining } = await inThread("finishFile", [...given], progress);
    return { file, users, remaining };
  } catch (error) {
    return { file, users: 0, remaining: 0, problem: (error as Error).message };
  }
}

interface Erasure {
  readonly rows: ErasedRows;
  readonly late: number;
  readonly searched: FilesSearched | null;
  /** Files that still contain an address. */
  readonly backups: readonly string[];
  /** The copies next to the databases. */
  readonly copies: readonly string[];
  readonly probable: readonly string[];
  readonly platform: { readonly deleted: number; readonly failed: readonly string[] } | null;
  /** Null when the platform is elsewhere, or has no file yet. */
  readonly embedded: ErasedFile | null;
}

interface ErasureNotes {
  readonly kind: "sqlite" | "postgres";
  /** Number of the person's conversations on the platform after the erasure. */
  readonly open: number;
  /** True when folders with backups were named. */
  readonly isSearched: boolean;
}

function print(result: Erasure, { kind, open, isSearched }: ErasureNotes, io: Io): void {
  const { rows, late, searched, backups, copies, probable, platform, embedded } = result;
  io.out(
    `erased: ${Object.entries(rows)
      .map(([name, count]) => `${count} ${name}`)
      .join(", ")}`,
  );
  if (rows.suppressions > 0) io.out("opt-outs stay, as keyed hashes: the person still gets nothing");
  if (late > 0)
    io.out(`${late} messages have arrived from this address since the erasure: run this again to erase them`);
  if (searched !== null && searched.remaining === 0) io.out("a search of the store and its log finds nothing");
  if (searched !== null && searched.remaining > 0)
    io.out(
      `the address still stands in the store's files ${searched.remaining} times: stop the daemon and run this again`,
    );
  if (searched?.isLogEmpty === false) io.out("the write-ahead log is in use; the daemon empties it");
  if (kind === "postgres")
    io.out(
      "PostgreSQL: the rows are vacuumed; old bytes stay in its files, its WAL, replicas and dumps until they are overwritten or deleted",
    );
  if (kind === "postgres" && isSearched) io.out("--backups is not searched: dumps of PostgreSQL are compressed");
  for (const path of backups) io.out(`a backup still contains the address: ${path}`);
  const others = copies.filter((path) => !backups.includes(path));
  for (const path of others) io.out(`a copy of the store remains, in which the address is not found: ${path}`);
  if (copies.length > 0)
    io.out(
      "copies beside the store may contain texts of the person: delete them, or the daemon does it after retention.raw",
    );
  if (probable.length > 0)
    io.out(
      `${probable.length} other addresses have the same name, perhaps the same person: look with find, then erase with --person for each`,
    );
  if (embedded !== null) printEmbedded(embedded, io);
  else if (platform === null)
    io.out(
      open === 0
        ? "the platform has no conversations of this person"
        : `the platform still has ${counted(open, "conversation")}: delete them with --platform, or on the platform`,
    );
  else io.out(`platform: ${counted(platform.deleted, "user")} deleted with all conversations`);
  for (const line of platform?.failed ?? []) io.err(`not deleted on the platform: ${line}: run this again`);
  io.out("not erased: the mailbox, the logs of the providers, and file systems or disks that keep old blocks");
}

function printEmbedded({ file, users, remaining, problem }: ErasedFile, io: Io): void {
  if (problem !== undefined)
    io.err(`the embedded platform still has the person: ${file} cannot be changed (${problem}): run this again`);
  else io.out(`embedded platform: ${users} users deleted in ${file} with their conversations`);
  if (remaining > 0)
    io.err(
      `the address still stands ${remaining} times in ${file}: stop the daemon and run this again; an address in a document of an agent is removed with the document`,
    );
}

/** Writes `data.jsonl`, and the raw messages and files next to it, into a new folder with mode 0700. */
export async function exportPersonData(options: PersonOptions & { readonly to: string }, io: Io): Promise<number> {
  const folder = resolve(io.cwd, options.to);
  if (existsSync(folder)) fail(`${folder} exists; name a new folder`);
  if (!existsSync(dirname(folder))) fail(`the folder ${dirname(folder)} does not exist`);
  const { loaded, addresses } = await loadPerson(options, io);
  return useStore(loaded, io, async (db) => {
    const records = await db.read((q) => findPerson(q, addresses));
    mkdirSync(folder, { mode: 0o700 });
    const lines = openSync(join(folder, "data.jsonl"), "wx", 0o600);
    let [rows, files] = [0, 0];
    try {
      await withProgress(io, "exporting", records.conversations.length, async (progress) => {
        for await (const one of exportPerson((work) => db.read(work), records)) {
          if (one.kind === "row") {
            writeSync(lines, `${JSON.stringify({ table: one.table, ...one.row })}\n`);
            rows += 1;
            if (one.table === "conversations") progress.add(1);
          } else {
            writeFileSync(join(folder, one.name), one.bytes, { mode: 0o600, flag: "wx" });
            files += 1;
          }
        }
      });
    } finally {
      closeSync(lines);
    }
    if (options.json === true) io.out(JSON.stringify({ folder, rows, files, probable: records.probable }));
    else {
      io.out(`exported to ${folder}: ${rows} rows in data.jsonl, ${files} files`);
      if (records.probable.length > 0)
        io.out(`${records.probable.length} other addresses have the same name, perhaps the same person`);
    }
    return exitCodes.ok;
  });
}
