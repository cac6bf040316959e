// Statements with several rows of values. One statement for many rows saves round trips on PostgreSQL and
// bindings on SQLite.

import type { Query, Value } from "./driver.ts";

/** Largest number of rows in one statement. Keeps the number of parameters below every limit of the
 *  databases. */
const mostRows = 32;

/** One statement with the values of its rows: `q.run(sql, ...values)`. */
export type BoundStatement = readonly [sql: string, values: readonly Value[]];

/** Returns a function that distributes rows over statements of 32, 16, 8 ... 1 rows, in their order. Only
 *  these sizes occur, so that both drivers prepare few texts. `row` is the template of one row, with `?`
 *  for each value: `(?, ?, now_ms())`. */
export function manyRows(
  head: string,
  row: string,
  tail = "",
): (rows: readonly (readonly Value[])[]) => readonly BoundStatement[] {
  const texts = new Map<number, string>();
  const textFor = (count: number): string => {
    let text = texts.get(count);
    if (text === undefined) {
      let place = 0;
      const values = Array.from({ length: count }, () => row.replace(/\?/g, () => `$${++place}`));
      text = `${head} ${values.join(", ")} ${tail}`;
      texts.set(count, text);
    }
    return text;
  };
  return (rows) => {
    const statements: BoundStatement[] = [];
    for (let at = 0; at < rows.length; ) {
      const count = Math.min(mostRows, 2 ** Math.floor(Math.log2(rows.length - at)));
      statements.push([textFor(count), rows.slice(at, at + count).flat()]);
      at += count;
    }
    return statements;
  };
}

/** Returns a list of ids as one parameter. Its statement has the same text for any number of ids. */
export const listOf = (ids: Iterable<string>): string => JSON.stringify([...new Set(ids)]);

/** Returns the FROM clause for the rows of `table` whose `column` is in the parameter $1 (`listOf`). Both
 *  databases look each value up in the column's index; OFFSET 0 keeps PostgreSQL from scanning the table. */
export const fromListed = (table: string, column: string): string => `
  FROM (SELECT value FROM json_each($1)) AS listed -- only: sqlite
  CROSS JOIN ${table} ON ${table}.${column} = listed.value -- only: sqlite
  FROM json_array_elements_text(CAST($1 AS json)) AS listed (value) -- only: postgres
  CROSS JOIN LATERAL (SELECT * FROM ${table} WHERE ${table}.${column} = listed.value OFFSET 0) AS ${table} -- only: postgres
`;

/** Returns the condition that `column` is in the parameter $1 (`listOf`). */
export const isListed = (column: string): string => `
  ${column} IN (SELECT value FROM json_each($1)) -- only: sqlite
  ${column} = ANY (ARRAY(SELECT json_array_elements_text(CAST($1 AS json)))) -- only: postgres
`;

/** Returns SQL that lists the channels with rows that satisfy `open`, and `due` if given. It iterates
 *  over the channels through the index on (channel, ...) WHERE `open`; a plain DISTINCT would read the
 *  whole backlog at every commit. */
export function channelsIn(
  table:
    | "events"
    | "turns"
    | "replies"
    | "drafts"
    | "attachments"
    | "watches"
    | "conversations"
    | "escalations"
    | "actions"
    | "intakes",
  open: string,
  due?: string,
): string {
  // Webhooks of the platform belong to an agent.
  const column = table === "intakes" ? "agent" : "channel";
  const waiting =
    due === undefined
      ? ""
      : `AND EXISTS (SELECT 1 FROM ${table} WHERE ${open} AND ${table}.channel = found.channel AND ${due})`;
  return `WITH RECURSIVE found (channel) AS (
     SELECT MIN(${column}) FROM ${table} WHERE ${open}
     UNION ALL
     SELECT (SELECT MIN(${column}) FROM ${table} WHERE ${open} AND ${column} > found.channel)
     FROM found WHERE found.channel IS NOT NULL
   )
   SELECT channel FROM found WHERE channel IS NOT NULL ${waiting}`;
}

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
  for (const item of items)
    await q.savepoint(() => work([item])).catch((error: unknown) => failed(item, error));
}
