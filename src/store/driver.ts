// What the rest of src/store writes its SQL against: one text, two drivers. Placeholders are $1, $2 ...; a line that
// ends in `-- only: sqlite` or `-- only: postgres` exists for that database alone; now_ms() is the database's clock.

export type Value = string | number | null | Uint8Array;
export type Row = Record<string, unknown>;

/** What stages take: stored events, due turns, ready replies, due drafts; attachments whose bytes are elsewhere; live
 *  sessions, which only the sweep looks at; escalations and notices; looks at the platform's conversations. */
export type Work =
  | "events"
  | "turns"
  | "replies"
  | "drafts"
  | "attachments"
  | "sessions"
  | "escalations"
  | "watches";

/** Statements inside one transaction. Await each before the next; no other I/O in between. */
export interface Query {
  all<T = Row>(sql: string, ...values: Value[]): Promise<T[]>;
  one<T = Row>(sql: string, ...values: Value[]): Promise<T | undefined>;
  /** The number of rows changed. */
  run(sql: string, ...values: Value[]): Promise<number>;
  /** What became due since somebody last looked. A hint, so that a commit looks only where it may find something; what it
   *  misses (other nodes, the passing of time) is found by the sweep. */
  readonly touched: Set<Work>;
  /** Milliseconds until what was written becomes due, where that is too soon to wait for the sweep. A hint, too. */
  readonly waits: Set<number>;
  /** What `work` wrote is undone when it throws; the transaction around it lives on. */
  savepoint<T>(work: () => Promise<T>): Promise<T>;
}

export interface Database {
  readonly kind: "sqlite" | "postgres";
  /** Runs `work` in a transaction and resolves after the commit is on disk. A throw rolls it back and is thrown on.
   *  `work` may run more than once, and be abandoned wherever it waits for `q`; only its last run counts. SQLite runs
   *  several in one commit, and again, each in its savepoint, when one throws. PostgreSQL runs it again after a deadlock,
   *  whatever savepoint that was in, and gives up on locks and statements that take too long, unless it is `unhurried`: a
   *  migration waits for its turn and takes what it needs. */
  tx<T>(work: (q: Query) => Promise<T>, options?: { readonly unhurried?: boolean }): Promise<T>;
  /** Reads outside any transaction. */
  read<T>(work: (q: Query) => Promise<T>): Promise<T>;
  /** Calls back when another node changed something worth looking at. */
  onWake(listener: () => void): void;
  /** Tells the other nodes, with the commit of this transaction. */
  wake(q: Query): Promise<void>;
  close(): Promise<void>;
}

const texts = new Map<string, string>();

/** The SQL as `kind` reads it. */
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
