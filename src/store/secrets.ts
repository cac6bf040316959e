// Small secrets that providers issue at run time, such as rotated refresh tokens. The adapters encrypt
// them, and only the daemon's user can read the store file. No command lists them.

import { wrongTypeText } from "../ops/type-text.ts";
import type { Query } from "./driver.ts";

export async function readSecret(q: Query, name: string): Promise<string | null> {
  const row = await q.one<{ value: string }>("SELECT value FROM secrets WHERE name = $1", name);
  return row?.value ?? null;
}

/** Rejects a value that is no text, as an adapter without types may give it: SQLite would turn 5 into "5.0". */
export async function writeSecret(q: Query, name: string, value: unknown): Promise<void> {
  if (typeof value !== "string")
    throw new TypeError(`storing secret ${name}: its value ${wrongTypeText("string", value)}`);
  await q.run(
    `INSERT INTO secrets (name, value, updated_at) VALUES ($1, $2, now_ms())
     ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
    name,
    value,
  );
}
