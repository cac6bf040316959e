// The platform's shared rate as a GCRA row: every node draws from the same one. `arrival` is the theoretical arrival
// time of the next request, in microseconds, so that 15 a second divide evenly enough.

import type { Query } from "./driver.ts";

export interface Rate {
  /** Microseconds between two requests at the steady rate. */
  readonly interval: number;
  /** Microseconds that requests may run ahead of it. */
  readonly tolerance: number;
}

/** One piece of work makes up to this many calls; a smaller burst would never let it begin. */
const smallestBurst = 4;

/** Microseconds: the longest Retry-After that is believed, and the longest anybody waits for his turn. */
const longestPenalty = 15 * 60_000_000;
const longestWait = 61_000_000;

/** The GCRA for at most `requests` in any window of `perMs`: burst + window * rate stays just under the limit, with a
 *  tenth of the limit as burst. 1000 per 60 s gives burst 90 and 15 a second: at most 990. */
export function rateOf(requests: number, perMs: number): Rate {
  const burst = Math.max(1, Math.min(smallestBurst, requests - 1), Math.floor(requests * 0.09));
  const steady = Math.max(1, Math.min(Math.floor(requests * 0.9), requests - burst));
  const interval = Math.ceil((perMs * 1000) / steady);
  return { interval, tolerance: (burst - 1) * interval };
}

/** The GCRA for at most `messages` in any span of `perMs`, that span's end excluded. A tenth of them may go at once after
 *  a rest. */
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

/** Takes `count` requests. Returns how many milliseconds to wait before making them; nothing is taken when that is
 *  more than `maxWaitMs` (then ask again later). */
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
  // After a step back of the clock what was written lies in the future: nobody waits longer than could be right.
  const penalty = Math.min(row.penalty_until * 1000, now + longestPenalty);
  // Whoever waits for the end of a penalty is counted then: else everybody's calls would meet there.
  const ahead = rate.tolerance + rate.interval * smallestBurst + longestWait;
  const base = Math.max(Math.min(row.arrival, now + ahead), now, penalty);
  const arrival = base + count * rate.interval;
  // More calls than the burst allows at once can only be charged, not made to fit.
  const together = Math.min(count, Math.floor(rate.tolerance / rate.interval) + 1);
  const start = Math.max(base + (together - 1) * rate.interval - rate.tolerance, penalty);
  const waitMs = Math.max(0, Math.ceil((start - now) / 1000));
  if (waitMs > maxWaitMs) return { taken: false, waitMs };
  await q.run("UPDATE rates SET arrival = $2 WHERE name = $1", name, arrival);
  return { taken: true, waitMs };
}

/** The platform said 429: nobody calls before then. */
export async function penalise(q: Query, name: string, forMs: number): Promise<void> {
  await q.run("INSERT INTO rates (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name);
  await q.run(
    `UPDATE rates SET penalty_until = CASE WHEN penalty_until > now_ms() + $2 THEN penalty_until ELSE now_ms() + $2 END
     WHERE name = $1`,
    name,
    Math.ceil(forMs),
  );
}
