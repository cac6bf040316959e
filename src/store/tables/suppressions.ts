// Suppressed addresses, per channel.

import type { Query } from "../driver.ts";

/** Counts a hard bounce; the address is suppressed from the `limit`-th bounce on. Returns whether it is
 *  suppressed now. */
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
     ON CONFLICT (channel, address) DO UPDATE SET strikes = suppressions.strikes + 1,
       reason = CASE WHEN suppressions.active = 1 THEN suppressions.reason ELSE excluded.reason END,
       active = CASE WHEN suppressions.active = 1 OR suppressions.strikes + 1 >= $3 THEN 1 ELSE 0 END, updated_at = now_ms()
     RETURNING active`,
    channel,
    address.toLowerCase(),
    limit,
    reason,
  );
  return row?.active === 1;
}

/** Suppresses the address from now on. */
export async function suppress(q: Query, channel: string, address: string, reason: string): Promise<void> {
  await q.write(
    `INSERT INTO suppressions (channel, address, strikes, active, reason, updated_at)
     VALUES ($1, $2, 0, 1, $3, now_ms())
     ON CONFLICT (channel, address) DO UPDATE SET active = 1, reason = excluded.reason, updated_at = now_ms()`,
    channel,
    address.toLowerCase(),
    reason,
  );
}

/** Removes the suppression of the address and resets its bounce count. */
export async function lift(q: Query, channel: string, address: string): Promise<void> {
  await q.write(
    "DELETE FROM suppressions WHERE channel = $1 AND address = $2",
    channel,
    address.toLowerCase(),
  );
}

/** Returns the reason of the suppression, or null. */
export async function suppression(q: Query, channel: string, address: string): Promise<string | null> {
  const row = await q.one<{ reason: string }>(
    "SELECT reason FROM suppressions WHERE channel = $1 AND address = $2 AND active = 1",
    channel,
    address.toLowerCase(),
  );
  return row?.reason ?? null;
}

/** Suppresses the address immediately, without counting strikes, because the provider reports that the
 *  recipient has opted out. */
export async function suppressOptedOut(
  q: Query,
  channel: string,
  address: string,
  reason: string,
): Promise<void> {
  await suppress(q, channel, address, `the provider says that they opted out: ${reason}`);
}
