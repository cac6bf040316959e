// Database interface of src/store: one SQL text for two drivers. Placeholders are $1, $2 ...; a line that
// ends in `-- only: sqlite` or `-- only: postgres` exists for that database only; now_ms() is the
// database's clock.

import type { Log } from "bridgehead/contract";
import type { CommitReport, Hop } from "../ops/hops.ts";
import type { LaneLeases } from "./leases.ts";

export type Value = string | number | null | Uint8Array;
export type Row = Record<string, unknown>;

/** Kinds of work for the stages: stored events, due turns, ready replies, due drafts; attachments that
 *  the provider stores; live sessions, which only the sweep checks; escalations and notifications; polls
 *  of the platform's conversations. */
export type Work =
  | "events"
  | "turns"
  | "replies"
  | "drafts"
  | "attachments"
  | "sessions"
  | "escalations"
  | "polls";

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
  /** Work that became due since the last check, with its channels; null when the channels are unknown. A
   *  hint that limits the checks after a commit to these (`touch` adds to it). The sweep finds the rest:
   *  changes by other nodes, and rows that become due with time. */
  readonly touched: Map<Work, Set<string> | null>;
  /** Milliseconds until written rows become due. A hint for the scheduler's timer, which ignores those that the
   *  sweep finds soon enough. */
  readonly waits: Set<number>;
  /** Runs `work` in a savepoint: when it throws, its writes are rolled back and the outer transaction
   *  continues. */
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

/** Notes that work became due in this transaction, in `channel` if it is known. */
export function touch(q: Query, work: Work, channel?: string): void {
  const channels = q.touched.get(work);
  if (channel === undefined || channels === null) q.touched.set(work, null);
  else if (channels === undefined) q.touched.set(work, new Set([channel]));
  else channels.add(channel);
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
  /** True: does not wait for a running sync, to share the next commit with others. For live calls. */
  readonly hurried?: boolean;
}

/** Receives each commit of a store when it is on disk, for the log and the metrics. Must not throw. */
export type StoreObserver = (report: CommitReport) => void;

export interface Database {
  readonly kind: "sqlite" | "postgres";
  /** Runs `work` in a transaction and resolves after the commit is on disk. An exception rolls it back
   *  and is rethrown. `work` may run more than once, and may be abandoned at any statement of `q`; only
   *  its last run counts. SQLite groups several transactions into one commit. When one throws, all of
   *  them run again, each in its savepoint. PostgreSQL runs `work` again after a deadlock, even one
   *  inside a savepoint. It aborts on lock and statement timeouts, unless the transaction is
   *  `unhurried`: a migration has no timeouts. */
  tx<T>(work: (q: Query) => Promise<T>, options?: TxOptions): Promise<T>;
  /** Reads outside a transaction. Resolves when everything that it can have seen is on disk. */
  read<T>(work: (q: Query) => Promise<T>): Promise<T>;
  /** Does a small part of the upkeep of an SQLite file: returns free pages to the file system, then updates
   *  the planner's statistics. Resolves to true while pages are left. Called at start and after retention.
   *  PostgreSQL has autovacuum. */
  maintain(): Promise<boolean>;
  /** Registers a listener that is called when another node has announced new work. */
  onWake(listener: () => void): void;
  /** Sets the observer. Called once, by the daemon; a store of a command has none. */
  observe(observer: StoreObserver): void;
  /** Notifies the other nodes when this transaction commits. */
  wake(q: Query): Promise<void>;
  close(): Promise<void>;
}

/** Runs `work` in a transaction and resolves at the commit, before it is on disk; the sync has started then. On
 *  PostgreSQL it resolves like `tx`. See `TxOptions.committed`. */
export function atCommit<T>(db: Database, work: (q: Query) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let result: T;
    const written = db.tx(async (q) => (result = await work(q)), {
      committed: () => resolve(result),
      hurried: true,
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
