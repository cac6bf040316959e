// Replaces an address wherever else it is written: in the text columns of all tables, and in stored bytes of other
// people's messages, which are deleted. Also searches the files of an SQLite store for what remains.

import { closeSync, existsSync, openSync, readSync } from "node:fs";
import type { Database, Query, Value } from "../driver.ts";

interface MentionColumn {
  readonly name: string;
  readonly isKey: boolean;
}

/** Tables whose rows are no data about people. */
const exempt = ["meta", "leases", "rates", "installations", "secrets", "blobs", "suppressions"];

const replacement = "[erased]";

/** Returns the number of rows and byte strings that were changed. */
export async function eraseMentions(db: Database, addresses: readonly string[]): Promise<number> {
  let changed = 0;
  for (const [table, columns] of await textColumns(db)) {
    const keys = columns.filter(({ isKey }) => isKey).map(({ name }) => name);
    for (const { name, isKey } of columns.filter((one) => one.isText))
      for (const address of isKey ? [] : addresses)
        changed += await db.tx((q) => replaceIn(q, table, name, keys, address));
  }
  return changed + (await eraseBytes(db, addresses));
}

/** Replaces the address in one column, ignoring case. `[erased]` is valid inside of JSON texts. */
async function replaceIn(
  q: Query,
  table: string,
  column: string,
  keys: readonly string[],
  address: string,
): Promise<number> {
  const rows = await q.all<Readonly<Record<string, Value>>>(
    `SELECT ${[...keys, `${column} AS found`].join(", ")} FROM ${table} WHERE lower(${column}) LIKE '%' || $1 || '%' ESCAPE '!'`,
    address.replace(/[!%_]/g, "!$&"),
  );
  for (const row of rows) {
    const where = keys.map((key, index) => `${key} = $${index + 2}`).join(" AND ");
    await q.run(
      `UPDATE ${table} SET ${column} = $1 WHERE ${where}`,
      without(String(row["found"]), address),
      ...keys.map((key) => row[key] ?? null),
    );
  }
  return rows.length;
}

/** `address` is in lower case. */
function without(text: string, address: string): string {
  const lower = text.toLowerCase();
  // A few letters change their length in lower case.
  if (lower.length !== text.length) return replacement;
  let [result, from] = ["", 0];
  for (let at = lower.indexOf(address); at >= 0; at = lower.indexOf(address, from)) {
    result += text.slice(from, at) + replacement;
    from = at + address.length;
  }
  return result + text.slice(from);
}

/** Removes raw messages and files that contain an address, such as mails to several recipients. */
async function eraseBytes(db: Database, addresses: readonly string[]): Promise<number> {
  let [last, removed] = ["", 0];
  for (;;) {
    const from = last;
    const rows = await db.read((q) =>
      q.all<{ id: string; bytes: Uint8Array }>(
        "SELECT id, bytes FROM blobs WHERE id > $1 ORDER BY id LIMIT 20",
        from,
      ),
    );
    for (const { id, bytes } of rows) {
      const text = Buffer.from(bytes).toString("latin1").toLowerCase();
      if (!addresses.some((address) => text.includes(address))) continue;
      removed += 1;
      await db.tx(async (q) => {
        await q.run("UPDATE events SET raw = NULL WHERE raw = $1", id);
        await q.run("UPDATE attachments SET blob = NULL, due_at = NULL WHERE blob = $1", id);
        await q.run("UPDATE files SET blob = NULL WHERE blob = $1", id);
        await q.run("DELETE FROM blobs WHERE id = $1", id);
      });
    }
    last = rows.at(-1)?.id ?? "";
    if (rows.length < 20) return removed;
  }
}

type TextColumn = MentionColumn & { readonly isText: boolean };

async function textColumns(db: Database): Promise<readonly (readonly [string, readonly TextColumn[]])[]> {
  const rows = await db.read((q) =>
    q.all<{ table_name: string; name: string; type: string; pk: number }>(
      `SELECT m.name AS table_name, c.name, c.type, c.pk FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' -- only: sqlite
       SELECT c.table_name, c.column_name AS name, c.data_type AS type, -- only: postgres
         (SELECT COUNT(*)::int FROM information_schema.table_constraints t JOIN information_schema.key_column_usage k USING (constraint_schema, constraint_name) -- only: postgres
          WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_schema = c.table_schema AND t.table_name = c.table_name AND k.column_name = c.column_name) AS pk -- only: postgres
       FROM information_schema.columns c WHERE c.table_schema = current_schema() -- only: postgres`,
    ),
  );
  const tables = Map.groupBy(
    rows.filter(({ table_name }) => !exempt.includes(table_name)),
    ({ table_name }) => table_name,
  );
  return [...tables].map(([table, columns]) => [
    table,
    columns.map(({ name, type, pk }) => ({ name, isKey: pk > 0, isText: /text/i.test(type) })),
  ]);
}

const chunk = 2 ** 20;

/** Counts where one of the texts (lower case) stands in the file, ignoring the case of ASCII letters. 0 for a missing
 *  file. Reads the whole file. */
export function countInFile(path: string, texts: readonly string[]): number {
  if (!existsSync(path)) return 0;
  const wanted = texts.map((text) => Buffer.from(text, "utf8").toString("latin1"));
  const overlap = Math.max(...wanted.map((text) => text.length), 1) - 1;
  const file = openSync(path, "r");
  const buffer = Buffer.alloc(chunk);
  let [count, kept] = [0, ""];
  try {
    for (
      let read = readSync(file, buffer, 0, chunk, null);
      read > 0;
      read = readSync(file, buffer, 0, chunk, null)
    ) {
      const text =
        kept + buffer.toString("latin1", 0, read).replace(/[A-Z]+/g, (upper) => upper.toLowerCase());
      for (const one of wanted) {
        for (let at = text.indexOf(one); at >= 0; at = text.indexOf(one, at + 1))
          // A shorter text that ended in the overlap was counted with the chunk before.
          if (at + one.length > kept.length) count += 1;
      }
      kept = overlap === 0 ? "" : text.slice(-overlap);
    }
    return count;
  } finally {
    closeSync(file);
  }
}
