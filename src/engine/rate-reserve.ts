// The share of this process in a rate limit of all nodes. Requests are drawn from the shared row in batches,
// in short transactions of their own, and handed out from memory. Drawn requests expire, so that the sum
// over all nodes never exceeds the limit (`rateOf`).

import type { Clock, Log } from "bridgehead/contract";
import type { Timing } from "../ops/timing.ts";
import { atCommit, type Database, type Query } from "../store/driver.ts";
import { isUnreachable } from "../store/postgres/unreachable.ts";
import { burstOf, type Drawn, drawRate, penalise, type Rate } from "../store/rates.ts";

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

export class RateReserve {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #name: string;
  readonly #rate: Rate;
  readonly #timing: Timing["rate"];
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
  /** Number of requests that claims will take soon. */
  #expected = 0;
  /** Incremented when the reserve is discarded. */
  #generation = 0;

  constructor(options: {
    readonly db: Database;
    readonly clock: Clock;
    readonly log: Log;
    readonly name: string;
    readonly rate: Rate;
    readonly timing: Timing;
  }) {
    this.#db = options.db;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#name = options.name;
    this.#rate = options.rate;
    this.#timing = options.timing.rate;
  }

  /** Returns an estimate of how many requests could be taken now with that wait. For claims, which must
   *  neither wait nor read the row. It is too high when other nodes have used up the limit since the last
   *  draw. */
  room(maxWaitMs: number): number {
    const now = this.#clock.monotonic();
    this.#expire(now);
    const { tolerance, interval } = this.#rate;
    const ahead = Math.max(this.#arrivalAt, now) - now;
    const isLate = this.#nextAt - now > maxWaitMs;
    const undrawn = isLate ? 0 : Math.floor((maxWaitMs * 1000 + tolerance - ahead * 1000) / interval) + 1;
    const demand = this.#waiting.reduce((sum, { count }) => sum + count, 0);
    return Math.max(0, Math.max(0, undrawn) + this.#drawn.length - demand);
  }

  /** Draws when fewer than `count` requests are in memory. Claims call it. Where one process owns the store,
   *  the draw is part of their transaction: it waits for no lock, and needs no commit. Else it runs while
   *  their transaction commits, because other nodes would wait for the row. The work that was claimed calls
   *  the returned function when it starts, which is after the commit: requests that were drawn by a
   *  transaction that is rolled back are not handed out. */
  async prepare(q: Query, count: number): Promise<() => void> {
    const now = this.#clock.monotonic();
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
    let found: Drawn | null = await drawRate(q, this.#name, this.#rate, draw);
    const drawnAt = this.#clock.monotonic();
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
    await penalise(q, this.#name, forMs);
  }

  #expire(now: number): void {
    const alive = this.#drawn.findIndex((from) => from + this.#rate.validMs > now);
    if (alive !== 0) this.#drawn = alive < 0 ? [] : this.#drawn.slice(alive);
  }

  /** Takes the requests from memory; `taken` is false when there are too few, or they are too late. */
  #grant({ count, maxWaitMs }: WaitingDraw): RateGrant {
    const now = this.#clock.monotonic();
    this.#expire(now);
    // Requests beyond the burst are charged, although they exceed the limit at that moment.
    const last = this.#drawn[Math.min(count, burstOf(this.#rate)) - 1] ?? now;
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
      const served = this.#unserved(this.#waiting);
      this.#waiting = [];
      if (served.length === 0) continue;
      const isWhole = await this.#draw(served).catch((error: unknown) => {
        // The scheduler has one line for a store that is lost.
        const fields = { rate: this.#name, err: error };
        if (isUnreachable(error))
          this.#log.debug(fields, "drawing from the rate limit failed, the store is unreachable");
        else this.#log.warn(fields, "drawing from the rate limit failed");
        for (const one of served) one.resolve({ taken: false, waitMs: this.#timing.drawRetry });
        return true;
      });
      if (!isWhole) this.#waiting.unshift(...served); // discarded meanwhile
    }
    this.#isDrawing = false;
  }

  /** Answers calls that the requests in memory cover: an earlier draw may have brought enough. Returns the
   *  others, in order. */
  #unserved(waiting: readonly WaitingDraw[]): readonly WaitingDraw[] {
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
    const before = this.#clock.monotonic();
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
    const found = await atCommit(this.#db, (q) => drawRate(q, this.#name, this.#rate, draw));
    if (generation !== this.#generation) return false;
    this.#add(found, this.#clock.monotonic());
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
    const { validMs, interval } = this.#rate;
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
