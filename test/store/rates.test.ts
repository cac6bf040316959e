// The shared rate: never more than the limit in any window, however many ask.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { penalise, type Rate, RateReserve, rateOf, takeRate } from "../../src/store/rates.ts";
import { listen } from "../support/pipeline/stage.ts";
import { fresh, onEachDatabase } from "../support/store/databases.ts";

const limitOf = (requests: number, perMs: number): Rate => rateOf(requests, perMs, standardTiming.rate);

/** The same rate under a clock of our own: now_ms() in the SQL becomes a number. */
function at(q: Query, now: () => number): Query {
  const clock = (sql: string) => sql.replaceAll("now_ms()", `CAST(${now()} AS BIGINT)`);
  return {
    ...q,
    all: (sql, ...values) => q.all(clock(sql), ...values),
    one: (sql, ...values) => q.one(clock(sql), ...values),
    run: (sql, ...values) => q.run(clock(sql), ...values),
    write: (sql, ...values) => q.write(clock(sql), ...values),
    writeOne: (otherwise, sql, ...values) => q.writeOne(otherwise, clock(sql), ...values),
  };
}

/** The most that happens in any half-open window of `per`. */
function most(times: readonly number[], per: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  let from = 0;
  return sorted.reduce((best, time, index) => {
    while (time - (sorted[from] ?? 0) >= per) from++;
    return Math.max(best, index - from + 1);
  }, 0);
}

async function play(db: Database, name: string, rate: Rate, steps: readonly Step[], start: number): Promise<number[]> {
  const made: number[] = [];
  let now = start;
  for (const { pause, count, wait, penalty } of steps) {
    now += pause;
    await db.tx(async (real) => {
      const q = at(real, () => now);
      if (penalty > 0) await penalise(q, name, penalty);
      const turn = await takeRate(q, name, rate, count, wait);
      if (turn.taken) for (let i = 0; i < count; i++) made.push(now + turn.waitMs);
    });
  }
  return made;
}

interface Step {
  readonly pause: number;
  readonly count: number;
  readonly wait: number;
  readonly penalty: number;
}

const step = (calls: number): fc.Arbitrary<Step> =>
  fc.record({
    pause: fc.oneof(
      { arbitrary: fc.constant(0), weight: 4 },
      fc.integer({ min: 0, max: 300 }),
      fc.integer({ min: 0, max: 20_000 }),
    ),
    count: fc.integer({ min: 1, max: calls }),
    wait: fc.constantFrom(0, 100, 2000, 60_000),
    penalty: fc.oneof({ arbitrary: fc.constant(0), weight: 20 }, fc.integer({ min: 1, max: 5000 })),
  });

/** The same on several nodes, each with a reserve and a clock of its own, which take turns. */
async function playNodes(
  db: Database,
  name: string,
  rate: Rate,
  steps: readonly (Step & { readonly node: number })[],
): Promise<number[]> {
  let now = 1_800_000_000_000;
  const shared: Database = { ...db, tx: (work) => db.tx((q) => work(at(q, () => now))) };
  const nodes = Array.from({ length: 4 }, (_, n) => {
    const clock = { ...systemClock, monotonic: () => now - 1_000_000 * n };
    return new RateReserve({ db: shared, clock, log: listen().log, name, rate, timing: standardTiming });
  });
  const made: number[] = [];
  for (const { pause, count, wait, penalty, node } of steps) {
    now += pause;
    const reserve = nodes[node];
    if (reserve === undefined) throw new Error(`there is no node ${node}`);
    if (penalty > 0) await shared.tx((q) => reserve.penalise(q, penalty));
    const grant = await reserve.take(count, wait);
    if (grant.taken) for (let i = 0; i < count; i++) made.push(now + grant.waitMs);
    else expect(grant.waitMs).toBeGreaterThan(wait);
  }
  return made;
}

const nodeStep = fc.tuple(step(4), fc.integer({ min: 0, max: 3 })).map(([one, node]) => ({ ...one, node }));

onEachDatabase((newDatabase) => {
  describe("rates", () => {
    it("never passes the limit in any window, for any limit and any crowd", async () => {
      const db = await fresh(newDatabase);
      let runs = 0;
      const limits = fc.constantFrom(
        [1, 1000],
        [2, 1000],
        [5, 1000],
        [10, 1000],
        [60, 10_000],
        [100, 1000],
        [1000, 60_000],
      );
      await fc.assert(
        fc.asyncProperty(
          limits.chain(([requests = 1, per = 1]) =>
            fc.tuple(
              fc.constant(requests),
              fc.constant(per),
              fc.array(step(requests < 5 ? 1 : 4), { minLength: 20, maxLength: 60 }),
            ),
          ),
          async ([requests, per, steps]) => {
            const made = await play(db, `r${runs++}`, limitOf(requests, per), steps, 1_800_000_000_000);
            expect(most(made, per)).toBeLessThanOrEqual(requests);
          },
        ),
        { numRuns: db.kind === "sqlite" ? 120 : 15 },
      );
    });

    it("never passes the limit in any window when nodes draw in batches", async () => {
      const db = await fresh(newDatabase);
      let runs = 0;
      const limits = fc.constantFrom([5, 1000], [10, 1000], [60, 10_000], [100, 1000], [1000, 60_000]);
      const steps = fc.array(nodeStep, { minLength: 20, maxLength: 80 });
      await fc.assert(
        fc.asyncProperty(limits, steps, async ([requests = 1, per = 1], customers) => {
          const made = await playNodes(db, `n${runs++}`, limitOf(requests, per), customers);
          expect(most(made, per)).toBeLessThanOrEqual(requests);
        }),
        { numRuns: db.kind === "sqlite" ? 120 : 15 },
      );
    });

    it("gives two busy nodes nearly all of 1000 per 60 s", async () => {
      const db = await fresh(newDatabase);
      const each = (n: number) => ({ pause: 40, count: 1, wait: 2000, penalty: 0, node: n % 2 });
      const steps = Array.from({ length: 2000 }, (_, n) => each(n));
      const made = await playNodes(db, "n", limitOf(1000, 60_000), steps);
      expect(most(made, 60_000)).toBeGreaterThan(930);
      expect(most(made, 60_000)).toBeLessThanOrEqual(1000);
    });

    it("asks no more than once in a while when one node is busy below the limit", async () => {
      const db = await fresh(newDatabase);
      let draws = 0;
      const counting: Database = { ...db, tx: (work) => (draws++, db.tx(work)) };
      const step = { pause: 5, count: 1, wait: 2000, penalty: 0, node: 0 };
      const rate = limitOf(100_000, 60_000);
      expect(
        await playNodes(
          counting,
          "n",
          rate,
          Array.from({ length: 2000 }, () => step),
        ),
      ).toHaveLength(2000);
      expect(draws).toBeLessThan(60);
    });

    it("draws for claimed work without a further commit where one process owns the store", async () => {
      const db = await fresh(newDatabase);
      let draws = 0;
      const counting: Database = { ...db, tx: (work) => (draws++, db.tx(work)) };
      const { log } = listen();
      const rate = limitOf(1000, 60_000);
      const reserve = new RateReserve({
        db: counting,
        clock: systemClock,
        log,
        name: "platform",
        rate,
        timing: standardTiming,
      });
      const start = await db.tx((q) => reserve.prepare(q, 2));
      start();
      start();
      expect(await reserve.take(2, 0)).toEqual({ taken: true, waitMs: 0 });
      expect(draws).toBe(db.kind === "sqlite" ? 0 : 1);
    });

    it("counts drawn requests as room only from the time at which they may be made", async () => {
      const db = await fresh(newDatabase);
      const { log } = listen();
      const rate = { ...limitOf(1000, 60_000), interval: 10_000_000, tolerance: 0, validMs: 60_000 };
      const reserve = new RateReserve({ db, clock: systemClock, log, name: "platform", rate, timing: standardTiming });
      const start = await db.tx((q) => reserve.prepare(q, 3));
      start();
      await reserve.take(0, 0);
      expect([0, 5000, 15_000].map((wait) => reserve.room(wait))).toEqual([1, 1, 2]);
    });

    it("hands out no request whose draw was rolled back", async () => {
      const db = await fresh(newDatabase);
      const { log } = listen();
      const rate = limitOf(5, 60_000); // a burst of four
      const reserve = new RateReserve({
        db,
        clock: systemClock,
        log,
        name: "platform",
        rate,
        timing: standardTiming,
      });
      const failing = db.tx(async (q) => {
        await reserve.prepare(q, 4);
        throw new Error("no");
      });
      await expect(failing).rejects.toThrow("no");
      expect(await reserve.take(4, 0)).toEqual({ taken: true, waitMs: 0 });
      expect((await reserve.take(1, 0)).taken).toBe(false);
    });

    it("discards what was drawn after a penalty, on the node that was refused at once", async () => {
      const db = await fresh(newDatabase);
      const step = { pause: 1, count: 1, wait: 0, penalty: 0, node: 0 };
      const made = await playNodes(db, "n", limitOf(100_000, 60_000), [step, { ...step, wait: 60_000, penalty: 5000 }]);
      expect((made[1] ?? 0) - (made[0] ?? 0)).toBeGreaterThanOrEqual(5000);
    });

    it("has no room for more than a running draw leaves, and none during a penalty", async () => {
      const db = await fresh(newDatabase);
      const { log } = listen();
      const rate = { ...limitOf(1000, 60_000), interval: 10_000_000, tolerance: 30_000_000 }; // a burst of four
      const reserve = new RateReserve({ db, clock: systemClock, log, name: "platform", rate, timing: standardTiming });
      expect(reserve.room(0)).toBe(4);
      const taking = reserve.take(3, 0);
      for (let turn = 0; turn < 4; turn++) await Promise.resolve();
      expect(reserve.room(0)).toBe(1);
      expect((await taking).taken).toBe(true);
      await db.tx((q) => reserve.penalise(q, 60_000));
      expect([0, 2000].map((wait) => reserve.room(wait))).toEqual([0, 0]);
    });

    it("gives 1000 per 60 s nearly all of it, at most 990", async () => {
      const db = await fresh(newDatabase);
      const steps = Array.from({ length: 2600 }, () => ({ pause: 25, count: 1, wait: 0, penalty: 0 }));
      const made = await db.tx(async (q) => {
        const inside = { ...db, tx: <T>(work: (inner: Query) => Promise<T>) => work(q) };
        return play(inside, "r", limitOf(1000, 60_000), steps, 1_800_000_000_000);
      });
      expect(most(made, 60_000)).toBeGreaterThan(950);
      expect(most(made, 60_000)).toBeLessThanOrEqual(990);
    });

    it("lets the largest piece of work begin under a small limit", async () => {
      for (const requests of [5, 10, 20, 44]) {
        const { interval, tolerance } = limitOf(requests, 60_000);
        expect(Math.floor(tolerance / interval) + 1, String(requests)).toBeGreaterThanOrEqual(4);
      }
      const db = await fresh(newDatabase);
      for (const requests of [1, 2, 3]) {
        const turn = await db.tx((q) => takeRate(q, `r${requests}`, limitOf(requests, 1000), 4, 2000));
        expect(turn.taken, String(requests)).toBe(true);
      }
    });

    it("reserves nothing when the wait would be too long", async () => {
      const db = await fresh(newDatabase);
      const slow = limitOf(1, 60_000);
      const take = (wait: number) => db.tx((q) => takeRate(q, "r", slow, 1, wait));
      expect(await take(0)).toEqual({ taken: true, waitMs: 0 });
      const refused = await take(1000);
      expect(refused.taken).toBe(false);
      const again = await take(1000);
      expect(again.taken).toBe(false);
      expect(again.waitMs).toBeLessThanOrEqual(refused.waitMs);
    });

    it("delays all callers for a penalty, the longest one", async () => {
      const db = await fresh(newDatabase, (q) => penalise(q, "r", 30_000.4));
      await db.tx((q) => penalise(q, "r", 10));
      const turn = await db.tx((q) => takeRate(q, "r", limitOf(1000, 60_000), 1, 60_000));
      expect(turn.taken).toBe(true);
      expect(turn.waitMs).toBeGreaterThan(25_000);
      expect((await db.tx((q) => takeRate(q, "other", limitOf(1000, 60_000), 1, 0))).taken).toBe(true);
    });

    it("ignores future times that a clock set back has left", async () => {
      const db = await fresh(newDatabase);
      const rate = limitOf(1000, 60_000);
      const hour = 3_600_000;
      const take = () => db.tx((q) => takeRate(q, "r", rate, 1, hour));
      await take();
      await db.tx((q) => q.run("UPDATE rates SET arrival = (now_ms() + $1) * 1000", hour));
      expect((await take()).waitMs).toBeLessThan(65_000);
      await db.tx((q) => q.run("UPDATE rates SET arrival = 0, penalty_until = now_ms() + $1", hour));
      expect((await take()).waitMs).toBeLessThan(16 * 60_000);
    });

    it("ends the wait of callers that do not wait as long as such a time lasts", async () => {
      const db = await fresh(newDatabase);
      const day = 86_400_000;
      await db.tx((q) => takeRate(q, "r", limitOf(1000, 60_000), 1, 0));
      await db.tx((q) =>
        q.run("UPDATE rates SET arrival = (now_ms() + $1) * 1000, penalty_until = now_ms() + $1", day),
      );
      expect((await db.tx((q) => takeRate(q, "r", limitOf(1000, 60_000), 1, 1000))).taken).toBe(false);
      const left = await db.read((q) =>
        q.one<{ arrival: number; penalty: number }>(
          "SELECT arrival / 1000 - now_ms() AS arrival, penalty_until - now_ms() AS penalty FROM rates WHERE name = 'r'",
        ),
      );
      expect(left?.arrival).toBeLessThan(70_000);
      expect(left?.penalty).toBeLessThan(16 * 60_000);
    });

    it("is one rate for many that ask at once", async () => {
      const db = await fresh(newDatabase);
      const rate = limitOf(20, 600_000);
      const turns = await Promise.all(Array.from({ length: 30 }, () => db.tx((q) => takeRate(q, "r", rate, 1, 0))));
      expect(turns.filter((turn) => turn.taken)).toHaveLength(4);
    });
  });
});
