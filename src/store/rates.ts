// Rate limits as GCRA rows, shared by all nodes. `arrival` is the theoretical arrival time of the next
// request. Its unit is microseconds, so that 15 requests per second divide precisely enough.

import type { Query } from "./driver.ts";

export interface Rate {
  /** Microseconds between two requests at the steady rate. */
  readonly interval: number;
  /** Microseconds by which requests may arrive ahead of the steady rate. */
  readonly tolerance: number;
}

/** One unit of work makes up to this many calls; it could never start with a smaller burst. */
const smallestBurst = 4;

/** Microseconds: the longest Retry-After that is accepted, and the longest wait of a caller. */
const longestPenalty = 15 * 60_000_000;
const longestWait = 61_000_000;

/** Returns the GCRA parameters for at most `requests` in any window of `perMs`: burst + window * rate
 *  stays just below the limit, with a tenth of the limit as burst. 1000 per 60 s gives burst 90 and 15
 *  per second: at most 990. */
export function rateOf(requests: number, perMs: number): Rate {
  const burst = Math.max(1, Math.min(smallestBurst, requests - 1), Math.floor(requests * 0.09));
  const steady = Math.max(1, Math.min(Math.floor(requests * 0.9), requests - burst));
  const interval = Math.ceil((perMs * 1000) / steady);
  return { interval, tolerance: (burst - 1) * interval };
}

/** Returns the GCRA parameters for at most `messages` in any window of `perMs`, excluding its end. A
 *  tenth of them may be sent at once after an idle period. */
export function sendRate(messages: number, perMs: number): Rate {
  const burst = Math.max(1, Math.floor(messages / 10));
  const interval = Math.ceil((perMs * 1000) / (messages - burst + 1));
  return { interval, tolerance: (burst - 1) * interval };
}

const readRate = (q: Query, name: string) =>
  q.one<{ arrival: number; penalty_until: number; now: number }>(
    `SELECT arrival, penalty_until, now_ms() AS now FROM rates WHERE name = $1
     FOR UPDATE -- only: postgres`,
    name,
  );

/** Reserves `count` requests and returns the milliseconds to wait before making them. Reserves nothing
 *  when the wait exceeds `maxWaitMs`; the caller then asks again later. */
export async function takeRate(
  q: Query,
  name: string,
  rate: Rate,
  count: number,
  maxWaitMs: number,
): Promise<{ taken: boolean; waitMs: number }> {
  let row = await readRate(q, name);
  if (!row) {
    await q.run("INSERT INTO rates (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name);
    row = await readRate(q, name);
  }
  if (!row) throw new Error(`taking from rate ${name}: there is no such row`);
  const now = row.now * 1000;
  // After a backward clock step the stored times are in the future. The wait is limited to its longest
  // valid value.
  const penalty = Math.min(row.penalty_until * 1000, now + longestPenalty);
  // Requests that wait for the end of a penalty are counted from that end; otherwise all of them would be
  // sent at that moment.
  const ahead = rate.tolerance + rate.interval * smallestBurst + longestWait;
  const base = Math.max(Math.min(row.arrival, now + ahead), now, penalty);
  const arrival = base + count * rate.interval;
  // Requests beyond the burst are charged, although they exceed the limit at that moment.
  const together = Math.min(count, Math.floor(rate.tolerance / rate.interval) + 1);
  const start = Math.max(base + (together - 1) * rate.interval - rate.tolerance, penalty);
  const waitMs = Math.max(0, Math.ceil((start - now) / 1000));
  if (waitMs > maxWaitMs) return { taken: false, waitMs };
  await q.run("UPDATE rates SET arrival = $2 WHERE name = $1", name, arrival);
  return { taken: true, waitMs };
}

/** Records a response 429: no requests are made for `forMs`. */
export async function penalise(q: Query, name: string, forMs: number): Promise<void> {
  await q.run("INSERT INTO rates (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name);
  await q.run(
    `UPDATE rates SET penalty_until = CASE WHEN penalty_until > now_ms() + $2 THEN penalty_until ELSE now_ms() + $2 END
     WHERE name = $1`,
    name,
    Math.ceil(forMs),
  );
}
