// Suppressed addresses, per channel. The suppression of an erased person stays as a keyed hash of the address, and is
// restored when the address writes again, or is to be written to.

import { createHmac, randomBytes } from "node:crypto";
import type { Query } from "../driver.ts";
import { readSecret, writeSecret } from "../secrets.ts";

/** What caused a suppression. `stop`: the person's keyword · `provider`: its report that the person opted out ·
 *  `bounces`: hard bounces · `operator`: a command or the console. */
export type SuppressionSource = "stop" | "provider" | "bounces" | "operator";

export interface Suppression {
  readonly source: SuppressionSource;
  readonly reason: string;
}

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
    `INSERT INTO suppressions (channel, address, strikes, active, source, reason, updated_at)
     VALUES ($1, $2, 1, CASE WHEN $3 <= 1 THEN 1 ELSE 0 END, 'bounces', $4, now_ms())
     ON CONFLICT (channel, address) DO UPDATE SET strikes = suppressions.strikes + 1,
       source = CASE WHEN suppressions.active = 1 THEN suppressions.source ELSE excluded.source END,
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

/** Suppresses the address from now on. Replaces the source and the reason of an existing suppression. */
export async function suppress(
  q: Query,
  channel: string,
  address: string,
  reason: string,
  source: SuppressionSource = "stop",
): Promise<void> {
  await q.write(
    `INSERT INTO suppressions (channel, address, strikes, active, source, reason, updated_at)
     VALUES ($1, $2, 0, 1, $3, $4, now_ms())
     ON CONFLICT (channel, address) DO UPDATE SET active = 1, source = excluded.source, reason = excluded.reason,
       updated_at = now_ms()`,
    channel,
    address.toLowerCase(),
    source,
    reason,
  );
}

/** Removes the suppression of the address and resets its bounce count. */
export async function lift(q: Query, channel: string, address: string): Promise<void> {
  await q.write("DELETE FROM suppressions WHERE channel = $1 AND address = $2", channel, address.toLowerCase());
}

/** Returns the reason of the suppression, or null. */
export async function suppression(q: Query, channel: string, address: string): Promise<string | null> {
  return (await activeSuppression(q, channel, address))?.reason ?? null;
}

async function activeSuppression(q: Query, channel: string, address: string): Promise<Suppression | null> {
  const row = await q.one<Suppression>(
    "SELECT source, reason FROM suppressions WHERE channel = $1 AND address = $2 AND active = 1",
    channel,
    address.toLowerCase(),
  );
  return row ?? null;
}

/** Suppresses the address immediately, without counting strikes, because the provider reports that the
 *  recipient has opted out. */
export async function suppressOptedOut(q: Query, channel: string, address: string, reason: string): Promise<void> {
  await suppress(q, channel, address, `the provider says that they opted out: ${reason}`, "provider");
}

/** Name of the key in the table `secrets`. */
export const erasureKey = "erasure/key";
/** Prefix of an address that is a keyed hash. */
export const hashPrefix = "erased:";

/** Returns what stands for the address of an erased person. */
export const erasedHash = (key: string, channel: string, address: string): string =>
  hashPrefix +
  createHmac("sha256", Buffer.from(key, "hex")).update(`${channel}\0${address.toLowerCase()}`).digest("hex");

/** Creates the key of the hashes and returns it. Call when the store has none. */
export async function createErasureKey(q: Query): Promise<string> {
  const key = randomBytes(32).toString("hex");
  await writeSecret(q, erasureKey, key);
  return key;
}

/** Replaces the addresses (lower case) of suppressions by hashes, and deletes bounce counts. Returns their number. */
export async function hideSuppressions(q: Query, addresses: readonly string[]): Promise<number> {
  let key = await readSecret(q, erasureKey);
  let hidden = 0;
  for (const address of addresses) {
    const rows = await q.all<{ channel: string; active: number; source: SuppressionSource }>(
      "SELECT channel, active, source FROM suppressions WHERE address = $1",
      address,
    );
    for (const { channel, active, source } of rows) {
      await q.run("DELETE FROM suppressions WHERE channel = $1 AND address = $2", channel, address);
      if (active === 0) continue;
      key ??= await createErasureKey(q);
      await suppress(q, channel, erasedHash(key, channel, address), "they opted out, and were erased", source);
      hidden += 1;
    }
  }
  return hidden;
}

/** The suppression of an erased person whose address is known again. */
export interface ErasedSuppression {
  readonly address: string;
  readonly hash: string;
  readonly reason: string;
}

/** Restores the suppression of an erased person, with its source. */
export async function restoreSuppression(
  q: Query,
  channel: string,
  { address, hash, reason }: ErasedSuppression,
): Promise<void> {
  const hidden = await activeSuppression(q, channel, hash);
  await suppress(q, channel, address, reason, hidden?.source);
  await lift(q, channel, hash);
}

/** Like `suppression`, also for an address of an erased person. */
export async function suppressionOrHash(q: Query, channel: string, address: string): Promise<string | null> {
  return (await suppressionsOf(q, channel, address))[0]?.reason ?? null;
}

/** Returns the suppression of the address, and the one that its erasure has left; each with the address that it has in
 *  the table. */
export async function suppressionsOf(
  q: Query,
  channel: string,
  address: string,
): Promise<readonly (Suppression & { readonly stored: string })[]> {
  const key = await readSecret(q, erasureKey);
  const found = [];
  for (const stored of [address, ...(key === null ? [] : [erasedHash(key, channel, address)])]) {
    const one = await activeSuppression(q, channel, stored);
    if (one !== null) found.push({ ...one, stored });
  }
  return found;
}
