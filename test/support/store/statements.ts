// The statements of a piece of work.

import type { Database, Query } from "../../../src/store/driver.ts";

/** Runs `work` in a transaction. Returns its statements. */
export async function statements(db: Database, work: (q: Query) => Promise<unknown>): Promise<string[]> {
  const seen: string[] = [];
  await db.tx((q) =>
    work(
      new Proxy(q, {
        get(target, name: keyof Query) {
          const value = target[name] as unknown;
          if (name === "savepoint") return (inner: () => Promise<unknown>) => target.savepoint(inner);
          if (typeof value !== "function") return value;
          return (sql: string, ...values: never[]) => {
            if (!["onRollback", "onDisk", "hop"].includes(name)) seen.push(sql.replace(/\s+/g, " "));
            return (value as (...args: unknown[]) => unknown).call(target, sql, ...values);
          };
        },
      }),
    ),
  );
  if (process.env.SHOW) console.log(seen.map((sql) => sql.slice(0, 110)).join("\n"), seen.length);
  return seen;
}
