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
  const row = await q.one<{ token: number }>(
    `INSERT INTO leases (name, holder, token, until) VALUES ($1, $2, 1, now_ms() + $3)
     ON CONFLICT (name) DO UPDATE SET until = excluded.until, holder = excluded.holder,
       token = CASE WHEN leases.holder = excluded.holder THEN leases.token ELSE leases.token + 1 END
     WHERE leases.holder = excluded.holder OR leases.until <= now_ms() RETURNING token`,
    name,
    holder,
    forMs,
  );
  return row?.token ?? null;
}

export async function dropLease(q: Query, name: string, holder: string): Promise<void> {
  await q.write("UPDATE leases SET until = 0, holder = NULL WHERE name = $1 AND holder = $2", name, holder);
}
