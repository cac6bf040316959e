// Small secrets that providers issue at run time, such as rotated refresh tokens. The adapters encrypt
// them, and only the daemon's user can read the store file. No command lists them.

import type { Query } from "./driver.ts";

/** Returns null when there is no secret with that name. */
export async function readSecret(q: Query, name: string): Promise<string | null> {
  const row = await q.one<{ value: string }>("SELECT value FROM secrets WHERE name = $1", name);
  return row?.value ?? null;
}

export async function writeSecret(q: Query, name: string, value: string): Promise<void> {
  await q.run(
    `INSERT INTO secrets (name, value, updated_at) VALUES ($1, $2, now_ms())
     ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
    name,
    value,
  );
}
