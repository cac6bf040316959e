// Suppressed addresses, per channel, and per own address where opt-outs apply to single addresses (`Outbound.ownAddress`). The
// suppression of an erased person stays as a keyed hash of the address, and is restored when the address writes again, or is
// to be written to.

import { createHmac, randomBytes } from "node:crypto";
import type { Query } from "../driver.ts";
import { readSecret, writeSecret } from "../secrets.ts";

/** What caused a suppression. `stop`: the person's keyword · `provider`: its report that the person opted out ·
 *  `bounces`: hard bounces, until the person writes again · `operator`: a command or the console. */
export type SuppressionSource = "stop" | "provider" | "bounces" | "operator";

export interface Suppression {
  readonly source: SuppressionSource;
  readonly reason: string;
  /** Our address from which nothing is sent, or `allOwn`. */
  readonly own_address: string;
}

/** All our addresses. */
export const allOwn = "*";

/** Records our default address on a channel where opt-outs apply to single addresses; null elsewhere. */
export async function noteDefaultAddress(q: Query, channel: string, ownAddress: string | null): Promise<void> {
  await q.write(
    "UPDATE channels SET own_address = $2 WHERE id = $1 AND own_address IS DISTINCT FROM $2",
    channel,
    ownAddress,
  );
}

/** Returns whether a suppression for `stored` applies to a message of `own`, our address or `allOwn`. */
export const appliesTo = (stored: string, own: string): boolean =>
  stored === allOwn || own === allOwn || stored === own;

/** Returns the rows that apply to an address, as SQL after SELECT. The parameters are SQL, too; `via` is our address, NULL
 *  for the channel's default. Where opt-outs concern the whole channel, every row applies. */
const applying = (channel: string, address: string, via: string): string =>
  `FROM suppressions LEFT JOIN channels ON channels.id = suppressions.channel
     WHERE suppressions.channel = ${channel} AND suppressions.address = ${address} AND active = 1 AND (channels.own_address IS NULL
       OR suppressions.own_address IN ('${allOwn}', COALESCE(${via}, channels.own_address)))
     ORDER BY suppressions.own_address LIMIT 1`;

/** Returns SQL for the reason why nothing may be sent to an address; NULL without one. See `applying`. */
export const suppressionReason = (channel: string, address: string, via: string): string =>
  `(SELECT reason ${applying(channel, address, via)})`;

/** SQL: 1 for a suppression whose last bounce is older than `ms` (SQL), so that a message from its address ends it; NULL for any
 *  other. */
export const pastBounces = (ms: string): string =>
  `CAST(CASE WHEN suppressions.source = 'bounces' AND suppressions.updated_at < now_ms() - ${ms} THEN 1 END AS BIGINT)`;

/** SQL for our address in a conversation; NULL for the channel's default. */
export const viaOf = (conversation: string): string =>
  `(SELECT via FROM conversations WHERE conversations.id = ${conversation})`;

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
    `INSERT INTO suppressions (channel, address, own_address, strikes, active, source, reason, updated_at)
     VALUES ($1, $2, '${allOwn}', 1, CASE WHEN $3 <= 1 THEN 1 ELSE 0 END, 'bounces', $4, now_ms())
     ON CONFLICT (channel, address, own_address) DO UPDATE SET strikes = suppressions.strikes + 1,
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

/** Suppresses the address from now on, for messages from `own`. Replaces the source and the reason of an existing suppression. */
export async function suppress(
  q: Query,
  channel: string,
  address: string,
  reason: string,
  { source = "stop", own = allOwn }: { readonly source?: SuppressionSource; readonly own?: string } = {},
): Promise<void> {
  await q.write(
    `INSERT INTO suppressions (channel, address, own_address, strikes, active, source, reason, updated_at)
     VALUES ($1, $2, $5, 0, 1, $3, $4, now_ms())
     ON CONFLICT (channel, address, own_address) DO UPDATE SET active = 1, source = excluded.source, reason = excluded.reason,
       updated_at = now_ms()`,
    channel,
    address.toLowerCase(),
    source,
    reason,
    own,
  );
}

/** Removes the suppressions of the address that apply to messages from `own`, and resets its bounce count. Those for other
 *  our addresses stay. */
export async function lift(q: Query, channel: string, address: string, own: string = allOwn): Promise<void> {
  await q.write(
    `DELETE FROM suppressions WHERE channel = $1 AND address = $2 AND ($3 = '${allOwn}' OR own_address IN ('${allOwn}', $3))`,
    channel,
    address.toLowerCase(),
    own,
  );
}

export async function removeSuppression(q: Query, channel: string, stored: string, own: string): Promise<void> {
  await q.write(
    "DELETE FROM suppressions WHERE channel = $1 AND address = $2 AND own_address = $3",
    channel,
    stored,
    own,
  );
}

/** Returns the reason why nothing may be sent to the address, or null. `via`: our address, null for the default. */
export async function suppression(
  q: Query,
  channel: string,
  address: string,
  via: string | null = null,
): Promise<string | null> {
  const row = await q.one<{ reason: string }>(`SELECT reason ${found}`, channel, address.toLowerCase(), via);
  return row?.reason ?? null;
}
const found = applying("$1", "$2", "CAST($3 AS TEXT)");

/** Returns the suppressions that are stored under exactly this address or hash. */
async function rowsOf(q: Query, channel: string, stored: string): Promise<readonly Suppression[]> {
  return q.all<Suppression>(
    `SELECT source, reason, own_address FROM suppressions WHERE channel = $1 AND address = $2 AND active = 1
     ORDER BY own_address`,
    channel,
    stored,
  );
}

/** Suppresses the address immediately, without counting strikes, because the provider reports that the
 *  recipient has opted out of messages from `own`. */
export async function suppressOptedOut(
  q: Query,
  channel: string,
  address: string,
  reason: string,
  own: string = allOwn,
): Promise<void> {
  const why = `the provider says that they opted out: ${reason}`;
  await suppress(q, channel, address, why, { source: "provider", own });
}

/** Name of the key in the table `secrets`. */
export const erasureKey = "erasure/key";
/** Prefix of an address that is a keyed hash. */
export const hashPrefix = "erased:";
/** The reason of the suppression of an erased person. */
export const erasedReason = "they opted out, and were erased";

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
    const rows = await q.all<{ channel: string; own_address: string; active: number; source: SuppressionSource }>(
      "SELECT channel, own_address, active, source FROM suppressions WHERE address = $1",
      address,
    );
    for (const { channel, own_address: own, active, source } of rows) {
      await removeSuppression(q, channel, address, own);
      if (active === 0) continue;
      key ??= await createErasureKey(q);
      await suppress(q, channel, erasedHash(key, channel, address), erasedReason, { source, own });
      hidden += 1;
    }
  }
  return hidden;
}

/** The suppressions of an erased person whose address is known again. */
export interface ErasedSuppression {
  readonly address: string;
  readonly hash: string;
}

/** Restores the suppressions of an erased person, with their sources. */
export async function restoreSuppression(
  q: Query,
  channel: string,
  { address, hash }: ErasedSuppression,
): Promise<void> {
  for (const { source, reason, own_address: own } of await rowsOf(q, channel, hash))
    await suppress(q, channel, address, reason, { source, own });
  await lift(q, channel, hash);
}

/** Like `suppression` for the channel's default address, also for an address of an erased person. */
export async function suppressionOrHash(q: Query, channel: string, address: string): Promise<string | null> {
  for (const stored of await storedForms(q, channel, address)) {
    const reason = await suppression(q, channel, stored);
    if (reason !== null) return reason;
  }
  return null;
}

/** Returns the suppressions of the address, and those that its erasure has left; each with the address that it has in
 *  the table. */
export async function suppressionsOf(
  q: Query,
  channel: string,
  address: string,
): Promise<readonly (Suppression & { readonly stored: string })[]> {
  const all = [];
  for (const stored of await storedForms(q, channel, address))
    for (const one of await rowsOf(q, channel, stored)) all.push({ ...one, stored });
  return all;
}

/** Returns the address, and its hash when people were erased. */
async function storedForms(q: Query, channel: string, address: string): Promise<readonly string[]> {
  const key = await readSecret(q, erasureKey);
  const plain = address.toLowerCase();
  return key === null ? [plain] : [plain, erasedHash(key, channel, plain)];
}
