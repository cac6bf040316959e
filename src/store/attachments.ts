// Stage fetch: attachments whose bytes are elsewhere. A row is due, or claimed: then due again when the claim is over.
// Its number of attempts is the claim's token: who was taken for dead writes nothing.

import type { Query } from "./driver.ts";
import { insertBlob } from "./events.ts";
import { LeaseLost } from "./lanes.ts";
import { channelsIn } from "./stepping.ts";

/** What a claim gives: the attachment, and the right to write what became of it. */
export interface Fetch {
  readonly event: number;
  readonly position: number;
  /** Bytes as announced; null when that is not known. */
  readonly size: number | null;
  /** What the adapter gave (JSON). */
  readonly ref: string;
  /** This one included. */
  readonly attempts: number;
}

/** Later than this is left to the sweep. */
const soonMs = 4000;

export async function channelsToFetch(q: Query): Promise<string[]> {
  const rows = await q.all<{ channel: string }>(
    channelsIn("attachments", "due_at IS NOT NULL", "due_at <= now_ms()"),
  );
  return rows.map((row) => row.channel);
}

/** Claims up to `limit` attachments of a channel for `leaseMs`, longest due first, and counts the attempt. Never one that
 *  `holder` itself has claimed and not given back, whatever a clock says: it is still working. */
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
     WHERE (event, position) IN (SELECT event, position FROM picked) RETURNING event, position, size, ref, attempts`,
    channel,
    holder,
    leaseMs,
    limit,
  );
}

const mine = "event = $1 AND position = $2 AND attempts = $3 AND due_at IS NOT NULL";

/** The bytes are there. Throws LeaseLost when the claim is not ours any more, or nobody wants them. */
export async function keepFetched(
  q: Query,
  fetch: Fetch,
  blob: { readonly id: string; readonly bytes: Uint8Array },
): Promise<void> {
  await insertBlob(q, blob);
  await change(
    q,
    fetch,
    "blob = $4, size = $5, due_at = NULL, reason = NULL",
    blob.id,
    blob.bytes.byteLength,
  );
}

/** Not now: again after `delayMs`. Throws LeaseLost. */
export async function postponeFetch(q: Query, fetch: Fetch, delayMs: number, reason: string): Promise<void> {
  await change(q, fetch, "due_at = now_ms() + $4, reason = $5", Math.ceil(delayMs), reason);
  if (delayMs === 0) q.touched.add("attachments");
  else if (delayMs < soonMs) q.waits.add(delayMs);
}

/** There will never be any bytes. Throws LeaseLost. */
export async function endFetch(q: Query, fetch: Fetch, reason: string): Promise<void> {
  await change(q, fetch, "due_at = NULL, reason = $4", reason);
}

async function change(q: Query, fetch: Fetch, set: string, ...values: (string | number)[]): Promise<void> {
  const { event, position, attempts } = fetch;
  const sql = `UPDATE attachments SET holder = NULL, ${set} WHERE ${mine}`;
  const changed = await q.run(sql, event, position, attempts, ...values);
  if (changed !== 1) throw new LeaseLost(`attachment ${event}/${position}`);
}

/** The work ended without an outcome: when the claim is over, anybody may begin it again, this process included. */
export async function abandonFetch(q: Query, { event, position, attempts }: Fetch): Promise<void> {
  await q.run(`UPDATE attachments SET holder = NULL WHERE ${mine}`, event, position, attempts);
}
