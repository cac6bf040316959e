// Rate limits as GCRA rows, shared by all nodes, and the share of this process in one of them (`RateReserve`): requests are
// drawn from the row in batches, in short transactions of their own, and handed out from memory. Drawn requests expire, so
// that the sum over all nodes never exceeds the limit (`rateOf`). `arrival` is the theoretical arrival time of the next
// request. Its unit is microseconds, so that 15 requests per second divide precisely enough.

import type { Timing } from "../ops/timing.ts";
import { atCommit, type Core, type Query } from "./driver.ts";
import { isUnreachable } from "./postgres/unreachable.ts";

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
export function rateOf(requests: number, perMs: number, timing: Timing["rate"]): Rate {
  const burst = Math.max(1, Math.min(smallestBurst, requests - 1), Math.floor(requests * 0.09));
  const steady = Math.max(1, Math.min(Math.floor(requests * 0.9), requests - burst));
  const validMs = Math.min(timing.drawValid, perMs / 10);
  const interval = Math.ceil(((perMs + validMs) * 1000) / steady);
  return { interval, tolerance: (burst - 1) * interval, validMs, bounds: timing };
}

/** Returns the GCRA parameters for at most `messages` in any window of `perMs`, excluding its end. A
 *  tenth of them may be sent at once after an idle period. */
export function sendRate(messages: number, perMs: number, timing: Timing["rate"]): Rate {
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
  // After a backward clock step the stored times are in the future. The wait is limited to its longest valid value.
  const penalty = Math.min(row.penalty_until * 1000, now + longestPenalty * 1000);
  // Requests that wait for the end of a penalty are counted from that end; otherwise all of them would be
  // sent at that moment.
  const ahead = rate.tolerance + rate.interval * smallestBurst + longestWait * 1000;
  const arrival = Math.min(row.arrival, now + ahead);
  // Stored, so that the wait ends: a caller that does not wait as long changes nothing.
  if (arrival < row.arrival || penalty < row.penalty_until * 1000)
    await q.run("UPDATE rates SET arrival = $2, penalty_until = $3 WHERE name = $1", name, arrival, penalty / 1000);
  return { now, base: Math.max(arrival, now, penalty), penalty };
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
interface Drawn {
  /** The time until each drawn request may be made; each must be made within `validMs` after that. */
  readonly waits: readonly number[];
  /** The wait for the request after them, or for `least` requests when none was drawn. */
  readonly nextMs: number;
  /** The time until that request would be on schedule. */
  readonly arrivalMs: number;
}

/** Draws requests for a reserve. The row is locked until the transaction ends, so it does nothing else where other
 *  nodes use the row. Draws `least` requests or none, the rest of `wanted` while their wait is within `maxWaitMs`, and up
 *  to `spare` more that need not wait. */
async function drawRate(
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
    forMs,
  );
}

/** Granted requests, with the milliseconds to wait before making them. Not granted: the wait is too long. */
export interface RateGrant {
  readonly taken: boolean;
  readonly waitMs: number;
}

interface WaitingDraw {
  readonly count: number;
  readonly maxWaitMs: number;
  resolve(grant: RateGrant): void;
}

type RateReserveOptions = Omit<Core, "node"> & { readonly name: string; readonly rate: Rate };

export class RateReserve {
  readonly #options: RateReserveOptions;
  /** Monotonic milliseconds from which each drawn request may be made, ascending. */
  #drawn: number[] = [];
  #waiting: WaitingDraw[] = [];
  #isDrawing = false;
  /** Monotonic milliseconds, as seen at the last draw: from when the next request may be made, and when it
   *  would be on schedule. */
  #nextAt = Number.NEGATIVE_INFINITY;
  #arrivalAt = Number.NEGATIVE_INFINITY;
  /** Number of requests handed out since the last draw, and its time. */
  #used = 0;
  #drawnAt = Number.NEGATIVE_INFINITY;
  /** Number of requests that the running draw is for. */
  #served = 0;
  /** Number of requests that claims will take soon. */
  #expected = 0;
  /** Incremented when the reserve is discarded. */
  #generation = 0;

  constructor(options: RateReserveOptions) {
    this.#options = options;
  }

  /** Returns an estimate of how many requests could be taken now with that wait. For claims, which must neither wait
   *  nor read the row. It is too high when other nodes have used up the limit since the last draw. */
  room(maxWaitMs: number): number {
    const now = this.#options.clock.monotonic();
    this.#expire(now);
    const { tolerance, interval } = this.#options.rate;
    const ahead = Math.max(this.#arrivalAt, now) - now;
    const isLate = this.#nextAt - now > maxWaitMs;
    const undrawn = isLate ? 0 : Math.floor((maxWaitMs * 1000 + tolerance - ahead * 1000) / interval) + 1;
    const drawn = this.#drawn.filter((from) => from - now <= maxWaitMs).length;
    const demand = this.#waiting.reduce((sum, { count }) => sum + count, this.#served);
    return Math.max(0, Math.max(0, undrawn) + drawn - demand);
  }

  /** Draws when fewer than `count` requests are in memory. Claims call it. Where one process owns the store,
   *  the draw is part of their transaction: it waits for no lock, and needs no commit. Else it runs while
   *  their transaction commits, because other nodes would wait for the row. The work that was claimed calls
   *  the returned function when it starts, which is after the commit: requests that were drawn by a
   *  transaction that is rolled back are not handed out. */
  async prepare(q: Query, count: number): Promise<() => void> {
    const now = this.#options.clock.monotonic();
    this.#expire(now);
    const missing = count - this.#drawn.length;
    if (missing <= 0) return nothing;
    if (q.leases === null || this.#isDrawing) {
      this.#expected += count;
      void this.take(0, 0);
      return nothing;
    }
    const generation = this.#generation;
    const draw = { least: missing, wanted: missing, spare: this.#spare(now, count), maxWaitMs: 0 };
    let found: Drawn | null = await drawRate(q, this.#options.name, this.#options.rate, draw);
    const drawnAt = this.#options.clock.monotonic();
    return () => {
      if (found !== null && generation === this.#generation) this.#add(found, drawnAt);
      found = null;
    };
  }

  /** Takes requests from memory, or waits for a draw. Never call it inside a transaction. Resolves as not
   *  taken when the wait would exceed `maxWaitMs`, or when the store fails. */
  take(count: number, maxWaitMs: number): Promise<RateGrant> {
    const { promise, resolve } = Promise.withResolvers<RateGrant>();
    const waiting = { count, maxWaitMs, resolve };
    const grant = this.#waiting.length === 0 && count > 0 ? this.#grant(waiting) : null;
    if (grant?.taken) return Promise.resolve(grant);
    this.#waiting.push(waiting);
    if (!this.#isDrawing) void this.#drawAll();
    return promise;
  }

  /** Records in this transaction that no node may make requests for `forMs`, and discards the reserve. The
   *  other nodes find out when their reserves expire. */
  async penalise(q: Query, forMs: number): Promise<void> {
    this.#drawn = [];
    this.#generation++;
    this.#nextAt = Math.max(this.#nextAt, this.#options.clock.monotonic() + forMs);
    await penalise(q, this.#options.name, forMs);
  }

  #expire(now: number): void {
    const alive = this.#drawn.findIndex((from) => from + this.#options.rate.validMs > now);
    if (alive !== 0) this.#drawn = alive < 0 ? [] : this.#drawn.slice(alive);
  }

  /** Takes the requests from memory; `taken` is false when there are too few, or they are too late. */
  #grant({ count, maxWaitMs }: WaitingDraw): RateGrant {
    const now = this.#options.clock.monotonic();
    this.#expire(now);
    // Requests beyond the burst are charged, although they exceed the limit at that moment.
    const last = this.#drawn[Math.min(count, burstOf(this.#options.rate)) - 1] ?? now;
    const waitMs = Math.max(0, last - now);
    if (this.#drawn.length < count || waitMs > maxWaitMs)
      return { taken: false, waitMs: Math.max(waitMs, Math.ceil(this.#nextAt - now)) };
    this.#drawn.splice(0, count);
    this.#used += count;
    return { taken: true, waitMs };
  }

  async #drawAll(): Promise<void> {
    this.#isDrawing = true;
    // Work that starts in the same turn of the event loop shares the draw.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const served = this.#unfilled(this.#waiting);
      this.#waiting = [];
      if (served.length === 0) continue;
      const isWhole = await this.#draw(served).catch((error: unknown) => {
        // The scheduler has one line for a store that is lost.
        const fields = { rate: this.#options.name, err: error };
        if (isUnreachable(error))
          this.#options.log.debug(fields, "drawing from the rate limit failed, the store is unreachable");
        else this.#options.log.warn(fields, "drawing from the rate limit failed");
        for (const one of served) one.resolve({ taken: false, waitMs: this.#options.timing.rate.drawRetry });
        return true;
      });
      if (!isWhole) this.#waiting.unshift(...served); // discarded meanwhile
    }
    this.#isDrawing = false;
  }

  /** Answers calls that the requests in memory cover: an earlier draw may have brought enough. Returns the
   *  others, in order. */
  #unfilled(waiting: readonly WaitingDraw[]): readonly WaitingDraw[] {
    for (const [at, one] of waiting.entries()) {
      const grant = one.count > 0 ? this.#grant(one) : null;
      if (!grant?.taken) return waiting.slice(at);
      one.resolve(grant);
    }
    return [];
  }

  /** Draws for these calls and answers them in order. Returns false when the reserve was discarded while
   *  the draw ran. */
  async #draw(served: readonly WaitingDraw[]): Promise<boolean> {
    const generation = this.#generation;
    const before = this.#options.clock.monotonic();
    this.#expire(before);
    const demand = served.reduce((sum, { count }) => sum + count, 0);
    const wanted = Math.max(0, demand - this.#drawn.length);
    const draw = {
      least: Math.max(1, Math.min(wanted, served.find(({ count }) => count > 0)?.count ?? 1)),
      wanted,
      spare: this.#spare(before, demand),
      maxWaitMs: Math.max(...served.map(({ maxWaitMs }) => maxWaitMs)),
    };
    // Does not wait for the disk: what a power failure takes, the limit replaces before the machine is back.
    this.#served = demand;
    const drawing = atCommit(this.#options.db, (q) => drawRate(q, this.#options.name, this.#options.rate, draw));
    const found = await drawing.finally(() => (this.#served = 0));
    if (generation !== this.#generation) return false;
    this.#add(found, this.#options.clock.monotonic());
    for (const one of served) one.resolve(one.count === 0 ? { taken: true, waitMs: 0 } : this.#grant(one));
    return true;
  }

  /** Adds requests drawn at `drawnAt` (monotonic milliseconds) to those in memory. */
  #add({ waits, nextMs, arrivalMs }: Drawn, drawnAt: number): void {
    for (const waitMs of waits) this.#drawn.push(drawnAt + waitMs);
    this.#drawn.sort((a, b) => a - b);
    this.#nextAt = drawnAt + nextMs;
    this.#arrivalAt = drawnAt + arrivalMs;
    this.#used = 0;
    this.#drawnAt = drawnAt;
  }

  /** The number of requests to draw beyond the demand: as many as were used lately in the time for which
   *  they are valid, and no more than the limit replaces in that time. */
  #spare(now: number, demand: number): number {
    const { validMs, interval } = this.#options.rate;
    const elapsed = Math.max(1, now - this.#drawnAt);
    const used = this.#used + demand;
    const lately = Math.min((used * validMs) / elapsed, 2 * used);
    const expected = Math.max(lately, this.#expected - demand);
    this.#expected = 0;
    const replaced = (validMs * 1000) / interval;
    return Math.floor(Math.min(Math.max(expected, smallestBatch), replaced));
  }
}

const nothing = () => undefined;

/** Opening a conversation and asking the first question take up to four requests. */
const smallestBatch = 4;
