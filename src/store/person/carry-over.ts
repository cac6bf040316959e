// What a restore takes over from the store that it replaces: opt-outs, pauses of channels, and the record of erasures.
// A backup is older than them, and without them the daemon would write to people who have opted out since.

import Sqlite from "better-sqlite3";
import type { ChannelPause } from "../tables/pauses.ts";
import { erasureKey, hashPrefix } from "../tables/suppressions.ts";
import { type ErasureDetail, erasureAction, hashOf } from "./ledger.ts";

export interface CarriedOver {
  /** Opt-outs that the backup did not have. */
  readonly optOuts: number;
  /** Opt-outs of the backup that were lifted since. */
  readonly lifted: number;
  /** Pauses of channels that the backup did not have. */
  readonly pauses: number;
  /** Erasures since the backup, oldest first. They are to be repeated. */
  readonly erasures: readonly RevertedErasure[];
  /** What could not be read: it is lost if it was made after the backup. */
  readonly lost: readonly (typeof carried)[number][];
}

export interface RevertedErasure {
  /** Epoch milliseconds. */
  readonly erasedAt: number;
  readonly actor: string;
  /** The erased addresses that are in the backup. Empty when the texts of other people alone can mention them. */
  readonly addresses: readonly string[];
}

const carried = ["opt-outs", "pauses", "erasures"] as const;

interface OptOutRow {
  readonly channel: string;
  readonly address: string;
  readonly own_address: string;
  readonly strikes: number;
  readonly active: number;
  readonly source: string;
  readonly reason: string;
  readonly updated_at: number;
}
interface ErasureRow {
  readonly actor: string;
  readonly detail: string;
  readonly made_at: number;
}

interface FormerRows {
  /** Null: unreadable, like the others. */
  readonly optOuts: readonly OptOutRow[] | null;
  readonly pauses: readonly ChannelPause[] | null;
  readonly erasures: readonly ErasureRow[] | null;
  readonly key: string | null;
  readonly state: CopiedState | null;
}

/** Which state of which store a file is. */
interface CopiedState {
  readonly installation: string | null;
  readonly generation: number;
  readonly isBackup: boolean;
}

const selects = {
  optOuts: "SELECT channel, address, own_address, strikes, active, source, reason, updated_at FROM suppressions",
  pauses: "SELECT channel, code, reason, event, since, until FROM channel_pauses",
  erasures: `SELECT actor, detail, made_at FROM actions WHERE action = '${erasureAction}' AND detail IS NOT NULL ORDER BY id`,
};

/** Takes over the rows of the store at `former` (null without one) into the copy of the backup at `restored`, in one
 *  transaction. Returns null when the file is no store of Bridgehead, such as the database of the embedded platform. */
export function carryOver(former: string | null, restored: string, now: number): CarriedOver | null {
  const db = new Sqlite(restored, { fileMustExist: true });
  try {
    const isStore = db.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'suppressions'").get();
    if (isStore === undefined) return null;
    const rows = former === null ? unreadable : readFormer(former);
    return db.transaction(() => takeOver(db, rows, now)).immediate();
  } finally {
    db.close();
  }
}

const unreadable: FormerRows = { optOuts: null, pauses: null, erasures: null, key: null, state: null };

function readFormer(file: string): FormerRows {
  let open: Sqlite.Database | null = null;
  try {
    const db = new Sqlite(file, { fileMustExist: true });
    open = db;
    return {
      optOuts: soundRows(db, "suppressions", selects.optOuts) as OptOutRow[] | null,
      pauses: soundRows(db, "channel_pauses", selects.pauses) as ChannelPause[] | null,
      erasures: soundRows(db, "actions", selects.erasures) as ErasureRow[] | null,
      key: soundRows(db, "secrets", "SELECT 1") === null ? null : keyOf(db),
      state: soundRows(db, "installations", "SELECT 1") === null ? null : stateOf(db),
    };
  } catch {
    // A damaged store may be the reason for the restore.
    return unreadable;
  } finally {
    open?.close();
  }
}

/** Returns the rows; null when the table is missing or damaged, because a damaged table may have lost rows silently. */
function soundRows(db: Sqlite.Database, table: string, select: string): unknown[] | null {
  try {
    const [first] = db.pragma(`integrity_check(${table})`) as { integrity_check: string }[];
    return first?.integrity_check === "ok" ? db.prepare(select).all() : null;
  } catch {
    return null;
  }
}

function keyOf(db: Sqlite.Database): string | null {
  const row = db.prepare("SELECT value FROM secrets WHERE name = ?").get(erasureKey);
  return (row as { value: string } | undefined)?.value ?? null;
}

function stateOf(db: Sqlite.Database): CopiedState {
  const last = db.prepare("SELECT id FROM installations ORDER BY number DESC LIMIT 1").get() as
    | { id: string }
    | undefined;
  const meta = db.prepare("SELECT name, value FROM meta").all() as { name: string; value: number }[];
  const valueOf = (name: string) => meta.find((row) => row.name === name)?.value ?? 0;
  return { installation: last?.id ?? null, generation: valueOf("generation"), isBackup: valueOf("backup") > 0 };
}

/** True when the former store is a later state of the backup, so that what it lacks was removed since. */
function isLater(former: CopiedState | null, backup: CopiedState): boolean {
  if (former === null || former.isBackup || former.installation === null) return false;
  return former.installation === backup.installation && former.generation >= backup.generation;
}

function takeOver(db: Sqlite.Database, former: FormerRows, now: number): CarriedOver {
  const backupKey = keyOf(db);
  const isSuccessor = isLater(former.state, stateOf(db));
  // Hashes of another key mean nothing here.
  const isReadable = former.key === null || backupKey === null || backupKey === former.key;
  if (former.key !== null && backupKey === null)
    db.prepare("INSERT INTO secrets (name, value, updated_at) VALUES (?, ?, ?)").run(erasureKey, former.key, now);
  const optOuts = former.optOuts?.filter(({ address }) => isReadable || !address.startsWith(hashPrefix)) ?? null;
  const isOptOutLost = optOuts === null || optOuts.length < (former.optOuts?.length ?? 0);
  const erasures = isReadable ? former.erasures : null;
  const lost = [isOptOutLost, former.pauses === null, erasures === null];
  return {
    ...(optOuts === null ? { optOuts: 0, lifted: 0 } : takeOptOuts(db, optOuts, isSuccessor && !isOptOutLost)),
    pauses: former.pauses === null ? 0 : takePauses(db, former.pauses, isSuccessor, now),
    erasures: erasures === null || former.key === null ? [] : takeErasures(db, erasures, former.key),
    lost: carried.filter((_, index) => lost[index]),
  };
}

function takeOptOuts(db: Sqlite.Database, rows: readonly OptOutRow[], isSuccessor: boolean) {
  const keyOfRow = ({ channel, address, own_address }: OptOutRow) => `${channel}\0${address}\0${own_address}`;
  const own = new Map((db.prepare(selects.optOuts).all() as OptOutRow[]).map((row) => [keyOfRow(row), row]));
  const later = new Map(rows.map((row) => [keyOfRow(row), row]));
  const isActive = (row: OptOutRow | undefined) => row?.active === 1;
  let lifted = 0;
  // The opt-out of an erased person became a hash.
  for (const key of isSuccessor ? own.keys() : []) if (isActive(own.get(key)) && !isActive(later.get(key))) lifted += 1;
  if (isSuccessor) db.exec("DELETE FROM suppressions");
  const write = db.prepare(
    `INSERT INTO suppressions (channel, address, own_address, strikes, active, source, reason, updated_at)
     VALUES (@channel, @address, @own_address, @strikes, @active, @source, @reason, @updated_at)
     ON CONFLICT (channel, address, own_address) DO UPDATE SET strikes = excluded.strikes, active = excluded.active,
       source = excluded.source, reason = excluded.reason, updated_at = excluded.updated_at
     WHERE excluded.active > suppressions.active
       OR (excluded.active = suppressions.active AND excluded.updated_at > suppressions.updated_at)`,
  );
  for (const row of rows) write.run(row);
  return { optOuts: rows.filter((row) => isActive(row) && !isActive(own.get(keyOfRow(row)))).length, lifted };
}

function takePauses(db: Sqlite.Database, rows: readonly ChannelPause[], isSuccessor: boolean, now: number): number {
  const isActive = ({ until }: ChannelPause) => until === null || until > now;
  const own = (db.prepare(selects.pauses).all() as ChannelPause[]).filter(isActive).map(({ channel }) => channel);
  if (isSuccessor) db.exec("DELETE FROM channel_pauses");
  // The message that caused a pause may be missing in the backup, and its number may be given to another one. Of two pauses
  // the longer one applies.
  const write = db.prepare(
    `INSERT INTO channel_pauses (channel, code, reason, event, since, until)
     VALUES (@channel, @code, @reason, (SELECT id FROM events WHERE id = @event), @since, @until)
     ON CONFLICT (channel) DO UPDATE SET code = excluded.code, reason = excluded.reason, event = excluded.event,
       since = excluded.since, until = excluded.until
     WHERE channel_pauses.until IS NOT NULL AND (excluded.until IS NULL OR excluded.until > channel_pauses.until)`,
  );
  for (const row of rows) write.run(row);
  return rows.filter((row) => isActive(row) && !own.includes(row.channel)).length;
}

function takeErasures(db: Sqlite.Database, rows: readonly ErasureRow[], key: string): RevertedErasure[] {
  const idOf = ({ detail, made_at }: ErasureRow) =>
    `${made_at} ${(JSON.parse(detail) as ErasureDetail).addresses.join()}`;
  const known = new Set((db.prepare(selects.erasures).all() as ErasureRow[]).map(idOf));
  const since = rows.filter((row) => !known.has(idOf(row)));
  if (since.length === 0) return [];
  const write = db.prepare(
    `INSERT INTO actions (action, actor, detail, channel, made_at) VALUES ('${erasureAction}', @actor, @detail, '', @made_at)`,
  );
  for (const row of since) write.run(row);
  const addresses = new Map(addressesIn(db).map((address) => [hashOf(key, address), address]));
  return since.map(({ actor, detail, made_at: erasedAt }) => {
    const hashes = (JSON.parse(detail) as ErasureDetail).addresses;
    return { erasedAt, actor, addresses: hashes.flatMap((hash) => addresses.get(hash) ?? []) };
  });
}

/** Returns the addresses of all people in the store, in lower case. */
function addressesIn(db: Sqlite.Database): string[] {
  const rows = db
    .prepare(
      `SELECT person AS address FROM conversations UNION SELECT sender FROM events UNION SELECT address FROM participants
       UNION SELECT person FROM turns UNION SELECT reply_to FROM turns UNION SELECT recipient FROM drafts`,
    )
    .all() as { address: string | null }[];
  return [...new Set(rows.flatMap(({ address }) => (address ? [address.toLowerCase()] : [])))];
}
