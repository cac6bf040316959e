// Identifies the state of the store. Every store has an installation id. The id changes when the store is a
// restored backup, an older copy, or a new file in place of a lost one, because its contents are then
// behind the messages already sent. SQLite keeps a second copy of the id and of a counter in a companion
// file. PostgreSQL compares the identity of a table, which a logical restore creates again.

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { newToken } from "../ops/clock.ts";
import type { Database, Query } from "./driver.ts";
import { holdOpenWork } from "./restored.ts";
import { beforeRemedy } from "./sqlite/damaged.ts";
import { readMeta, writeMeta } from "./tables/meta.ts";

/** `new`: the first start. `restored`: from a backup. `older`: the companion file records a later state. `copied`: the
 *  companion file is missing or belongs to another store. `lost`: a new store replaces an earlier one. */
export type InstallationCause = "new" | "restored" | "older" | "copied" | "lost";

export interface Installation {
  readonly id: string;
  readonly cause: InstallationCause;
  /** When this id was created, epoch milliseconds. */
  readonly since: number;
  /** The ids of earlier states of this store. */
  readonly earlier: readonly string[];
  /** True when this start created the id. */
  readonly changed: boolean;
}

/** The content of `<store>-installation`. */
interface Beside {
  readonly id: string;
  readonly generation: number;
}

interface InstallationRow {
  readonly id: string;
  readonly number: number;
  readonly cause: InstallationCause | "gone";
  readonly table_id: number | null;
  readonly since: number;
}

/** Determines at every start which state of the store this is, and holds open work when it may be outdated. `file`: the
 *  SQLite file; null for PostgreSQL and for an in-memory store. Call with the store locked and migrated. Throws as
 *  `refuseCopied`. */
export async function identifyInstallation(
  db: Database,
  file: string | null,
  copyingMs: number,
): Promise<Installation> {
  const beside = file === null ? null : readBeside(file);
  const { installation, generation } = await db.tx(async (q) => {
    await q.all("SELECT pg_advisory_xact_lock(7262) -- only: postgres\n SELECT 1 -- only: sqlite");
    const rows = await readInstallations(q);
    const tableId = await tableIdentity(db, q);
    const stored = await readMeta(q, "generation");
    const isBackup = (await readMeta(q, "backup")) > 0;
    await refuseCopied(q, copyingMs);
    const cause = causeOf({ rows, beside, besideExpected: file !== null, isBackup, stored, tableId });
    if (isBackup) await writeMeta(q, "moved", 0);
    const next = Math.max(stored, beside?.generation ?? 0) + 1;
    await writeMeta(q, "generation", next);
    await writeMeta(q, "backup", 0);
    if (cause !== null) await begin(q, cause, rows, beside, tableId);
    if (cause !== null && cause !== "new" && cause !== "lost") await holdOpenWork(q, null);
    return { installation: await current(q, cause !== null), generation: next };
  });
  if (file !== null) writeBeside(file, { id: installation.id, generation });
  return installation;
}

/** Throws when a daemon must not start on the store: it is the target of an unfinished copy, is being copied (a batch was read
 *  within `copyingMs`), or was copied: both daemons would answer new mail. A former store that was marked as a backup since
 *  then is used again. */
export async function refuseCopied(q: Query, copyingMs: number): Promise<void> {
  const refuse = (problem: string, remedy: string): never => {
    throw new Error(`${problem}${beforeRemedy}${remedy}`);
  };
  if ((await readMeta(q, "copy_incomplete")) === 1)
    refuse(
      "the store is an incomplete copy",
      "name the store that it was copied from in `store:`, and run the command store copy again: it completes the copy",
    );
  if ((await readMeta(q, "moved")) === 1) {
    if ((await readMeta(q, "backup")) > 0) return;
    refuse(
      "the store was copied (store copy), and the copy continues its work",
      "name the copy in `store:`; if it is an incomplete copy, run the command store copy again first; to give the copy up, see the section Another database in docs/operations.md",
    );
  }
  const row = await q.one<{ age: number }>("SELECT now_ms() - value AS age FROM meta WHERE name = 'copy_at'");
  if (row && Math.abs(row.age) < copyingMs)
    refuse("the store is being copied (store copy)", "start the daemon afterwards, on the copy");
}

/** Call after `bridgehead store copy`, before the target is used: the copy continues the installation of its source.
 *  `file`: the SQLite file; null for PostgreSQL. */
export async function adoptCopy(db: Database, file: string | null): Promise<void> {
  const { id, generation } = await db.tx(async (q) => {
    await q.run(
      `UPDATE installations SET table_id = $1 WHERE number = (SELECT MAX(number) FROM installations)`,
      await tableIdentity(db, q),
    );
    const last = await q.one<{ id: string }>("SELECT id FROM installations ORDER BY number DESC LIMIT 1");
    return { id: last?.id ?? null, generation: await readMeta(q, "generation") };
  });
  if (file !== null && id !== null) writeBeside(file, { id, generation });
}

/** Increments the counter in the store and in the companion file, so that an older copy of the store is detected. The
 *  daemon calls it every minute; a copy younger than one minute counts as the current state. */
export async function advanceGeneration(db: Database, file: string, installation: string): Promise<void> {
  const generation = await db.tx(async (q) => {
    const next = (await readMeta(q, "generation")) + 1;
    await writeMeta(q, "generation", next);
    return next;
  });
  writeBeside(file, { id: installation, generation });
}

const warnings: Readonly<Record<Exclude<InstallationCause, "new">, string>> = {
  restored: "the store is a restored backup",
  older:
    "the store is older than at the last start: opt-outs, pauses and erasures made since then are not in it (the command restore takes them over)",
  copied: "the store is a copy from elsewhere: the file beside it is missing or belongs to another store",
  lost: "the store is missing: a new one was created in its place, without its opt-outs, pauses and erasures",
};

/** Returns the operator warning about the store; null for a store that was created here. */
export function installationWarning({ cause }: Installation): string | null {
  if (cause === "new") return null;
  return `${warnings[cause]}; messages that may have been answered already are held as answered-before-restore`;
}

/** Path of the companion file of an SQLite store. */
const besidePath = (file: string): string => `${file}-installation`;

function causeOf(found: {
  readonly rows: readonly InstallationRow[];
  readonly beside: Beside | null;
  readonly besideExpected: boolean;
  readonly isBackup: boolean;
  readonly stored: number;
  readonly tableId: number | null;
}): InstallationCause | null {
  const { rows, beside } = found;
  const last = rows.at(-1);
  if (last === undefined) return beside === null ? "new" : "lost";
  if (found.isBackup) return "restored";
  if (found.tableId !== null && last.table_id !== found.tableId) return "restored";
  if (!found.besideExpected) return null;
  if (beside === null) return "copied";
  if (beside.id === last.id) return beside.generation > found.stored ? "older" : null;
  // The process crashed between the commit of the new id and the write of the file: the store is the newer one.
  return rows.some((row) => row.id === beside.id) ? null : "copied";
}

async function begin(
  q: Query,
  cause: InstallationCause,
  rows: readonly InstallationRow[],
  beside: Beside | null,
  tableId: number | null,
): Promise<void> {
  const insert = (id: string, number: number, why: InstallationCause | "gone") =>
    q.run(
      "INSERT INTO installations (id, number, cause, table_id, since) VALUES ($1, $2, $3, $4, now_ms())",
      id,
      number,
      why,
      tableId,
    );
  let number = (rows.at(-1)?.number ?? 0) + 1;
  // Marks left at the provider under the id in the companion file belong to an earlier state as well.
  if (beside !== null && !rows.some((row) => row.id === beside.id)) await insert(beside.id, number++, "gone");
  await insert(newToken(16), number, cause);
}

const readInstallations = (q: Query): Promise<InstallationRow[]> =>
  q.all("SELECT id, number, cause, table_id, since FROM installations ORDER BY number");

async function current(q: Query, changed: boolean): Promise<Installation> {
  const rows = await readInstallations(q);
  const last = rows.at(-1);
  if (last === undefined || last.cause === "gone") throw new Error("reading the installation: there is none");
  const earlier = rows.slice(0, -1).map((row) => row.id);
  return { id: last.id, cause: last.cause, since: last.since, earlier, changed };
}

/** Returns the OID of the table. A restore by pg_restore or psql creates the table with another OID. Null on SQLite. */
async function tableIdentity(db: Database, q: Query): Promise<number | null> {
  if (db.kind === "sqlite") return null;
  const row = await q.one<{ id: number }>("SELECT 'installations'::regclass::oid::bigint AS id");
  return row?.id ?? null;
}

/** Returns null when the file does not exist. A damaged file counts as missing; the store is then treated as a copy. */
function readBeside(file: string): Beside | null {
  try {
    const { id, generation } = JSON.parse(readFileSync(besidePath(file), "utf8")) as Partial<Beside>;
    const valid = typeof id === "string" && /^[a-z0-9]{16}$/.test(id) && Number.isSafeInteger(generation);
    return valid ? { id, generation: Number(generation) } : null;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** Replaces the file atomically: after a crash the old or the new content is in place. */
function writeBeside(file: string, beside: Beside): void {
  const temporary = `${besidePath(file)}.new`;
  writeFileSync(temporary, `${JSON.stringify(beside)}\n`, { mode: 0o600, flush: true });
  renameSync(temporary, besidePath(file));
}
