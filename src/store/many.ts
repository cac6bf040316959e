// Statements with several rows of values. One statement for many rows saves round trips on PostgreSQL and
// bindings on SQLite.

import type { Query, Value } from "./driver.ts";

/** Largest number of rows in one statement. Keeps the number of parameters below every limit of the
 *  databases. */
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

  /** Returns the number of rows changed. */
  async run(q: Query, rows: readonly T[]): Promise<number> {
    let changed = 0;
    for (const [sql, values] of this.#statements(rows)) changed += await q.run(sql, ...values);
    return changed;
  }

  /** See `Query.write`. */
  async write(q: Query, rows: readonly T[]): Promise<void> {
    for (const [sql, values] of this.#statements(rows)) await q.write(sql, ...values);
  }

  *#statements(rows: readonly T[]): Generator<readonly [sql: string, values: readonly Value[]]> {
    for (let at = 0; at < rows.length; ) {
      const count = Math.min(mostRows, 2 ** Math.floor(Math.log2(rows.length - at)));
      const values = rows
        .slice(at, at + count)
        .flatMap((row) => this.#names.map((name) => (row as Readonly<Record<string, Value>>)[name] ?? null));
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
    | "polls"
    | "conversations"
    | "escalations"
    | "actions"
    | "platform_webhooks",
  open: string,
  due?: string,
): string {
  // Webhooks of the platform belong to an agent.
  const column = table === "platform_webhooks" ? "agent" : "channel";
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
