// bridgehead erase and bridgehead export: one person's data. Both work while the daemon runs.

import { closeSync, existsSync, mkdirSync, openSync, readdirSync, writeFileSync, writeSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { loadAdapter } from "../../channels/loader.ts";
import { createClient } from "../../client/index.ts";
import { type Config, loadConfig, loadPolicy } from "../../config/index.ts";
import { systemClock } from "../../ops/clock.ts";
import { standardTiming } from "../../ops/timing.ts";
import type { Database } from "../../store/driver.ts";
import { countInFlight, type ErasedRows, erasePerson, erasureParts } from "../../store/person/erase.ts";
import { exportPerson } from "../../store/person/export.ts";
import { findPerson, type PersonRecords } from "../../store/person/find.ts";
import { finishFile, vacuumPostgres } from "../../store/person/finish.ts";
import { countInFile, eraseInColumns } from "../../store/person/mentions.ts";
import { lockStore } from "../../store/sqlite/lock.ts";
import { openSqlite } from "../../store/sqlite.ts";
import { addressesOf } from "../doctor/stored.ts";
import { type Command, exitCodes, type Io, problemLine } from "../io.ts";
import { useStore } from "./open.ts";
import { startProgress } from "./progress.ts";

interface PersonOptions {
  readonly config: string;
  /** Addresses and numbers of one person. */
  readonly person: readonly string[];
  readonly json?: boolean;
}

interface EraseOptions extends PersonOptions {
  /** Also deletes the person on the platform. */
  readonly platform?: boolean;
  /** Folders with backups to search. */
  readonly backups?: readonly string[];
}

const { inFlight, inFlightCheck } = standardTiming.commands;

export const erase: Command<EraseOptions> = {
  async run(options, io) {
    return withPerson(options, io, async (db, records, { store, responders, own, embedded }) => {
      const channel = records.addresses.find((address) => own.includes(address));
      if (channel !== undefined) {
        io.err(`${channel} is the address of a channel: name an address of the person`);
        return exitCodes.failed;
      }
      const responder = records.addresses.find((address) => responders.includes(address));
      if (responder !== undefined) {
        io.err(
          `${responder} is a responder: remove it from escalation.responders first, and reload the daemon`,
        );
        return exitCodes.failed;
      }
      const users =
        options.platform === true && embedded === null ? await platformUsers(options, records, io) : null;
      if (typeof users === "number") return users;
      const file = store.kind === "sqlite" ? store.file : null;
      const unlock = file === null ? null : tryLock(file);
      try {
        // The daemon writes the outcome of what it does now; an answer to an erased question is dropped.
        if (unlock === null) await untilIdle(db, records, io);
        const progress = startProgress(io, "erasing", erasureParts(records) + 1);
        try {
          const { rows, kept } = await erasePerson(db, records, () => progress.add(1));
          const after = await db.read((q) => findPerson(q, records.addresses));
          const late = after.events.length;
          progress.part("searching the files");
          const searched = file === null ? null : finishFile(file, records.addresses, unlock !== null, kept);
          if (store.kind === "postgres") await vacuumPostgres(store.url);
          const platformFile =
            embedded === null
              ? null
              : await eraseEmbedded(embedded, records, unlock !== null && file !== null);
          const backups =
            file === null ? [] : backupsWith(file, records.addresses, kept, options.backups ?? [], io.cwd);
          progress.end();
          const deleted = users === null ? null : await deleteRemote(users, io);
          const result = {
            rows,
            late,
            searched,
            backups,
            probable: records.probable,
            platform: deleted,
            embedded: platformFile,
          };
          if (options.json === true) io.out(JSON.stringify(result));
          else print(result, records, store.kind, io);
          const isLeft = (searched?.remaining ?? 0) > 0 || (platformFile?.remaining ?? 0) > 0;
          const isFailed = (isLeft && late === 0) || platformFile?.problem !== undefined;
          return isFailed ? exitCodes.failed : exitCodes.ok;
        } finally {
          progress.end();
        }
      } finally {
        unlock?.();
      }
    });
  },
};

/** Opens the store and finds the person. Prints when there is nothing. */
async function withPerson(
  options: PersonOptions,
  io: Io,
  work: (
    db: Database,
    records: PersonRecords,
    about: {
      readonly store: Config["store"];
      readonly responders: readonly string[];
      /** Addresses of the channels. */
      readonly own: readonly string[];
      /** Database of the embedded platform. */
      readonly embedded: string | null;
    },
  ) => Promise<number>,
): Promise<number> {
  const loaded = await loadPolicy(resolve(io.cwd, options.config), { env: io.env, adapters: loadAdapter });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    return exitCodes.config;
  }
  const adapters = await Promise.all(["email", "sms"].map((name) => loadAdapter(name, dirname(loaded.file))));
  const canonical: string[] = [];
  for (const one of options.person) {
    const forms = adapters.flatMap((adapter) => adapter.address?.(one) ?? []);
    // A short code is the number of a service, and digits alone stand in many texts.
    if (!forms.some((form) => /[@+:]/.test(form))) {
      io.err(
        `--person ${JSON.stringify(one)} is no complete address: write a whole email address, or a number with its country code (+15550111)`,
      );
      return exitCodes.failed;
    }
    canonical.push(...forms);
  }
  const people = [...(loaded.policy?.responders.values() ?? [])];
  const responders = people.flatMap(({ email, sms }) =>
    [email, sms].flatMap((one) => one?.toLowerCase() ?? []),
  );
  return useStore(loaded, io, async (db) => {
    const records = await db.read((q) => findPerson(q, [...options.person, ...canonical]));
    const own = loaded.written.flatMap((one) => addressesOf(one));
    return work(db, records, { store: loaded.store, responders, own, embedded: loaded.embedded });
  });
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
  const began = systemClock.monotonic();
  while (!io.signal.aborted && systemClock.monotonic() - began < inFlight) {
    if ((await db.read((q) => countInFlight(q, records))) === 0) return;
    await systemClock.sleep(inFlightCheck, io.signal);
  }
}

/** Returns the backups of the store that contain one of the addresses: beside the store, and in the given folders. */
function backupsWith(
  file: string,
  addresses: readonly string[],
  kept: ReadonlySet<string>,
  folders: readonly string[],
  cwd: string,
): string[] {
  const beside = readdirSync(dirname(file))
    .filter((name) => name.startsWith(`${basename(file)}.before-`) && !name.endsWith("-shm"))
    .map((name) => join(dirname(file), name));
  const others = folders
    .map((folder) => resolve(cwd, folder))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { withFileTypes: true, recursive: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return [...new Set([...beside, ...others])].filter((path) => countInFile(path, addresses, kept) > 0).sort();
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
  mayRewrite: boolean,
): Promise<ErasedFile | null> {
  if (!existsSync(file)) return null;
  try {
    const { deleteUsers } = await import("../../platform/index.ts");
    const ids = records.platform.map(({ id }) => id);
    const users = await deleteUsers(file, [...records.addresses, ...ids]);
    const kept = new Set<string>();
    const db = openSqlite(file, () => systemClock.now());
    try {
      await eraseInColumns(db, records.addresses, kept);
    } finally {
      await db.close();
    }
    const { remaining } = finishFile(file, records.addresses, mayRewrite, kept);
    return { file, users, remaining };
  } catch (error) {
    return { file, users: 0, remaining: 0, problem: (error as Error).message };
  }
}

interface PlatformUsers {
  readonly clients: readonly {
    readonly client: ReturnType<typeof createClient>;
    readonly ids: readonly string[];
  }[];
}

/** Finds the users of the person's conversations on the platform. Returns the exit code when the configuration with its
 *  keys cannot be read. */
async function platformUsers(
  options: EraseOptions,
  records: PersonRecords,
  io: Io,
): Promise<PlatformUsers | number> {
  const loaded = await loadConfig(resolve(io.cwd, options.config), { env: io.env, adapters: loadAdapter });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    io.err("--platform needs the keys of the agents: run this with the service's environment");
    return exitCodes.config;
  }
  const { platform, agents } = loaded.config;
  const { url } = platform;
  const clients: { client: ReturnType<typeof createClient>; ids: string[] }[] = [];
  for (const [name, { key }] of Object.entries(agents)) {
    const client = createClient({ url, agentKey: key, timeoutMs: platform.timeout });
    const ids = new Set<string>();
    for (const { id } of records.platform.filter(({ agent }) => agent === name)) {
      const found = await client.conversations.get(id, { signal: io.signal });
      if (found.kind === "ok" && found.value.conversationUserId) ids.add(found.value.conversationUserId);
    }
    clients.push({ client, ids: [...ids] });
  }
  return { clients };
}

async function deleteRemote(
  { clients }: PlatformUsers,
  io: Io,
): Promise<{ deleted: number; failed: string[] }> {
  const failed: string[] = [];
  let deleted = 0;
  for (const { client, ids } of clients) {
    for (const id of ids) {
      const result = await client.users.delete(id, { signal: io.signal });
      if (result.kind === "ok" || result.kind === "missing") deleted += 1;
      else failed.push(`${id}: ${result.reason}`);
    }
    await client.close();
  }
  return { deleted, failed };
}

interface Erasure {
  readonly rows: ErasedRows;
  readonly late: number;
  readonly searched: ReturnType<typeof finishFile> | null;
  readonly backups: readonly string[];
  readonly probable: readonly string[];
  readonly platform: { readonly deleted: number; readonly failed: readonly string[] } | null;
  /** Null when the platform is elsewhere, or has no file yet. */
  readonly embedded: ErasedFile | null;
}

function print(result: Erasure, records: PersonRecords, kind: "sqlite" | "postgres", io: Io): void {
  const { rows, late, searched, backups, probable, platform, embedded } = result;
  io.out(
    `erased: ${Object.entries(rows)
      .map(([name, count]) => `${count} ${name}`)
      .join(", ")}`,
  );
  if (rows.suppressions > 0) io.out("opt-outs stay, as keyed hashes: the person still gets nothing");
  if (late > 0)
    io.out(`${late} messages have arrived from this address meanwhile: run this again to erase them`);
  if (searched !== null && searched.remaining === 0)
    io.out("a search of the store and its log finds nothing");
  if (searched !== null && searched.remaining > 0)
    io.out(
      `the address still stands in the store's files ${searched.remaining} times: stop the daemon and run this again`,
    );
  if (searched?.isLogEmpty === false) io.out("the write-ahead log is in use; the daemon empties it");
  if (kind === "postgres")
    io.out(
      "PostgreSQL: the rows are vacuumed; old bytes stay in its files, its WAL, replicas and dumps until they are overwritten or deleted",
    );
  for (const path of backups) io.out(`a backup still contains the address: ${path}`);
  if (probable.length > 0)
    io.out(
      `${probable.length} other addresses have the same name, perhaps the same person: run bridgehead find, then erase with --person for each`,
    );
  if (embedded !== null) printEmbedded(embedded, io);
  else if (platform === null)
    io.out(
      records.platform.length === 0
        ? "the platform has no conversations of this person"
        : `the platform still has ${records.platform.length} conversations: delete them with --platform, or on the platform`,
    );
  else io.out(`platform: ${platform.deleted} users deleted with their conversations`);
  for (const line of platform?.failed ?? []) io.err(`not deleted on the platform: user ${line}`);
  io.out(
    "not erased: the mailbox, the logs of the providers, and file systems or disks that keep old blocks",
  );
}

function printEmbedded({ file, users, remaining, problem }: ErasedFile, io: Io): void {
  if (problem !== undefined)
    io.err(
      `the embedded platform still has the person: ${file} cannot be changed (${problem}): run this again`,
    );
  else io.out(`embedded platform: ${users} users deleted in ${file} with their conversations`);
  if (remaining > 0)
    io.err(
      `the address still stands ${remaining} times in ${file}: stop the daemon and run this again; an address in a document of an agent is removed with the document`,
    );
}

interface ExportOptions extends PersonOptions {
  /** The folder to create. */
  readonly to: string;
}

/** Writes `data.jsonl`, and the raw messages and files beside it, into a new folder with mode 0700. */
const exportData: Command<ExportOptions> = {
  async run(options, io) {
    const folder = resolve(io.cwd, options.to);
    if (existsSync(folder)) {
      io.err(`${folder} exists; name a new folder`);
      return exitCodes.failed;
    }
    return withPerson(options, io, async (db, records) => {
      mkdirSync(folder, { mode: 0o700 });
      const lines = openSync(join(folder, "data.jsonl"), "wx", 0o600);
      let [rows, files] = [0, 0];
      try {
        for await (const one of exportPerson((work) => db.read(work), records)) {
          if (one.kind === "row") writeSync(lines, `${JSON.stringify({ table: one.table, ...one.row })}\n`);
          else writeFileSync(join(folder, one.name), one.bytes, { mode: 0o600, flag: "wx" });
          if (one.kind === "row") rows += 1;
          else files += 1;
        }
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
  },
};

export { exportData as export };
