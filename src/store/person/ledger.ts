// Record of erasures, without data of the erased person: keyed hashes of the addresses, and the ids of the conversations.
// A repeated erasure finds the platform's conversations by it, and a restore finds the erasures made since the backup.
// Retention keeps the rows.

import type { Query } from "../driver.ts";
import { readSecret } from "../secrets.ts";
import { createErasureKey, erasedHash, erasureKey } from "../tables/suppressions.ts";
import type { PersonRecords } from "./find.ts";

/** The value of `actions.action`. */
export const erasureAction = "erase";

/** The JSON of `actions.detail`. */
export interface ErasureDetail {
  /** Keyed hashes of the addresses. */
  readonly addresses: readonly string[];
  readonly conversations: readonly string[];
  /** Ids of the platform's conversations that were deleted there. */
  readonly deleted: readonly string[];
}

export interface ErasureOrder {
  readonly actor: string;
  /** Ids of the platform's conversations that were deleted there already. */
  readonly deleted: readonly string[];
}

/** Returns the hash of an address in `ErasureDetail`. */
export const hashOf = (key: string, address: string): string => erasedHash(key, "", address);

/** Records an erasure. Call it before anything is erased. */
export async function recordErasure(q: Query, records: PersonRecords, { actor, deleted }: ErasureOrder): Promise<void> {
  const key = (await readSecret(q, erasureKey)) ?? (await createErasureKey(q));
  const addresses = hashesOf(key, records.addresses);
  const detail: ErasureDetail = { addresses, conversations: records.conversations, deleted };
  await q.run(
    "INSERT INTO actions (action, actor, detail, channel, made_at) VALUES ($1, $2, $3, '', now_ms())",
    erasureAction,
    actor,
    JSON.stringify(detail),
  );
}

/** Returns the platform's conversations of an erased person that were not deleted there. `addresses`: lower case. */
export async function remainingOnPlatform(q: Query, addresses: readonly string[]): Promise<PersonRecords["platform"]> {
  const found = new Map<string, PersonRecords["platform"][number]>();
  const rows = await erasuresOf(q, addresses);
  for (const conversation of new Set(rows.flatMap(({ detail }) => detail.conversations))) {
    const row = await q.one<{ platform_id: string | null; agent: string }>(
      "SELECT platform_id, agent FROM conversations WHERE id = $1",
      conversation,
    );
    if (row && row.platform_id !== null) found.set(row.platform_id, { id: row.platform_id, agent: row.agent });
  }
  for (const id of rows.flatMap(({ detail }) => detail.deleted)) found.delete(id);
  return [...found.values()];
}

/** Records that the platform's conversations `ids` of an erased person were deleted there. */
export async function recordDeleted(q: Query, addresses: readonly string[], ids: readonly string[]): Promise<void> {
  for (const { id, detail } of await erasuresOf(q, addresses)) {
    const deleted = [...new Set([...detail.deleted, ...ids])];
    await q.run("UPDATE actions SET detail = $2 WHERE id = $1", id, JSON.stringify({ ...detail, deleted }));
  }
}

const hashesOf = (key: string, addresses: readonly string[]): string[] => addresses.map((one) => hashOf(key, one));

interface RecordedErasure {
  readonly id: number;
  readonly detail: ErasureDetail;
}

/** Returns the recorded erasures of one of the addresses. Reads all actions: only for commands. */
async function erasuresOf(q: Query, addresses: readonly string[]): Promise<RecordedErasure[]> {
  const key = await readSecret(q, erasureKey);
  if (key === null) return [];
  const wanted = new Set(hashesOf(key, addresses));
  const rows = await q.all<{ id: number; detail: string }>(
    "SELECT id, detail FROM actions WHERE channel = '' AND action = $1 AND detail IS NOT NULL ORDER BY id",
    erasureAction,
  );
  return rows
    .map(({ id, detail }) => ({ id, detail: JSON.parse(detail) as ErasureDetail }))
    .filter(({ detail }) => detail.addresses.some((one) => wanted.has(one)));
}
