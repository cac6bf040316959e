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
export function listOf<Row>(
  db: Db,
  table: string,
  owner: string,
  columns = "*",
  order = ["created_at", "rowid"],
) {
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

/** Prepares a reader for pages of one list of one agent. */
export function prepareShelves<Row>(
  db: Db,
  { list, table, time }: ListSource,
): (agentId: string, slice: Slice) => ListPage<Row> {
  const shelves = db.prepare<[string, string], Shelf>(
    "SELECT at, n, rows FROM shelf WHERE list = ? AND agent_id = ? ORDER BY at, n",
  );
  const up = db.prepare<[string, number, number, number, number], Row>(
    `SELECT * FROM ${table} WHERE agent_id = ? AND (${time}, n) >= (?, ?) ORDER BY ${time}, n LIMIT ? OFFSET ?`,
  );
  const down = db.prepare<[string, number, number, number, number], Row>(
    `SELECT * FROM ${table} WHERE agent_id = ? AND (${time}, n) < (?, ?)
     ORDER BY ${time} DESC, n DESC LIMIT ? OFFSET ?`,
  );
  const between = db
    .prepare<[string, number, number, number], number>(
      `SELECT count(*) FROM ${table} WHERE agent_id = ? AND (${time}, n) >= (?, ?) AND ${time} < ?`,
    )
    .pluck();

  /** Returns the number of rows older than `before`. */
  const older = (all: readonly Shelf[], agentId: string, before: number): number => {
    const after = all.findIndex(({ at }) => at >= before);
    const last = (after < 0 ? all.length : after) - 1;
    const shelf = all[last];
    if (!shelf) return 0;
    return rowsOf(all.slice(0, last)) + (between.get(agentId, shelf.at, shelf.n, before) ?? 0);
  };

  /** Returns the rows at positions `first` to `behind - 1`, oldest first. Starts at the nearer end of
   *  the shelf. */
  const read = (all: readonly Shelf[], agentId: string, first: number, behind: number): Row[] => {
    const low = shelfAt(all, first);
    const high = shelfAt(all, behind - 1);
    const skipped = high.before + high.shelf.rows - behind;
    const { at, n } = high.next;
    return first - low.before <= skipped
      ? up.all(agentId, low.shelf.at, low.shelf.n, behind - first, first - low.before)
      : down.all(agentId, at, n, behind - first, skipped).reverse();
  };

  return (agentId, { direction, limit, offset, from, until }) => {
    const all = shelves.all(list, agentId);
    const oldest = from === null ? 0 : older(all, agentId, from);
    const newest = until === null ? rowsOf(all) : older(all, agentId, until + 1);
    const total = Math.max(0, newest - oldest);
    const ascending = direction === "ASC";
    const first = ascending ? oldest + offset : Math.max(oldest, newest - offset - limit);
    const behind = ascending ? Math.min(newest, first + limit) : newest - offset;
    if (first >= behind) return { rows: [], total };
    const rows = read(all, agentId, first, behind);
    return { rows: ascending ? rows : rows.reverse(), total };
  };
}

function rowsOf(shelves: readonly Shelf[]): number {
  return shelves.reduce((sum, { rows }) => sum + rows, 0);
}

/** Returns the shelf that contains the row at this position, the number of rows before it, and the next
 *  shelf. */
function shelfAt(
  shelves: readonly Shelf[],
  place: number,
): { readonly shelf: Shelf; readonly before: number; readonly next: Shelf } {
  let before = 0;
  for (const [index, shelf] of shelves.entries()) {
    if (place < before + shelf.rows) return { shelf, before, next: shelves[index + 1] ?? end };
    before += shelf.rows;
  }
  throw new Error(`there is no row at place ${place}`);
}
