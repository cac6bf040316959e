// Numbers of the whole store by name: its schema, its generation, marks.

import type { Query } from "../driver.ts";

/** Returns 0 for a name that was never written. */
export async function readMeta(q: Query, name: string): Promise<number> {
  const row = await q.one<{ value: number }>("SELECT value FROM meta WHERE name = $1", name);
  return row?.value ?? 0;
}

export async function writeMeta(q: Query, name: string, value: number): Promise<void> {
  await q.write(
    "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    name,
    value,
  );
}
