// Stage fetch: downloads of attachments that the provider stores. A row is due or claimed; when the claim expires it is
// due again. Its number of attempts is the fencing token of the claim: a holder with an expired claim cannot write.

import { type Query, touch } from "../../store/driver.ts";
import { LeaseLost } from "../../store/lanes.ts";
import { insertBlobs } from "../../store/tables/events.ts";

/** A claimed attachment; the holder may record the outcome of the download. */
export interface Fetch {
  readonly event: number;
  readonly position: number;
  /** Size in bytes as announced; null when unknown. */
  readonly size: number | null;
  /** Reference from the adapter (JSON). */
  readonly ref: string;
  /** Number of attempts, including this one. */
  readonly attempts: number;
  /** When the claim expires, by the database's clock. */
  readonly until: number;
}

/** Claims up to `limit` attachments of a channel for `leaseMs`, longest due first, and counts the
 *  attempt. Skips those that `holder` itself has claimed and not released, even when the claim has
 *  expired by the clock: the work is still running. */
export async function claimFetches(
  q: Query,
  channel: string,
  holder: string,
  leaseMs: number,
  limit: number,
): Promise<Fetch[]> {
  return q.all<Fetch>(
    `WITH picked AS MATERIALIZED (
       SELECT event, position FROM attachments
       WHERE channel = $1 AND due_at <= now_ms() AND (holder IS NULL OR holder <> $2)
       ORDER BY due_at LIMIT $4
       FOR UPDATE SKIP LOCKED -- only: postgres
     )
     UPDATE attachments SET holder = $2, attempts = attempts + 1, due_at = now_ms() + $3
     WHERE (event, position) IN (SELECT event, position FROM picked) RETURNING event, position, size, ref, attempts, due_at AS until`,
    channel,
    holder,
    leaseMs,
    limit,
  );
}

const mine = "event = $1 AND position = $2 AND attempts = $3 AND due_at IS NOT NULL";

/** Stores the downloaded bytes. Throws LeaseLost when the claim was lost or the download was cancelled. */
export async function keepFetched(
  q: Query,
  fetch: Fetch,
  blob: { readonly id: string; readonly bytes: Uint8Array },
): Promise<void> {
  await insertBlobs(q, [blob]);
  await change(q, fetch, "blob = $4, size = $5, due_at = NULL, reason = NULL", blob.id, blob.bytes.byteLength);
}

/** Schedules a retry after `delayMs`. Throws LeaseLost. */
export async function postponeFetch(q: Query, fetch: Fetch, delayMs: number, reason: string): Promise<void> {
  await change(q, fetch, "due_at = now_ms() + $4, reason = $5", delayMs, reason);
  if (delayMs === 0) touch(q, "attachments");
  else q.waits.add(delayMs);
}

/** Records that the download failed permanently. Throws LeaseLost. */
export async function endFetch(q: Query, fetch: Fetch, reason: string): Promise<void> {
  await change(q, fetch, "due_at = NULL, reason = $4", reason);
}

async function change(q: Query, fetch: Fetch, set: string, ...values: (string | number)[]): Promise<void> {
  const { event, position, attempts } = fetch;
  const sql = `UPDATE attachments SET holder = NULL, ${set} WHERE ${mine}`;
  const changed = await q.run(sql, event, position, attempts, ...values);
  if (changed !== 1) throw new LeaseLost(`attachment ${event}/${position}`);
}

/** Abandons the claim without an outcome. When it expires, any process may claim the attachment, including this one. A
 *  claim that was rolled back may have been followed by one with the same number, which ends later. */
export async function abandonFetch(q: Query, { event, position, attempts, until }: Fetch): Promise<void> {
  await q.write(
    `UPDATE attachments SET holder = NULL WHERE ${mine} AND due_at <= $4`,
    event,
    position,
    attempts,
    until,
  );
}
