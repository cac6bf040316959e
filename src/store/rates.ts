// Rate limits as GCRA rows, shared by all nodes. `arrival` is the theoretical arrival time of the next
// request. Its unit is microseconds, so that 15 requests per second divide precisely enough.

import { standardTiming, type Timing } from "../ops/timing.ts";
import type { Query } from "./driver.ts";

export interface Rate {
  /** Microseconds between two requests at the steady rate. */
  readonly interval: number;
  /** Microseconds by which requests may arrive ahead of the steady rate. */
  readonly tolerance: number;
  /** Milliseconds within which a drawn request must be made. The interval allows for this delay. */
  readonly validMs: number;
  /** Milliseconds: bounds of stored times, which a backward clock step would prolong. */
  readonly bounds: Pick<Timing["rate"], "longestPenalty" | "longestWait">;
}

/** One unit of work makes up to this many calls; it could never start with a smaller burst. */
const smallestBurst = 4;

/** Returns the GCRA parameters for at most `requests` in any window of `perMs`: burst + window * rate
 *  stays just below the limit, with a tenth of the limit as burst, even when requests are made `validMs`
 *  after their time. 1000 per 60 s gives burst 90 and 14.9 per second: at most 990. */
export function rateOf(requests: number, perMs: number, timing = standardTiming.rate): Rate {
  const burst = Math.max(1, Math.min(smallestBurst, requests - 1), Math.floor(requests * 0.09));
  const steady = Math.max(1, Math.min(Math.floor(requests * 0.9), requests - burst));
  const validMs = Math.min(timing.drawValid, perMs / 10);
  const interval = Math.ceil(((perMs + validMs) * 1000) / steady);
  return { interval, tolerance: (burst - 1) * interval, validMs, bounds: timing };
}

/** Returns the GCRA parameters for at most `messages` in any window of `perMs`, excluding its end. A
 *  tenth of them may be sent at once after an idle period. */
export function sendRate(messages: number, perMs: number, timing = standardTiming.rate): Rate {
  const burst = Math.max(1, Math.floor(messages / 10));
  const interval = Math.ceil((perMs * 1000) / (messages - burst + 1));
  return { interval, tolerance: (burst - 1) * interval, validMs: 0, bounds: timing };
}

const readRate = (q: Query, name: string) =>
  q.one<{ arrival: number; penalty_until: number; now: number }>(
    `SELECT arrival, penalty_until, now_ms() AS now FROM rates WHERE name = $1
     FOR UPDATE -- only: postgres`,
    name,
  );

/** The state of a rate limit at the time of a statement, locked until the transaction ends. */
interface Bucket {
  /** Microseconds, like all of these: the database's clock. */
  readonly now: number;
  /** The theoretical arrival time of the next request. */
  readonly base: number;
  /** No request is made before this time. */
  readonly penalty: number;
}

async function lockBucket(q: Query, name: string, rate: Rate): Promise<Bucket> {
  let row = await readRate(q, name);
  if (!row) {
    await q.write("INSERT INTO rates (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name);
    row = await readRate(q, name);
  }
  if (!row) throw new Error(`taking from rate ${name}: there is no such row`);
  const now = row.now * 1000;
  const { longestPenalty, longestWait } = rate.bounds;
  // After a backward clock step the stored times are in the future. The wait is limited to its longest
  // valid value.
  const penalty = Math.min(row.penalty_until * 1000, now + longestPenalty * 1000);
  // Requests that wait for the end of a penalty are counted from that end; otherwise all of them would be
  // sent at that moment.
  const ahead = rate.tolerance + rate.interval * smallestBurst + longestWait * 1000;
  return { now, base: Math.max(Math.min(row.arrival, now + ahead), now, penalty), penalty };
}

/** Milliseconds until the request at this position (from 0) may be made. */
function waitAt({ now, base, penalty }: Bucket, rate: Rate, position: number): number {
  const start = Math.max(base + position * rate.interval - rate.tolerance, penalty);
  return Math.max(0, Math.ceil((start - now) / 1000));
}

/** The highest number of requests that can be made at the same time. */
export const burstOf = ({ tolerance, interval }: Rate): number => Math.floor(tolerance / interval) + 1;

const setArrival = (q: Query, name: string, arrival: number) =>
  q.run("UPDATE rates SET arrival = $2 WHERE name = $1", name, arrival);

/** Takes `count` requests, in one statement, when none of them has to wait; else returns null. */
async function takeFree(q: Query, name: string, rate: Rate, count: number): Promise<Bucket | null> {
  const taken = count * rate.interval;
  const row = await q.one<{ arrival: number; now: number }>(
    `UPDATE rates SET arrival = $2 + CASE WHEN arrival > now_ms() * 1000 THEN arrival ELSE now_ms() * 1000 END
     WHERE name = $1 AND penalty_until <= now_ms() AND arrival <= now_ms() * 1000 + $3 AND $3 >= 0
     RETURNING arrival, now_ms() AS now`,
    name,
    taken,
    rate.tolerance - (count - 1) * rate.interval,
  );
  return row ? { now: row.now * 1000, base: row.arrival - taken, penalty: 0 } : null;
}

/** Reserves `count` requests and returns the milliseconds to wait before making them. Reserves nothing
 *  when the wait exceeds `maxWaitMs`; the caller then asks again later. */
export async function takeRate(
  q: Query,
  name: string,
  rate: Rate,
  count: number,
  maxWaitMs: number,
): Promise<{ taken: boolean; waitMs: number }> {
  const bucket = await lockBucket(q, name, rate);
  // Requests beyond the burst are charged, although they exceed the limit at that moment.
  const waitMs = waitAt(bucket, rate, Math.min(count, burstOf(rate)) - 1);
  if (waitMs > maxWaitMs) return { taken: false, waitMs };
  await setArrival(q, name, bucket.base + count * rate.interval);
  return { taken: true, waitMs };
}

/** The result of a draw, in milliseconds. */
export interface Drawn {
  /** The time until each drawn request may be made; each must be made within `validMs` after that. */
  readonly waits: readonly number[];
  /** The wait for the request after them, or for `least` requests when none was drawn. */
  readonly nextMs: number;
  /** The time until that request would be on schedule. */
  readonly arrivalMs: number;
}

/** Draws requests for the reserve of a process (`engine/rate-reserve.ts`). The row is locked until the
 *  transaction ends, so it does nothing else where other nodes use the row. Draws `least` requests or none,
 *  the rest of `wanted` while their wait is within `maxWaitMs`, and up to `spare` more that need not wait. */
export async function drawRate(
  q: Query,
  name: string,
  rate: Rate,
  draw: {
    readonly least: number;
    readonly wanted: number;
    readonly spare: number;
    readonly maxWaitMs: number;
  },
): Promise<Drawn> {
  const many = draw.wanted + draw.spare;
  const free = await takeFree(q, name, rate, many);
  if (free !== null) {
    const { now, base } = free;
    const nextMs = waitAt(free, rate, many);
    return { waits: Array(many).fill(0), nextMs, arrivalMs: (base + many * rate.interval - now) / 1000 };
  }
  const bucket = await lockBucket(q, name, rate);
  const waits: number[] = [];
  const leastMs = waitAt(bucket, rate, Math.min(draw.least, burstOf(rate)) - 1);
  while (leastMs <= draw.maxWaitMs) {
    const waitMs = waitAt(bucket, rate, waits.length);
    // Requests beyond the burst are charged, although they exceed the limit at that moment.
    if (waits.length >= draw.least && waitMs > (waits.length < draw.wanted ? draw.maxWaitMs : 0)) break;
    if (waits.length >= many) break;
    waits.push(waitMs);
  }
  const arrival = bucket.base + waits.length * rate.interval;
  if (waits.length > 0) await setArrival(q, name, arrival);
  const nextMs = waits.length === 0 ? leastMs : waitAt(bucket, rate, waits.length);
  return { waits, nextMs, arrivalMs: (arrival - bucket.now) / 1000 };
}

/** Records a response 429: no requests are made for `forMs`. */
export async function penalise(q: Query, name: string, forMs: number): Promise<void> {
  await q.write("INSERT INTO rates (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name);
  await q.write(
    `UPDATE rates SET penalty_until = CASE WHEN penalty_until > now_ms() + $2 THEN penalty_until ELSE now_ms() + $2 END
     WHERE name = $1`,
    name,
    Math.ceil(forMs),
  );
}
