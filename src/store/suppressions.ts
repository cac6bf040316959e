// Addresses that get nothing more, per channel.

import type { Query } from "./driver.ts";

/** One more hard bounce; the address is suppressed from the `limit`-th on. Returns whether it is now. */
export async function strike(
  q: Query,
  channel: string,
  address: string,
  limit: number,
  reason: string,
): Promise<boolean> {
  const row = await q.one<{ active: number }>(
    `INSERT INTO suppressions (channel, address, strikes, active, reason, updated_at)
     VALUES ($1, $2, 1, CASE WHEN $3 <= 1 THEN 1 ELSE 0 END, $4, now_ms())
     ON CONFLICT (channel, address) DO UPDATE SET strikes = suppressions.strikes + 1, reason = excluded.reason,
       active = CASE WHEN suppressions.active = 1 OR suppressions.strikes + 1 >= $3 THEN 1 ELSE 0 END, updated_at = now_ms()
     RETURNING active`,
    channel,
    address.toLowerCase(),
    limit,
    reason,
  );
  return row?.active === 1;
}

/** Why nothing goes to that address, or null. */
export async function suppression(q: Query, channel: string, address: string): Promise<string | null> {
  const row = await q.one<{ reason: string }>(
    "SELECT reason FROM suppressions WHERE channel = $1 AND address = $2 AND active = 1",
    channel,
    address.toLowerCase(),
  );
  return row?.reason ?? null;
}
