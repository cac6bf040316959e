// Copies a whole store between SQLite and PostgreSQL, row by row, with the same ids. Until the last transaction the target
// is marked as incomplete, and no daemon starts on it. A copy that was interrupted starts again.

import { createHash } from "node:crypto";
import { failpoints } from "../ops/failpoints.ts";
import type { Database, Query, Value } from "./driver.ts";
import { adoptCopy } from "./installation.ts";
import { readMeta, writeMeta } from "./tables/meta.ts";

interface StoreTable {
  readonly name: string;
  readonly columns: readonly string[];
  readonly keys: readonly string[];
  /** Rows per batch; few for tables with bytes. */
  readonly batch: number;
}

/** Marks in `meta`. `moved`: the store was copied, and another one is in use. `copy_incomplete`: a target that is being
 *  written. `copy_at`: when the last batch of this PostgreSQL store was read. */
const ownMeta = ["schema", "backup", "proof", "boot", "power_failed_at", "moved", "copy_incomplete", "copy_at"];

type CopiedStore = Readonly<Record<string, Value>>;

export interface CopiedTable {
  readonly table: string;
  readonly rows: number;
  /** Checksum of all rows, independent of their order: the same in both stores. */
  readonly checksum: string;
}

export interface CopyOptions {
  readonly source: Database;
  readonly target: Database;
  /** The SQLite file of the target; null for PostgreSQL. */
  readonly targetFile: string | null;
  /** Runs in the last transaction, for rows that end with the process that wrote them: leases and live calls. */
  readonly finish: (q: Query) => Promise<void>;
  readonly progress: {
    /** The number of rows to copy and to verify. */
    total(rows: number): void;
    table(name: string): void;
    rows(count: number): void;
  };
}

/** Copies all rows and verifies counts and checksums. The caller holds the locks of SQLite stores and has migrated both.
 *  Exactly one of the two is SQLite. Throws when the source is an incomplete copy, when the target has rows, when a
 *  daemon uses a PostgreSQL store, and when the verification fails; the target then stays incomplete. */
export async function copyRows(options: CopyOptions): Promise<readonly CopiedTable[]> {
  const { source, target, targetFile, finish, progress } = options;
  const tables = await tablesOf(source.kind === "sqlite" ? source : target);
  for (const db of [source, target]) await refuseRunning(db);
  if ((await source.read((q) => readMeta(q, "copy_incomplete"))) === 1)
    throw new Error("copying the store: the source is an incomplete copy: name the store that it was copied from");
  await prepare(target, tables);
  progress.total(3 * (await countRows(source, tables)));
  const copied: CopiedTable[] = [];
  for (const table of tables) {
    const insertAll = async (rows: readonly CopiedStore[]) => {
      await target.tx((q) => insert(q, table, rows), { unhurried: true });
      failpoints["store.copy"].publish({ phase: "after", table: table.name });
      await markRead(source);
    };
    copied.push(await scan((work) => source.read(work), table, progress, insertAll));
  }
  for (const [index, table] of tables.entries())
    compare(copied[index], await scan((work) => target.read(work), table, progress));
  await refuseRunning(source);
  await verifySource(source, tables, copied, progress);
  await target.tx(
    async (q) => {
      await copyMeta(source, q);
      await finish(q);
      if (target.kind === "postgres") await continueSequences(q);
    },
    { unhurried: true },
  );
  await adoptCopy(target, targetFile);
  failpoints["store.copied"].publish({ phase: "before" });
  await target.tx((q) => q.run("DELETE FROM meta WHERE name = 'copy_incomplete'"));
  return copied;
}

/** Reads the whole table, calls `each` for its batches, and returns the checksum. */
async function scan(
  read: Database["read"],
  table: StoreTable,
  progress: CopyOptions["progress"],
  each?: (rows: readonly CopiedStore[]) => Promise<unknown>,
): Promise<CopiedTable> {
  progress.table(table.name);
  const sum = new Checksum(table);
  for await (const rows of rowsOf(read, table)) {
    for (const row of rows) sum.add(row);
    await each?.(rows);
    progress.rows(rows.length);
  }
  return sum.result();
}

/** Reads the source again and marks it as moved, in one transaction that keeps commands from writing. Throws when a row
 *  has changed since it was copied. From here on no daemon starts on the source: its work is in the target. */
async function verifySource(
  source: Database,
  tables: readonly StoreTable[],
  copied: readonly CopiedTable[],
  progress: CopyOptions["progress"],
): Promise<void> {
  await source.tx(
    async (q) => {
      const names = tables.map(({ name }) => name).join(", ");
      await q.all(`LOCK TABLE ${names} IN SHARE MODE -- only: postgres\n SELECT 1 WHERE 1 = 0 -- only: sqlite`);
      for (const [index, table] of tables.entries()) {
        const before = copied[index];
        const now = await scan(
          (work) => work(q),
          table,
          progress,
          () => markRead(source),
        );
        if (before?.rows !== now.rows || before.checksum !== now.checksum)
          throw new Error(
            `copying the store: the source has changed meanwhile (${table.name}, ${before?.rows} rows, now ${now.rows}): stop every daemon and command, and run this again`,
          );
      }
      await writeMeta(q, "moved", 1);
    },
    { unhurried: true },
  );
}

/** Returns the tables with their columns and keys, parents before the tables that refer to them. `meta` is copied apart. */
async function tablesOf(sqlite: Database): Promise<readonly StoreTable[]> {
  return sqlite.read(async (q) => {
    const names = await q.all<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'meta' ORDER BY name",
    );
    const found = new Map<string, StoreTable & { readonly parents: readonly string[] }>();
    for (const { name } of names) {
      const columns = await q.all<{ name: string; type: string; pk: number }>(
        "SELECT name, type, pk FROM pragma_table_info($1) ORDER BY cid",
        name,
      );
      const parents = await q.all<{ parent: string }>(
        'SELECT DISTINCT "table" AS parent FROM pragma_foreign_key_list($1)',
        name,
      );
      const keys = columns.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk);
      found.set(name, {
        name,
        columns: columns.map((column) => column.name),
        keys: keys.map((column) => column.name),
        batch: columns.some(({ type }) => type === "BLOB") ? 20 : 300,
        parents: parents.map(({ parent }) => parent).filter((parent) => parent !== name),
      });
    }
    const ordered: StoreTable[] = [];
    while (ordered.length < found.size) {
      const done = new Set(ordered.map(({ name }) => name));
      const next = [...found.values()].filter(
        ({ name, parents }) => !done.has(name) && parents.every((parent) => done.has(parent)),
      );
      if (next.length === 0) throw new Error("ordering the tables: their references form a cycle");
      ordered.push(...next);
    }
    return ordered;
  });
}

/** Throws when a node uses the PostgreSQL store. A process that uses an SQLite store holds its lock. */
async function refuseRunning(db: Database): Promise<void> {
  if (db.kind === "sqlite") return;
  const row = await db.read((q) =>
    q.one<{ name: string; left: number }>(
      "SELECT name, until - now_ms() AS left FROM leases WHERE name LIKE 'node:%' AND until > now_ms() LIMIT 1",
    ),
  );
  if (!row) return;
  const seconds = Math.ceil(row.left / 1000);
  throw new Error(
    `copying the store: a daemon is running on it (${row.name.slice("node:".length)}): stop every daemon; one that was killed counts as running for ${seconds} s`,
  );
}

/** Empties a target that an earlier copy has left incomplete, and marks it. Throws when it has rows of its own. */
async function prepare(target: Database, tables: readonly StoreTable[]): Promise<void> {
  await target.tx(
    async (q) => {
      const marked = await q.one("SELECT 1 AS one FROM meta WHERE name = 'copy_incomplete'");
      for (const { name } of [...tables].reverse()) {
        if (marked) await q.run(`DELETE FROM ${name}`);
        else if (await q.one(`SELECT 1 AS one FROM ${name} LIMIT 1`))
          throw new Error(
            `copying the store: the target is not empty (${name} has rows): name an empty database, or a new file`,
          );
      }
      await writeMeta(q, "copy_incomplete", 1);
    },
    { unhurried: true },
  );
}

/** Records that a batch was read; a process that uses an SQLite store holds its lock. */
async function markRead(source: Database): Promise<void> {
  const mark = `INSERT INTO meta (name, value) VALUES ('copy_at', now_ms())
     ON CONFLICT (name) DO UPDATE SET value = excluded.value`;
  if (source.kind === "postgres") await source.tx((q) => q.run(mark));
}

async function countRows(db: Database, tables: readonly StoreTable[]): Promise<number> {
  return db.read(async (q) => {
    let rows = 0;
    for (const { name } of tables)
      rows += (await q.one<{ count: number }>(`SELECT COUNT(*) AS count FROM ${name}`))?.count ?? 0;
    return rows;
  });
}

/** Reads the table in batches, in the order of its key. */
async function* rowsOf(read: Database["read"], table: StoreTable): AsyncGenerator<readonly CopiedStore[]> {
  const { name, columns, keys, batch } = table;
  const select = `SELECT ${columns.join(", ")} FROM ${name}`;
  const order = `ORDER BY ${keys.join(", ")} LIMIT ${batch}`;
  const after = keys.map((_, index) => `$${index + 1}`).join(", ");
  let last: CopiedStore | undefined;
  for (;;) {
    const from = last;
    const rows = await read((q) =>
      from === undefined
        ? q.all<CopiedStore>(`${select} ${order}`)
        : q.all<CopiedStore>(
            `${select} WHERE (${keys.join(", ")}) > (${after}) ${order}`,
            ...keys.map((key) => from[key] ?? null),
          ),
    );
    if (rows.length > 0) yield rows;
    if (rows.length < batch) return;
    last = rows.at(-1);
  }
}

async function insert(q: Query, { name, columns }: StoreTable, rows: readonly CopiedStore[]): Promise<void> {
  for (const row of rows) {
    const places = columns.map((_, index) => `$${index + 1}`).join(", ");
    await q.write(
      `INSERT INTO ${name} (${columns.join(", ")})
       OVERRIDING SYSTEM VALUE -- only: postgres
       VALUES (${places})`,
      ...columns.map((column) => (isLocal(name, column) ? null : storable(row[column] ?? null))),
    );
  }
}

/** The identity of a table belongs to one database. */
const isLocal = (table: string, column: string): boolean => table === "installations" && column === "table_id";

/** PostgreSQL stores no NUL characters in texts. */
const storable = (value: Value): Value => (typeof value === "string" ? value.replaceAll("\0", "\ufffd") : value);

/** Adds up the digests of the rows. */
class Checksum {
  readonly #table: StoreTable;
  readonly #sum = Buffer.alloc(32);
  #rows = 0;

  constructor(table: StoreTable) {
    this.#table = table;
  }

  add(row: CopiedStore): void {
    const values = this.#table.columns.map((column) => {
      if (isLocal(this.#table.name, column)) return null;
      const value = storable(row[column] ?? null);
      return value instanceof Uint8Array ? { bytes: createHash("sha256").update(value).digest("hex") } : value;
    });
    // Rows differ by their keys, so no two digests cancel each other.
    const digest = createHash("sha256").update(JSON.stringify(values)).digest();
    for (let index = 0; index < 32; index++) this.#sum[index] = (this.#sum[index] ?? 0) ^ (digest[index] ?? 0);
    this.#rows += 1;
  }

  result(): CopiedTable {
    return { table: this.#table.name, rows: this.#rows, checksum: this.#sum.toString("hex").slice(0, 16) };
  }
}

function compare(copied: CopiedTable | undefined, found: CopiedTable): void {
  if (copied?.rows === found.rows && copied.checksum === found.checksum) return;
  throw new Error(
    `copying the store: ${found.table} has ${found.rows} rows with checksum ${found.checksum} in the target, and ${copied?.rows} with ${copied?.checksum} in the source: run this again`,
  );
}

async function copyMeta(source: Database, q: Query): Promise<void> {
  const rows = await source.read((own) => own.all<{ name: string; value: number }>("SELECT name, value FROM meta"));
  for (const { name, value } of rows.filter((row) => !ownMeta.includes(row.name))) await writeMeta(q, name, value);
}

/** Copied numbers do not advance the sequences: those of identity columns, of escalations, and of tokens. */
async function continueSequences(q: Query): Promise<void> {
  const tables = await q.all<{ name: string }>(
    `SELECT table_name AS name FROM information_schema.columns
     WHERE table_schema = current_schema() AND column_name = 'id' AND is_identity = 'YES'`,
  );
  for (const { name } of tables)
    await q.all(`SELECT setval(pg_get_serial_sequence('${name}', 'id'), GREATEST(MAX(id), 1)) FROM ${name}`);
  await q.all("SELECT setval('escalation_numbers', GREATEST(MAX(number), 1)) FROM escalations");
  await q.all("SELECT setval('lane_tokens', GREATEST(MAX(token), 1)) FROM lanes");
}
