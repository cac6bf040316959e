// Prepared statements as functions, and pages of lists.
//
// Index for long lists ordered by time. Each shelf counts the rows up to the next shelf (maintained by
// triggers), so a page far into the list is found by adding counts and stepping over few rows.

// oxlint-disable typescript/no-unnecessary-type-parameters -- the types of a statement cannot be inferred from its SQL.

import type { Db } from "./store.ts";

/** Prepares a query for one row. */
export function one<Params extends unknown[], Row>(db: Db, sql: string) {
  const statement = db.prepare<Params, Row>(sql);
  return (...params: Params): Row | undefined => statement.get(...params);
}

/** Prepares a query for all rows. */
export function all<Params extends unknown[], Row>(db: Db, sql: string) {
  const statement = db.prepare<Params, Row>(sql);
  return (...params: Params): Row[] => statement.all(...params);
}

/** Prepares a query for the first column of all rows. */
export function values<Params extends unknown[], Value>(db: Db, sql: string) {
  const statement = db.prepare<Params, Value>(sql).pluck();
  return (...params: Params): Value[] => statement.all(...params);
}

/** Prepares a query for a number of rows. */
export function count<Params extends unknown[]>(db: Db, sql: string) {
  const statement = db.prepare<Params, number>(sql).pluck();
  return (...params: Params): number => statement.get(...params) ?? 0;
}

/** Prepares a change. Returns the number of changed rows. */
export function run<Params extends unknown[]>(db: Db, sql: string) {
  const statement = db.prepare<Params>(sql);
  return (...params: Params): number => statement.run(...params).changes;
}

/** Returns the statement that inserts a row; its parameters are named like the columns. */
export const insertInto = (table: string, columns: readonly string[]): string =>
  `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map((name) => `@${name}`).join(", ")})`;

/** Prepares both directions of a list of an owner's rows. */
export function listOf<Row>(db: Db, table: string, owner: string, columns = "*", order = ["created_at", "rowid"]) {
  const list = (direction: Slice["direction"]) => {
    const sorted = order.map((column) => `${column} ${direction}`).join(", ");
    const sql = `SELECT ${columns} FROM ${table} WHERE ${owner} = ? ORDER BY ${sorted} LIMIT ? OFFSET ?`;
    return all<[string, number, number], Row>(db, sql);
  };
  const lists = { ASC: list("ASC"), DESC: list("DESC") };
  return (id: string, direction: Slice["direction"], limit: number, offset: number): Row[] =>
    lists[direction](id, limit, offset);
}

interface Shelf {
  readonly at: number;
  readonly n: number;
  readonly rows: number;
}

export interface Slice {
  readonly direction: "ASC" | "DESC";
  readonly limit: number;
  readonly offset: number;
  /** Inclusive bounds in epoch milliseconds; null means unbounded. */
  readonly from: number | null;
  readonly until: number | null;
}

export interface ListPage<Row> {
  readonly rows: Row[];
  /** Number of matching rows, regardless of `limit` and `offset`. */
  readonly total: number;
}

interface ListSource {
  readonly list: string;
  readonly table: string;
  readonly time: string;
}

const end: Shelf = { at: Number.MAX_SAFE_INTEGER, n: 0, rows: 0 };

/** A key in the order of a list, with the number of rows before it. */
interface ListBound extends Omit<Shelf, "rows"> {
  readonly before: number;
}

/** Parameters of the statements: the agent and two pairs of numbers. */
type RangeParameters = [string, number, number, number, number];

/** Reads pages of one list of one agent. */
export class ShelvedList<Row> {
  readonly #shelves: (agentId: string) => readonly Shelf[];
  readonly #up: (...range: RangeParameters) => Row[];
  readonly #down: (...range: RangeParameters) => Row[];
  readonly #between: (...range: RangeParameters) => number;

  constructor(db: Db, { list, table, time }: ListSource) {
    this.#shelves = prepareShelfCache(db, list);
    this.#up = all(
      db,
      `SELECT * FROM ${table} WHERE agent_id = ? AND (${time}, n) >= (?, ?) ORDER BY ${time}, n LIMIT ? OFFSET ?`,
    );
    this.#down = all(
      db,
      `SELECT * FROM ${table} WHERE agent_id = ? AND (${time}, n) < (?, ?)
       ORDER BY ${time} DESC, n DESC LIMIT ? OFFSET ?`,
    );
    this.#between = count(
      db,
      `SELECT count(*) FROM ${table} WHERE agent_id = ? AND (${time}, n) >= (?, ?) AND (${time}, n) < (?, ?)`,
    );
  }

  page(agentId: string, { direction, limit, offset, from, until }: Slice): ListPage<Row> {
    const shelves = this.#shelves(agentId);
    const oldest = from === null ? { at: 0, n: 0, before: 0 } : this.#boundAt(shelves, agentId, from);
    const newest = until === null ? { ...end, before: rowsOf(shelves) } : this.#boundAt(shelves, agentId, until + 1);
    const total = Math.max(0, newest.before - oldest.before);
    const ascending = direction === "ASC";
    const first = ascending ? oldest.before + offset : Math.max(oldest.before, newest.before - offset - limit);
    const behind = ascending ? Math.min(newest.before, first + limit) : newest.before - offset;
    if (first >= behind) return { rows: [], total };
    const rows = this.#read(shelves, agentId, [first, behind], [oldest, newest]);
    return { rows: ascending ? rows : rows.reverse(), total };
  }

  /** Returns the bound before the first row that is not older than `at`. Counts from the end of the shelf that is probably
   *  nearer. */
  #boundAt(shelves: readonly Shelf[], agentId: string, at: number): ListBound {
    const after = shelves.findIndex((shelf) => shelf.at >= at);
    const last = (after < 0 ? shelves.length : after) - 1;
    const shelf = shelves[last];
    if (!shelf) return { at, n: 0, before: 0 };
    const next = shelves[last + 1] ?? end;
    const older = rowsOf(shelves.slice(0, last));
    const before =
      at - shelf.at < next.at - at
        ? older + this.#between(agentId, shelf.at, shelf.n, at, 0)
        : older + shelf.rows - this.#between(agentId, at, 0, next.at, next.n);
    return { at, n: 0, before };
  }

  /** Returns the rows at positions `first` to `behind - 1`, oldest first. Starts at the nearest of the given bounds and
   *  of the ends of the shelves. */
  #read(
    shelves: readonly Shelf[],
    agentId: string,
    [first, behind]: readonly [number, number],
    [oldest, newest]: readonly [ListBound, ListBound],
  ): Row[] {
    const low = later(oldest, shelfAt(shelves, first)[0]);
    const high = earlier(newest, shelfAt(shelves, behind - 1)[1]);
    const rows = behind - first;
    return first - low.before <= high.before - behind
      ? this.#up(agentId, low.at, low.n, rows, first - low.before)
      : this.#down(agentId, high.at, high.n, rows, high.before - behind).reverse();
  }
}

/** Reads the shelves of an agent's list, and keeps them until this or another process changes the database: a large list
 *  has hundreds. */
function prepareShelfCache(db: Db, list: string): (agentId: string) => readonly Shelf[] {
  const read = all<[string, string], Shelf>(
    db,
    "SELECT at, n, rows FROM shelf WHERE list = ? AND agent_id = ? ORDER BY at, n",
  );
  const changes = db.prepare<[], number>("SELECT total_changes()").pluck();
  const outside = db.prepare<[], number>("PRAGMA data_version").pluck();
  const kept = new Map<string, readonly Shelf[]>();
  let version = "";
  return (agentId) => {
    // A rollback does not reset total_changes.
    if (db.inTransaction) return read(list, agentId);
    const now = `${changes.get()} ${outside.get()}`;
    if (now !== version) kept.clear();
    version = now;
    const shelves = kept.get(agentId) ?? read(list, agentId);
    kept.set(agentId, shelves);
    return shelves;
  };
}

const later = (a: ListBound, b: ListBound): ListBound => (a.before > b.before ? a : b);
const earlier = (a: ListBound, b: ListBound): ListBound => (a.before < b.before ? a : b);

function rowsOf(shelves: readonly Shelf[]): number {
  return shelves.reduce((sum, { rows }) => sum + rows, 0);
}

/** Returns both ends of the shelf that contains the row at this position. */
function shelfAt(shelves: readonly Shelf[], position: number): readonly [ListBound, ListBound] {
  let before = 0;
  for (const [index, shelf] of shelves.entries()) {
    const behind = before + shelf.rows;
    if (position < behind)
      return [
        { ...shelf, before },
        { ...(shelves[index + 1] ?? end), before: behind },
      ];
    before = behind;
  }
  throw new Error(`there is no row at position ${position}`);
}
