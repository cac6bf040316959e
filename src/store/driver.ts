// Database interface of src/store: one SQL text for two drivers, and statements with several rows. Placeholders are $1, $2 ...; a line that
// ends in `-- only: sqlite` or `-- only: postgres` exists for that database only; now_ms() is the
// database's clock, and clock_step() the duration `clockStep` of the timing table.

import type { Clock, Log } from "bridgehead/contract";
import { type FailpointName, failpoints } from "../ops/failpoints.ts";
import type { CommitReport, Hop } from "../ops/hops.ts";
import type { Timing } from "../ops/timing.ts";
import { type LaneLeases } from "./lanes.ts";

export type Value = string | number | null | Uint8Array;
export type Row = Record<string, unknown>;

/** Rounds a fraction up. All numbers of the store are integers, which PostgreSQL requires and SQLite does not; durations
 *  of the platform and of providers may have fractions, and must not end early. */
export const integral = (value: Value): Value => (typeof value === "number" ? Math.ceil(value) : value);

/** Kinds of work for the stages: stored events, due turns, ready replies, due drafts; attachments that
 *  the provider stores; live sessions, which only the sweep checks; escalations and notifications; polls
 *  of the platform's conversations. */
export type Work = "events" | "turns" | "replies" | "drafts" | "attachments" | "sessions" | "escalations" | "polls";

/** What becomes of the rows of a deferred statement. */
export interface DeferredRows<T> {
  /** Called when the rows arrive. Changes hints in memory only, because a rollback does not undo it. Must not throw. */
  readonly use: (rows: readonly T[]) => void;
  /** For a statement that must return one row: see `Query.writeOne`. */
  readonly otherwise?: () => Error;
}

/** Statements inside one transaction. Await each before the next, without other I/O in between. */
export interface Query {
  all<T = Row>(sql: string, ...values: Value[]): Promise<T[]>;
  one<T = Row>(sql: string, ...values: Value[]): Promise<T | undefined>;
  /** The number of rows changed. */
  run(sql: string, ...values: Value[]): Promise<number>;
  /** Like `run` without the count. PostgreSQL sends the statement with the next one, or with COMMIT, in one round
   *  trip. Its failure ends the transaction, or the savepoint around it; this call does not reject. For rows
   *  whose error no caller handles. */
  write(sql: string, ...values: Value[]): Promise<void>;
  /** Like `write`, for a change of exactly one row. Fails with the error of `otherwise` when it changed none or
   *  several. */
  writeOne(otherwise: () => Error, sql: string, ...values: Value[]): Promise<void>;
  /** Like `write`, for a statement with RETURNING. Its rows arrive with the result of the next statement that the work
   *  waits for; on PostgreSQL without such a statement with the result of COMMIT, before `tx` resolves. */
  defer<T = Row>(deferred: DeferredRows<T>, sql: string, ...values: Value[]): Promise<void>;
  /** Work that became due since the last check, with its channels; null when the channels are unknown. A
   *  hint that limits the checks after a commit to these (`touch` adds to it). The sweep finds the rest:
   *  changes by other nodes, and rows that become due with time. */
  readonly touched: Map<Work, Set<string> | null>;
  /** Milliseconds until written rows become due. A hint for the scheduler's timer, which ignores those that the
   *  sweep finds soon enough. */
  readonly waits: Set<number>;
  /** Runs `work` in a savepoint: when it throws, its writes are rolled back and the outer transaction continues. */
  savepoint<T>(work: () => Promise<T>): Promise<T>;
  /** Registers a callback that reverts a change in memory which belongs to the writes of this transaction.
   *  It is called when the transaction, or the savepoint around this call, is rolled back, before any
   *  later transaction begins. The callbacks run in reverse order. */
  onRollback(undo: () => void): void;
  /** Registers a callback for the time when this transaction is on disk, for lines of the log. It is not called when the
   *  transaction, or the savepoint around this call, is rolled back. Must not throw. */
  onDisk(act: () => void): void;
  /** Reports one hop of a message to the observer of the store, like `onDisk`. Costs no statement. */
  hop(hop: Hop): void;
  /** The leases of lanes, when one process owns the store; null when they are rows. */
  readonly leases: LaneLeases | null;
}

/** Returns a log whose lines are written when the transaction is on disk (`Query.onDisk`): a line about rows that were
 *  rolled back would be wrong, and a transaction that runs again would write it twice. */
export function logOnDisk(q: Query, log: Log): Log {
  return {
    debug: (fields, message) => q.onDisk(() => log.debug(fields, message)),
    info: (fields, message) => q.onDisk(() => log.info(fields, message)),
    warn: (fields, message) => q.onDisk(() => log.warn(fields, message)),
    error: (fields, message) => q.onDisk(() => log.error(fields, message)),
  };
}

/** Publishes "before" now, as the last step of a transaction, and "after" when the transaction is on disk, to those that
 *  subscribe now. */
export function failpointOfCommit(q: Query, name: FailpointName, fields: { readonly [key: string]: unknown }): void {
  failpointBefore(q, name, fields)();
}

/** Publishes "before" now, for the last statement of a joint transaction. Call the returned function when that statement
 *  has changed its rows: "after" is then published when the transaction is on disk. */
export function failpointBefore(
  q: Query,
  name: FailpointName,
  fields: { readonly [key: string]: unknown },
): () => void {
  const point = failpoints[name];
  if (!point.hasSubscribers) return () => undefined;
  point.publish({ phase: "before", ...fields });
  return () => q.onDisk(() => point.publish({ phase: "after", ...fields }));
}

/** Notes that work became due in this transaction, in `channel` if it is known. */
export function touch(q: Query, work: Work, channel?: string): void {
  const channels = q.touched.get(work);
  if (channel === undefined || channels === null) q.touched.set(work, null);
  else if (channels === undefined) q.touched.set(work, new Set([channel]));
  else channels.add(channel);
}

/** How soon a transaction is committed and synced on SQLite. Default: with what is queued, and at once.
 *  - `trailing`: its sync waits like that of `shared`: for an outcome that a lookup finds again, and that no effect follows
 *    without a record of its own.
 *  - `hurried`: does not wait for a running sync, to share the next commit with others.
 *  - `shared`: is committed like `hurried`. Its sync waits for one that others need, for up to `Timing.sqlite.syncShare`:
 *    for rows whose effects start at the commit.
 *  - `joining`: waits for a transaction whose commit it joins, for up to `Timing.sqlite.commitJoin`, and is synced like
 *    `shared`: for an outcome that no other work waits for. */
export type CommitPace = "trailing" | "hurried" | "shared" | "joining";

/** Notes that work becomes due in `wait` milliseconds, or is due. */
export function noteDue(q: Query, work: Work, channel: string, wait: number): void {
  if (wait <= 0) touch(q, work, channel);
  else q.waits.add(wait);
}

export interface TxOptions {
  /** Without timeouts, for migrations. */
  readonly unhurried?: boolean;
  /** False: resolves at the commit, before it is on disk. Only for rows whose loss in a power failure has
   *  no effect, because what they describe ends with the power: the state of a live call (its socket is
   *  gone), the heartbeat of a node, statistics. Never for anything that is acknowledged to a provider,
   *  sent, and never for a lease, whose token must not be given out twice. The order of commits stays: a
   *  durable transaction makes all earlier ones durable, and a read waits for what it can have seen. */
  readonly durable?: boolean;
  /** Called at the commit, before it is on disk; not when the transaction fails. For work in memory, for
   *  preparations without an effect, and for effects that end with the power. The promise still waits for
   *  the disk. Must not throw. */
  readonly committed?: () => void;
  readonly pace?: CommitPace | undefined;
  /** The row that the transaction locks first, for one that waits for a single result: that of its last statement.
   *  PostgreSQL sends those that wait at the same time in one round trip with one commit; what the work does with the
   *  result happens after the commit. */
  readonly joint?: string | undefined;
}

/** Receives each commit of a store when it is on disk, for the log and the metrics. Must not throw. */
export type StoreObserver = (report: CommitReport) => void;

/** Result of `Database.check`. */
export type FileCheck =
  | { readonly kind: "sound" }
  | { readonly kind: "damaged"; readonly problem: string }
  | { readonly kind: "unfinished"; readonly reason: string };

export interface Database {
  readonly kind: "sqlite" | "postgres";
  /** Runs `work` in a transaction and resolves after the commit is on disk. An exception rolls it back and is rethrown.
   *  `work` may run more than once, and may be abandoned at any statement of `q`; only its last run counts. SQLite
   *  groups several transactions into one commit. When one throws, all of them run again, each in its savepoint.
   *  PostgreSQL runs `work` again after a deadlock, even one inside a savepoint. It aborts on lock and statement
   *  timeouts, unless the transaction is `unhurried`: a migration has no timeouts. */
  tx<T>(work: (q: Query) => Promise<T>, options?: TxOptions): Promise<T>;
  /** Reads outside a transaction. Resolves when everything that it can have seen is on disk. */
  read<T>(work: (q: Query) => Promise<T>): Promise<T>;
  /** Resolves when all commits so far are on disk. Rejects when the disk failed. */
  synced(): Promise<void>;
  /** Does a small part of the upkeep of an SQLite file: returns free pages to the file system, then updates
   *  the planner's statistics. Resolves to true while pages are left. Called at start and after retention.
   *  PostgreSQL has autovacuum. */
  maintain(): Promise<boolean>;
  /** Registers a listener that is called when another node has announced new work. */
  onWake(listener: () => void): void;
  /** Returns a sentence about damage that a statement or `check` has met since the file was opened; null without any. The rest of the
   *  file may still be usable, so a probe can succeed. PostgreSQL: the disk
   *  that was full for a write within the last minutes, on which smaller ones still fit. */
  damage(): string | null;
  /** Checks the pages of the whole SQLite file in a process of its own, for at most `longestMs` and until the signal
   *  aborts, while statements continue. `damage` reports what it finds. PostgreSQL: nothing to do. Never rejects. */
  check(longestMs: number, signal: AbortSignal): Promise<FileCheck>;
  /** Sets the observer. Called once, by the daemon; a store of a command has none. */
  observe(observer: StoreObserver): void;
  /** PostgreSQL: holds a lock with the name of this process (`Core.node`) until the store is closed or the process ends, so that
   *  other processes know which it is (`endProcesses`). */
  hold(process: string): Promise<void>;
  /** Notifies the other nodes when this transaction commits. */
  wake(q: Query): Promise<void>;
  close(): Promise<void>;
}

/** What every component of the daemon receives. */
export interface Core {
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  /** Id of this process among those that share the store. */
  readonly node: string;
  readonly timing: Timing;
}

/** Runs `work` in a transaction and resolves at the commit, before it is on disk; its sync is shared (`CommitPace`). On
 *  PostgreSQL it resolves like `tx`. See `TxOptions.committed`. */
export function atCommit<T>(db: Database, work: (q: Query) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let result: T;
    const written = db.tx(async (q) => (result = await work(q)), {
      committed: () => resolve(result),
      pace: "shared",
    });
    written.then(resolve, reject);
  });
}

const texts = new Map<string, string>();

/** Returns the SQL for the dialect `kind`. */
export function dialect(sql: string, kind: Database["kind"]): string {
  const key = kind + sql;
  const known = texts.get(key);
  if (known !== undefined) return known;
  const other = kind === "sqlite" ? "-- only: postgres" : "-- only: sqlite";
  const lines = sql.split("\n").filter((line) => !line.trimEnd().endsWith(other));
  const text = lines.join("\n");
  texts.set(key, text);
  return text;
}

// Statements with several rows of values. One statement for many rows saves round trips on PostgreSQL and
// bindings on SQLite.

/** Largest number of rows in one statement. Keeps the number of parameters below every limit of the databases. */
const mostRows = 32;

/** A statement for many rows of values. Distributes them over statements of 32, 16, 8 ... 1 rows, in their order. Only
 *  these sizes occur, so that both drivers prepare few texts. */
export class ManyRows<T extends object> {
  readonly #head: string;
  readonly #row: string;
  readonly #tail: string;
  /** Names of the values of one row, in the order of their placeholders. */
  readonly #names: readonly string[];
  readonly #texts = new Map<number, string>();

  /** `row` is the template of one row: `(:id, :name, now_ms())` takes the members `id` and `name` of each row, `(?, ?)`
   *  the members of an array. An absent member is NULL. */
  constructor(head: string, row: string, tail = "") {
    let place = 0;
    this.#head = head;
    this.#row = row.replaceAll("?", () => `:${place++}`);
    this.#tail = tail;
    this.#names = [...new Set([...this.#row.matchAll(/:(\w+)/g)].map(([, name = ""]) => name))];
  }

  /** Returns the rows of all statements; with RETURNING or SELECT. */
  async all<R>(q: Query, rows: readonly T[]): Promise<R[]> {
    const found: R[] = [];
    for (const [sql, values] of this.#statements(rows)) found.push(...(await q.all<R>(sql, ...values)));
    return found;
  }

  async run(q: Query, rows: readonly T[]): Promise<number> {
    let changed = 0;
    for (const [sql, values] of this.#statements(rows)) changed += await q.run(sql, ...values);
    return changed;
  }

  async write(q: Query, rows: readonly T[]): Promise<void> {
    for (const [sql, values] of this.#statements(rows)) await q.write(sql, ...values);
  }

  *#statements(rows: readonly T[]): Generator<readonly [sql: string, values: readonly Value[]]> {
    for (let at = 0; at < rows.length; ) {
      const count = Math.min(mostRows, 2 ** Math.floor(Math.log2(rows.length - at)));
      const values: Value[] = [];
      for (const row of rows.slice(at, at + count))
        for (const name of this.#names) values.push((row as Readonly<Record<string, Value>>)[name] ?? null);
      yield [this.#textFor(count), values];
      at += count;
    }
  }

  #textFor(count: number): string {
    let text = this.#texts.get(count);
    if (text === undefined) {
      const rows = Array.from({ length: count }, (_, at) =>
        this.#row.replace(
          /:(\w+)/g,
          (_name, name: string) => `$${at * this.#names.length + this.#names.indexOf(name) + 1}`,
        ),
      );
      text = `${this.#head} ${rows.join(", ")} ${this.#tail}`;
      this.#texts.set(count, text);
    }
    return text;
  }
}

/** Returns text from outside as a key that both databases accept: NUL and lone surrogates are invalid in PostgreSQL. */
export const keyOf = (text: string): string => text.replaceAll("\0", "").toWellFormed();

export const idsOf = (rows: readonly { readonly id: string }[]): string[] => rows.map(({ id }) => id);

/** Returns a list of ids as one parameter. Its statement has the same text for any number of ids. */
export const listOf = (ids: Iterable<string>): string => JSON.stringify([...new Set(ids)].map(keyOf));

/** Returns the join with the rows of `table` that satisfy `condition`, one line, for each row before it. Both databases
 *  use the index of the condition; OFFSET 0 keeps PostgreSQL from scanning the table. */
export const joinEach = (table: string, condition: string): string => `
  CROSS JOIN ${table} ON ${condition} -- only: sqlite
  CROSS JOIN LATERAL (SELECT * FROM ${table} WHERE ${condition} OFFSET 0) AS ${table} -- only: postgres
`;

/** Returns the FROM clause for the rows of `table` whose `column` is in the parameter $1 (`listOf`). Both
 *  databases look each value up in the column's index. */
export const fromListed = (table: string, column: string): string => `
  FROM (SELECT value FROM json_each($1)) AS listed -- only: sqlite
  FROM json_array_elements_text(CAST($1 AS json)) AS listed (value) -- only: postgres
  ${joinEach(table, `${table}.${column} = listed.value`)}`;

/** Returns the condition that `column` is a time of the last `ms` milliseconds, an SQL expression. A time in the future is
 *  from a clock that went back, and would count until the clock is there again. */
export const isRecent = (column: string, ms: string): string =>
  `${column} > now_ms() - ${ms} AND ${column} <= now_ms() + clock_step()`;

/** Returns `column` as a time from which work becomes due: a time in the future, from a clock that went back, is now. */
export const notAhead = (column: string): string => `CASE WHEN ${column} > now_ms() THEN now_ms() ELSE ${column} END`;

/** Returns the condition that `column` is in the parameter $1 (`listOf`). */
export const isListed = (column: string): string => `
  ${column} IN (SELECT value FROM json_each($1)) -- only: sqlite
  ${column} = ANY (ARRAY(SELECT json_array_elements_text(CAST($1 AS json)))) -- only: postgres
`;

/** Runs `work` for all items together. When it fails, runs it for each item alone, so that one defect does not
 *  stop the others. */
export async function isolated<T>(
  q: Query,
  items: readonly T[],
  work: (items: readonly T[]) => Promise<void>,
  failed: (item: T, error: unknown) => Promise<void>,
): Promise<void> {
  const all =
    items.length > 1 &&
    (await q
      .savepoint(() => work(items))
      .then(
        () => true,
        () => false,
      ));
  if (all) return;
  for (const item of items) await q.savepoint(() => work([item])).catch((error: unknown) => failed(item, error));
}
