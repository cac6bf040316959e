// Statements with several rows of values. One statement for many rows saves round trips on PostgreSQL and
// bindings on SQLite.

import type { Value } from "./driver.ts";

/** Largest number of rows in one statement. Keeps the number of parameters below every limit of the
 *  databases. */
const mostRows = 32;

/** One statement with the values of its rows: `q.run(sql, ...values)`. */
export type Statement = readonly [sql: string, values: readonly Value[]];

/** Returns a function that distributes rows over statements of 32, 16, 8 ... 1 rows, in their order. Only
 *  these sizes occur, so that both drivers prepare few texts. `row` is the template of one row, with `?`
 *  for each value: `(?, ?, now_ms())`. */
export function manyRows(
  head: string,
  row: string,
  tail = "",
): (rows: readonly (readonly Value[])[]) => Iterable<Statement> {
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
  return function* (rows) {
    for (let at = 0; at < rows.length; ) {
      const count = Math.min(mostRows, 2 ** Math.floor(Math.log2(rows.length - at)));
      yield [textFor(count), rows.slice(at, at + count).flat()];
      at += count;
    }
  };
}
