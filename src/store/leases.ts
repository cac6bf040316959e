// Named leases with fencing tokens, such as the lease for running a channel's inbound.

import type { Query } from "./driver.ts";

/** Claims or renews `name` for `holder`; null when another holder has it. The token increases with every
 *  change of holder. */
export async function takeLease(
  q: Query,
  name: string,
  holder: string,
  forMs: number,
): Promise<number | null> {
  await q.write("INSERT INTO leases (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name);
  const row = await q.one<{ token: number }>(
    `UPDATE leases SET until = now_ms() + $3, holder = $2, token = CASE WHEN holder = $2 THEN token ELSE token + 1 END
     WHERE name = $1 AND (holder = $2 OR until <= now_ms()) RETURNING token`,
    name,
    holder,
    forMs,
  );
  return row?.token ?? null;
}

export async function dropLease(q: Query, name: string, holder: string): Promise<void> {
  await q.write("UPDATE leases SET until = 0, holder = NULL WHERE name = $1 AND holder = $2", name, holder);
}
