// Replaces an address wherever else it is written: in the text columns of all tables, and in stored bytes of other
// people's messages, which are deleted. Also searches the files of an SQLite store for what remains.

import { closeSync, existsSync, openSync, readSync } from "node:fs";
import type { Database, Query, Value } from "../driver.ts";

/** Tables whose rows are no data about people. */
const exempt = ["meta", "leases", "rates", "installations", "secrets", "blobs", "raw_messages", "suppressions"];

const replacement = "[erased]";

/** Rows that one transaction changes. */
const batch = 100;

export interface Mentions {
  /** Rows and byte strings that were changed. */
  readonly changed: number;
  /** Longer addresses of other people that contain an erased one, in lower case. They stay. */
  readonly kept: ReadonlySet<string>;
}

/** Erases the addresses (lower case) where they are not a part of a longer one. Reads without a transaction, so that a
 *  running daemon can write in the meantime. */
export async function eraseMentions(db: Database, addresses: readonly string[]): Promise<Mentions> {
  const kept = new Set<string>();
  let changed = await eraseParticipants(db, addresses);
  changed += await eraseInColumns(db, addresses, kept);
  for (const table of byteTables) changed += await eraseBytesIn(db, table, addresses, kept);
  return { changed, kept };
}

/** Erases the addresses in all text columns, also of another database than the store. Adds the longer addresses that
 *  stay to `kept`. Returns the number of changed rows. */
export async function eraseInColumns(db: Database, addresses: readonly string[], kept: Set<string>): Promise<number> {
  let changed = 0;
  for (const [table, columns] of await textColumns(db)) {
    const keys = columns.filter(({ isKey }) => isKey).map(({ name }) => name);
    for (const { name, isKey } of columns.filter((one) => one.isText)) {
      const isFixed = isKey || keys.length === 0 || exempt.includes(table);
      changed += await replaceIn(db, { table, column: name, keys, isFixed, addresses, kept });
    }
  }
  return changed;
}

/** Reads all rows of a table. PostgreSQL limits the time of statements outside of an unhurried transaction; reads there
 *  block no writer. */
const scan = <T>(db: Database, work: (q: Query) => Promise<T>): Promise<T> =>
  db.kind === "postgres" ? db.tx(work, { unhurried: true }) : db.read(work);

/** Removes the addresses from the participants of other people's conversations. */
async function eraseParticipants(db: Database, addresses: readonly string[]): Promise<number> {
  let removed = 0;
  for (const address of addresses) {
    const rows = await scan(db, (q) =>
      q.all<{ conversation: string; address: string }>(
        "SELECT conversation, address FROM participants WHERE lower(address) = $1",
        address,
      ),
    );
    removed += await inBatches(db, rows, (q, row) =>
      q.run("DELETE FROM participants WHERE conversation = $1 AND address = $2", row.conversation, row.address),
    );
  }
  return removed;
}

/** Returns the sum of what `change` returns. */
async function inBatches<T>(
  db: Database,
  rows: readonly T[],
  change: (q: Query, row: T) => Promise<number>,
): Promise<number> {
  let changed = 0;
  for (let at = 0; at < rows.length; at += batch)
    changed += await db.tx(async (q) => {
      let count = 0;
      for (const row of rows.slice(at, at + batch)) count += await change(q, row);
      return count;
    });
  return changed;
}

interface SearchedColumn {
  readonly table: string;
  readonly column: string;
  readonly keys: readonly string[];
  /** True: the values stay as they are. */
  readonly isFixed: boolean;
  readonly addresses: readonly string[];
  /** Receives the longer addresses that stay. */
  readonly kept: Set<string>;
}

/** How often a column is searched again because the daemon has changed a row between the search and its change. */
const mostSearches = 3;

/** Replaces the addresses in one column, ignoring case. `[erased]` is valid inside of JSON texts. */
async function replaceIn(db: Database, searched: SearchedColumn): Promise<number> {
  const { table, column, keys, isFixed, addresses, kept } = searched;
  const contains = addresses.map((_, at) => `lower(${column}) LIKE '%' || $${at + 1} || '%' ESCAPE '!'`);
  const where = [...keys, column].map((key, index) => `${key} = $${index + 2}`).join(" AND ");
  let changed = 0;
  for (let searches = 0; searches < mostSearches; searches += 1) {
    const rows = await scan(db, (q) =>
      q.all<Readonly<Record<string, Value>>>(
        `SELECT ${[...keys, `${column} AS found`].join(", ")} FROM ${table} WHERE ${contains.join(" OR ")}`,
        ...addresses.map((address) => address.replace(/[!%_]/g, "!$&")),
      ),
    );
    const outdated = rows.flatMap((row) => {
      const old = String(row["found"]);
      const text = without(old, addresses, kept);
      return text === old || isFixed ? [] : [{ row, old, text }];
    });
    const count = await inBatches(db, outdated, (q, { row, old, text }) =>
      q.run(`UPDATE ${table} SET ${column} = $1 WHERE ${where}`, text, ...keys.map((key) => row[key] ?? null), old),
    );
    changed += count;
    if (count === outdated.length) break;
  }
  return changed;
}

function without(text: string, addresses: readonly string[], kept: Set<string>): string {
  let result = text;
  for (const address of addresses) {
    const lower = result.toLowerCase();
    // A few letters change their length in lower case.
    if (lower.length !== result.length) {
      if (wholeAt(lower, address, 0, kept) >= 0) return replacement;
      continue;
    }
    let [parts, from] = ["", 0];
    for (let at = wholeAt(lower, address, 0, kept); at >= 0; at = wholeAt(lower, address, from, kept)) {
      parts += result.slice(from, at) + replacement;
      from = at + address.length;
    }
    result = parts + result.slice(from);
  }
  return result;
}

/** The longest address in a mail (RFC 5321), and more than the escape sequences before it. */
const longestAddress = 320;

/** Returns the next place from `from` on where the address (lower case, like the text) is not a part of a longer one; -1
 *  without one. Adds the longer ones that are passed to `kept`. A letter may belong to an escape sequence of JSON, of
 *  quoted-printable or of a URL: then an address begins after it. */
function wholeAt(text: string, address: string, from: number, kept: Set<string>): number {
  for (let at = text.indexOf(address, from); at >= 0; at = text.indexOf(address, at + 1)) {
    const end = at + address.length;
    const before = text.slice(Math.max(0, at - longestAddress), at);
    const isBegun = !/[\w.+%-]$/.test(before) || /(?:\\[bfnrt]|\\u[0-9a-f]{4}|[=%][0-9a-f]{2})$/.test(before);
    const after = /^(?:[\w-]|\.\w)[\w.-]*/.exec(text.slice(end, end + longestAddress))?.[0] ?? "";
    if (isBegun && after === "") return at;
    const begin = isBegun ? "" : trailing(before);
    kept.add(begin + address + after.replace(/\.+$/, ""));
  }
  return -1;
}

/** Returns the characters of an address at the end of the text. */
function trailing(text: string): string {
  let at = text.length;
  while (at > 0 && /[\w.+%-]/.test(text.charAt(at - 1))) at -= 1;
  return text.slice(at);
}

interface StoredBytes {
  readonly channel: string;
  readonly id: string | number;
  readonly bytes: Uint8Array;
}

/** Where bytes are stored: how they are read after a channel and an id, and what deletes them. */
const byteTables = [
  {
    first: 0,
    next: "SELECT channel, event AS id, bytes FROM raw_messages WHERE (channel, event) > ($1, $2) ORDER BY channel, event LIMIT 20",
    remove: async (q: Query, { channel, id }: StoredBytes) => {
      await q.run("DELETE FROM raw_messages WHERE channel = $1 AND event = $2", channel, id);
    },
  },
  {
    first: "",
    next: "SELECT '' AS channel, id, bytes FROM blobs WHERE id > $2 AND $1 = '' ORDER BY id LIMIT 20",
    remove: async (q: Query, { id }: StoredBytes) => {
      await q.run("UPDATE attachments SET blob = NULL, due_at = NULL WHERE blob = $1", id);
      await q.run("UPDATE files SET blob = NULL WHERE blob = $1", id);
      await q.run("DELETE FROM blobs WHERE id = $1", id);
    },
  },
] as const;

/** Removes raw messages or files that contain an address, such as mails to several recipients. */
async function eraseBytesIn(
  db: Database,
  { first, next, remove }: (typeof byteTables)[number],
  addresses: readonly string[],
  kept: Set<string>,
): Promise<number> {
  let last: Pick<StoredBytes, "channel" | "id"> = { channel: "", id: first };
  let removed = 0;
  for (;;) {
    const { channel, id } = last;
    const rows = await db.read((q) => q.all<StoredBytes>(next, channel, id));
    for (const row of rows) {
      const { bytes } = row;
      const text = Buffer.from(bytes).toString("latin1").toLowerCase();
      const here = new Set<string>();
      const encoded = addresses.map((address) => Buffer.from(address, "utf8").toString("latin1"));
      if (!encoded.some((address) => wholeAt(text, address, 0, here) >= 0)) {
        for (const one of here) kept.add(one);
        continue;
      }
      removed += 1;
      await db.tx((q) => remove(q, row));
    }
    last = rows.at(-1) ?? last;
    if (rows.length < 20) return removed;
  }
}

interface TextColumn {
  readonly name: string;
  readonly isKey: boolean;
  readonly isText: boolean;
}

async function textColumns(db: Database): Promise<readonly (readonly [string, readonly TextColumn[]])[]> {
  const rows = await db.read((q) =>
    q.all<{ table_name: string; name: string; type: string; pk: number }>(
      `SELECT m.name AS table_name, c.name, c.type, c.pk FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' -- only: sqlite
       SELECT t.relname AS table_name, c.attname AS name, format_type(c.atttypid, NULL) AS type, -- only: postgres
         COALESCE(c.attnum = ANY (k.indkey), FALSE)::int AS pk -- only: postgres
       FROM pg_class t JOIN pg_attribute c ON c.attrelid = t.oid LEFT JOIN pg_index k ON k.indrelid = t.oid AND k.indisprimary -- only: postgres
       WHERE t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace AND c.attnum > 0 AND NOT c.attisdropped -- only: postgres`,
    ),
  );
  const tables = Map.groupBy(rows, ({ table_name }) => table_name);
  return [...tables].map(([table, columns]) => [
    table,
    columns.map(({ name, type, pk }) => ({ name, isKey: pk > 0, isText: /text/i.test(type) })),
  ]);
}

const chunk = 2 ** 20;

/** Counts where one of the texts (lower case) stands in the file, ignoring the case of ASCII letters. 0 for a missing
 *  file. Reads the whole file. SQLite stores columns without separators, so parts of words count too, except parts of
 *  the longer addresses in `kept`. */
export function countInFile(path: string, texts: readonly string[], kept: ReadonlySet<string> = new Set()): number {
  if (!existsSync(path)) return 0;
  const wanted = texts.map((text) => Buffer.from(text, "utf8").toString("latin1"));
  const around = wanted.map((text) => surroundings(text, kept));
  const left = Math.max(0, ...around.flat().map(({ before }) => before.length));
  const right = Math.max(0, ...around.flat().map(({ after }) => after.length));
  const longest = Math.max(1, ...wanted.map(({ length }) => length));
  const file = openSync(path, "r");
  const buffer = Buffer.alloc(chunk);
  // Matches that begin in text[from, limit) are new and complete, with what may stand around them.
  let [count, text, from] = [0, "", 0];
  try {
    for (let isEnd = false; !isEnd; ) {
      const read = readSync(file, buffer, 0, chunk, null);
      isEnd = read === 0;
      text += buffer.toString("latin1", 0, read).replace(/[A-Z]+/g, (upper) => upper.toLowerCase());
      const limit = isEnd ? text.length : Math.max(from, text.length - longest - right);
      for (const [index, one] of wanted.entries())
        for (let at = text.indexOf(one, from); at >= 0 && at < limit; at = text.indexOf(one, at + 1))
          if (!isInside(text, at, at + one.length, around[index] ?? [])) count += 1;
      const start = Math.max(0, limit - left);
      text = text.slice(start);
      from = limit - start;
    }
    return count;
  } finally {
    closeSync(file);
  }
}

interface AddressContext {
  readonly before: string;
  readonly after: string;
}

/** What stands before and after the text in each of the longer addresses. */
function surroundings(text: string, kept: ReadonlySet<string>): readonly AddressContext[] {
  return [...kept].flatMap((one) => {
    const found: AddressContext[] = [];
    for (let at = one.indexOf(text); at >= 0; at = one.indexOf(text, at + 1))
      found.push({ before: one.slice(0, at), after: one.slice(at + text.length) });
    return found;
  });
}

const isInside = (text: string, at: number, end: number, around: readonly AddressContext[]): boolean =>
  around.some(
    ({ before, after }) =>
      text.startsWith(after, end) && text.startsWith(before, at - before.length) && at >= before.length,
  );
