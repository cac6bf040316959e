// Named leases with fencing tokens, such as the lease for running a channel's inbound, and leases of lanes that
// other events than due work begin or end: a poll, a restored store, a start.

import type { Query } from "./driver.ts";
import { type Direction, type Lease, leaseGroup } from "./lanes.ts";

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

/** Leases one inbound lane when it is free and no question waits or runs in it; else returns null. Call
 *  with the lane's row locked (`tryLane`). Turns behind a failed question that blocks the lane do not count
 *  as waiting. Used by stage poll. */
export async function leaseIdleLane(
  q: Query,
  conversation: string,
  holder: string,
  leaseMs: number,
): Promise<Lease | null> {
  const lane = `${conversation}/in`;
  const isIdle = `COALESCE((SELECT state FROM turns WHERE turns.conversation = lanes.conversation AND turns.open = 1
       ORDER BY seq LIMIT 1), 'failed') = 'failed' AND (node IS NULL OR node = $2)`;
  if (q.leases !== null) {
    if (!q.leases.isFree(lane, holder)) return null;
    const row = await q.one<{ channel: string }>(
      `SELECT channel FROM lanes WHERE id = $1 AND ${isIdle}`,
      lane,
      holder,
    );
    if (!row) return null;
    const token = q.leases.take(q, lane, leaseGroup("in", row.channel), holder, leaseMs);
    return { lane, conversation, channel: row.channel, token, sender: "" };
  }
  const row = await q.one<{ channel: string; token: number }>(
    `UPDATE lanes SET holder = $2, token = token + 1, lease_until = now_ms() + $3
     WHERE id = $1 AND lease_until <= now_ms() AND (holder IS NULL OR holder <> $2) AND ${isIdle}
     RETURNING channel, token`,
    lane,
    holder,
    leaseMs,
  );
  return row ? { lane, conversation, channel: row.channel, token: row.token, sender: "" } : null;
}

/** Revokes the lease on a lane: its holder can no longer write, and the lane may be leased at once. */
export async function revokeLease(q: Query, conversation: string, direction: Direction): Promise<void> {
  const lane = `${conversation}/${direction}`;
  if (q.leases !== null) {
    const row = await q.one<{ channel: string }>("SELECT channel FROM lanes WHERE id = $1", lane);
    if (row) q.leases.release(q, lane, leaseGroup(direction, row.channel));
    return;
  }
  await q.write("UPDATE lanes SET holder = NULL, token = token + 1, lease_until = 0 WHERE id = $1", lane);
}

/** Ends all leases and claims. Called at start on a store that only one process may use. */
export async function endLeases(q: Query): Promise<void> {
  if (q.leases !== null) q.leases.clear();
  else
    await q.write("UPDATE lanes SET holder = NULL, token = token + 1, lease_until = 0 WHERE lease_until > 0");
  await q.write("UPDATE leases SET holder = NULL, token = token + 1, until = 0 WHERE until > 0");
  await q.write(
    "UPDATE attachments SET holder = NULL, due_at = now_ms() WHERE due_at IS NOT NULL AND holder IS NOT NULL",
  );
  await q.write("UPDATE send_pauses SET until = now_ms(), probe = NULL WHERE probe IS NOT NULL");
}

/** A lease in memory. */
interface HeldLease {
  /** Null after the holder gave up without an outcome. */
  readonly holder: string | null;
  readonly token: number;
  /** Epoch milliseconds. */
  readonly until: number;
}

/** The leases of a store that one process owns (SQLite), by lane. All of them end with the process: work that a crash
 *  interrupted is recognized by the state of its turn or draft. Every change reverts with its transaction (`Query.onRollback`). */
export class LaneLeases {
  readonly #entries = new Map<string, HeldLease>();
  /** The leased lanes of a channel in one direction, by group. */
  readonly #groups = new Map<string, Set<string>>();
  readonly #now: () => number;
  #token = 0;

  /** `now` returns epoch milliseconds: the clock behind now_ms(). */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Returns whether `holder` may lease the lane. Its own lease blocks it even after the lease has expired
   *  by the clock, because the work continues after a clock step. */
  isFree(lane: string, holder: string): boolean {
    const entry = this.#entries.get(lane);
    return entry === undefined || (entry.until <= this.#now() && entry.holder !== holder);
  }

  /** Returns the lanes of a channel in one direction that `holder` may not lease; `group` is `leaseGroup` of
   *  both. */
  busy(group: string, holder: string): string[] {
    return [...(this.#groups.get(group) ?? [])].filter((lane) => !this.isFree(lane, holder));
  }

  /** Leases the lane for `ms` milliseconds and returns the fencing token. */
  take(q: Query, lane: string, group: string, holder: string, ms: number): number {
    const token = ++this.#token;
    this.#set(q, lane, group, { holder, token, until: this.#now() + ms });
    return token;
  }

  /** Returns whether the token is still the valid one. */
  holds(lane: string, token: number): boolean {
    const entry = this.#entries.get(lane);
    return entry?.token === token && entry.holder !== null;
  }

  /** Releases the lane. */
  release(q: Query, lane: string, group: string): void {
    this.#set(q, lane, group, undefined);
  }

  /** Ends the holder's claim without an outcome; the lane stays leased until the lease expires. */
  abandon(q: Query, lane: string, group: string, token: number): void {
    const entry = this.#entries.get(lane);
    if (entry?.token === token) this.#set(q, lane, group, { ...entry, holder: null });
  }

  #set(q: Query, lane: string, group: string, entry: HeldLease | undefined): void {
    const before = this.#entries.get(lane);
    this.#put(lane, group, entry);
    q.onRollback(() => this.#put(lane, group, before));
  }

  #put(lane: string, group: string, entry: HeldLease | undefined): void {
    if (entry === undefined) {
      this.#entries.delete(lane);
      this.#groups.get(group)?.delete(lane);
    } else {
      this.#entries.set(lane, entry);
      const lanes = this.#groups.get(group) ?? new Set();
      this.#groups.set(group, lanes.add(lane));
    }
  }

  /** Ends all leases. */
  clear(): void {
    this.#entries.clear();
    this.#groups.clear();
  }
}
