// The loop of all stages: capacity, failures, drain.

import { join } from "node:path";
import type { Clock } from "bridgehead/contract";
import { describe, expect, it, onTestFinished } from "vitest";
import { Scheduler } from "../../src/engine/scheduler.ts";
import type { Claimed, Stage, TransactionalStage } from "../../src/engine/stage.ts";
import { type TimingOverrides, timingWith } from "../../src/ops/timing.ts";
import type { Database } from "../../src/store/driver.ts";
import { abandonLane, guardLease, releaseLane } from "../../src/store/lanes.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { writeSettings } from "../../src/store/tables/agents.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { endAttempt, recordAsking, type TurnRow } from "../../src/store/tables/turns.ts";
import { describeReal } from "../support/machine/debian.ts";
import { clock, listen, watched } from "../support/pipeline/stage.ts";
import { newFolder } from "../support/resources.ts";
import {
  concludeTurn,
  conversation,
  fresh,
  headTurn,
  leaseLanes,
  postgresDatabase,
  turn,
} from "../support/store/databases.ts";
import { needPostgres, sharedPostgres } from "../support/store/postgres.ts";

/** A stage that answers turns with `work`. */
function answering(work: (turn: TurnRow, signal: AbortSignal) => Promise<void>, leaseMs = 60_000): Stage {
  return {
    name: "ask",
    takes: "turns",
    async claim(q, channel, room) {
      const claimed: Claimed[] = [];
      for (const lease of await leaseLanes(q, "in", channel, "n", leaseMs, room)) {
        const row = await headTurn(q, lease);
        if (!row) throw new Error("a lane was due without a head");
        if (row.state === "waiting") await recordAsking(q, row, "n", lease.token);
        claimed.push({
          channel,
          left: () => leaseMs,
          abandon: (inner) => abandonLane(inner, lease),
          async work(signal) {
            await work(row, signal);
            return async (inner) => {
              await guardLease(inner, lease);
              await endAttempt(inner, row.id, "sent", null);
              await concludeTurn(inner, row.id, { state: "answered", open: 0 });
              await releaseLane(inner, lease, "in");
            };
          },
        });
      }
      return { claimed, room };
    },
  };
}

function schedulerOf(
  db: Database,
  stages: readonly Stage[],
  over: {
    transactional?: TransactionalStage[];
    room?: (stage: string) => number;
    clock?: Clock;
    timing?: TimingOverrides;
  } = {},
) {
  const heard = listen();
  const scheduler = new Scheduler({
    db,
    node: "n",
    clock: over.clock ?? clock,
    log: heard.log,
    timing: timingWith(over.timing),
    transactional: over.transactional ?? [],
    stages,
    capacity: over.room ?? (() => 10),
  });
  return { scheduler, heard };
}

/** Who sleeps on it sleeps until he is woken, unless `allow` lets sleeps end by themselves. */
function drowsyClock() {
  let [ends, resting] = [false, 0];
  const drowsy: Clock = {
    ...clock,
    async sleep(ms, signal) {
      if (ends) return clock.sleep(ms, signal);
      resting += 1;
      await clock.sleep(3_600_000, signal);
      resting -= 1;
    },
  };
  return { drowsy, resting: () => resting, allow: (now: boolean) => void (ends = now) };
}

/** A migrated store with channel `c` in a file, whose syncs are `sync`. */
async function onDisk(sync: () => Promise<void>): Promise<Database> {
  const folder = newFolder();
  const db = openSqlite(join(folder, "store.db"), Date.now, { sync });
  onTestFinished(() => db.close());
  await migrate(db);
  await db.tx((q) => ensureChannel(q, "c"));
  return db;
}

/** Sweeps until the test ends. */
function sweep(scheduler: Scheduler): void {
  const abort = new AbortController();
  const swept = scheduler.run(abort.signal);
  onTestFinished(async () => {
    abort.abort();
    await scheduler.drain(1000);
    await swept;
  });
}

const put = (scheduler: Scheduler, count: number, from = 0) =>
  scheduler.commit(async (q) => {
    for (let i = from; i < from + count; i++) await turn(q, `t${i}`, await conversation(q, `k${i}`));
  });
const left = async (db: Database) => (await db.read((q) => q.all("SELECT 1 FROM turns WHERE open = 1"))).length;

describe("scheduler", () => {
  it("starts what a commit made ready, at most as much as there is room for, and all in the end", async () => {
    const db = await watched();
    let [now, most] = [0, 0];
    const stage = answering(async () => {
      most = Math.max(most, ++now);
      await new Promise<void>((resolve) => setImmediate(resolve));
      now -= 1;
    });
    const { scheduler, heard } = schedulerOf(db, [stage], { room: () => 3 });
    sweep(scheduler);
    await put(scheduler, 40);
    expect(scheduler.running()).toBeGreaterThan(0);
    await expect.poll(() => left(db)).toBe(0);
    expect(most).toBe(3);
    expect(heard.lines).toEqual([]);
  });

  it("starts claimed work at the commit, and acknowledges the commit when it is on disk", async () => {
    let [isSlow, end] = [false, () => undefined as void];
    const sync = () => (isSlow ? new Promise<void>((resolve) => (end = resolve)) : Promise.resolve());
    const db = await onDisk(sync);
    const started = Promise.withResolvers<void>();
    const stage = answering(async () => started.resolve());
    const { scheduler } = schedulerOf(db, [stage]);
    isSlow = true;
    let isAcknowledged = false;
    const committed = put(scheduler, 1).then(() => (isAcknowledged = true));
    await started.promise;
    expect(isAcknowledged).toBe(false);
    isSlow = false;
    end();
    await committed;
    await scheduler.drain(1000);
    expect(await left(db)).toBe(0);
  });

  it("frees the capacity of work that a commit with a failed sync has started, once it has ended", async () => {
    let isBroken = false;
    const sync = () => (isBroken ? Promise.reject(new Error("EIO")) : Promise.resolve());
    const db = await onDisk(sync);
    let calls = 0;
    const stage = answering(async () => void (calls += 1), 10);
    const { scheduler } = schedulerOf(db, [stage]);
    isBroken = true;
    await expect(put(scheduler, 1)).rejects.toThrow("failed to write");
    await scheduler.drain(1000);
    expect([calls, scheduler.running()]).toEqual([1, 0]);
  });

  it("does nothing on a channel without room, until there is some", async () => {
    const db = await watched();
    let room = 0;
    const { scheduler } = schedulerOf(db, [answering(async () => undefined)], { room: () => room });
    await put(scheduler, 1);
    expect([scheduler.running(), await left(db)]).toEqual([0, 1]);
    room = 1;
    sweep(scheduler);
    await expect.poll(() => left(db)).toBe(0);
  });

  it("finds work again that a defect in a stage left lying, when its lease has ended", async () => {
    const db = await watched();
    let calls = 0;
    const stage = answering(async () => {
      calls += 1;
      if (calls === 1) throw new Error("a defect");
    }, 100);
    const { scheduler, heard } = schedulerOf(db, [stage], { room: () => 1 });
    sweep(scheduler);
    await put(scheduler, 1);
    await expect.poll(() => left(db)).toBe(0);
    expect([calls, heard.lines]).toEqual([2, ["a stage failed"]]);
    const [attempt] = await db.read((q) => q.all("SELECT number, outcome FROM attempts"));
    expect(attempt).toEqual({ number: 1, outcome: "sent" });
  });

  it("keeps what was written when what follows from it fails, and tries that again", async () => {
    const db = await watched();
    let [broken, told] = [true, 0];
    const pure: TransactionalStage = {
      takes: "turns",
      async run(q) {
        await writeSettings(q, "half", "{}");
        if (broken) throw new Error("a defect");
        return [() => told++];
      },
    };
    const { scheduler, heard } = schedulerOf(db, [answering(async () => undefined)], {
      transactional: [pure],
      room: () => (broken ? 0 : 1),
    });
    await put(scheduler, 1);
    expect(await db.read((q) => q.all("SELECT id FROM agents"))).toEqual([]);
    expect(heard.lines).toEqual(["a transactional stage failed"]);
    expect(await left(db)).toBe(1);
    broken = false;
    await scheduler.sweep();
    expect(await db.read((q) => q.all("SELECT id FROM agents"))).toEqual([{ id: "half" }]);
    expect(told).toBe(1);
    await expect.poll(() => left(db)).toBe(0);
  });

  it("gives room back when claiming fails, and leaves no lease behind", async () => {
    const db = await watched();
    let broken = true;
    const good = answering(async () => undefined);
    const stage: Stage = {
      ...good,
      async claim(q, channel, room) {
        const claimed = await good.claim(q, channel, room);
        if (broken) throw new Error("a defect");
        return claimed;
      },
    };
    const after: Stage = {
      name: "after",
      takes: "turns",
      claim: async (_q, _channel, room) => ({ claimed: [], room }),
    };
    for (const stages of [[stage], [good, after]]) {
      broken = true;
      const room = (name: string) => {
        if (broken && name === "after") throw new Error("a later defect");
        return 1;
      };
      const { scheduler, heard } = schedulerOf(db, stages, { room });
      await put(scheduler, 1, stages.length);
      expect([scheduler.running(), heard.lines]).toEqual([0, ["claiming work failed"]]);
      expect(await db.read((q) => q.all("SELECT 1 FROM lanes WHERE lease_until > 0"))).toEqual([]);
      broken = false;
      await scheduler.sweep();
      await expect.poll(() => left(db)).toBe(0);
      await scheduler.drain(1000);
    }
  });

  it("rejects a write that throws, gives room back, and follows up on the others of its commit", async () => {
    const db = await watched();
    const { drowsy, resting } = drowsyClock();
    const { scheduler } = schedulerOf(db, [answering(async () => undefined)], {
      room: () => 1,
      clock: drowsy,
    });
    sweep(scheduler);
    await expect.poll(resting, { interval: 5 }).toBe(1);
    const good = put(scheduler, 1);
    const bad = scheduler.commit(async () => {
      throw new Error("no");
    });
    await expect(bad).rejects.toThrow("no");
    await good;
    await expect.poll(() => left(db)).toBe(0);
  });

  it("drains: what runs ends, nothing new begins", async () => {
    const db = await watched();
    let finish = () => undefined as void;
    const gate = new Promise<void>((resolve) => (finish = resolve));
    const { scheduler } = schedulerOf(db, [answering(() => gate)], { room: () => 1 });
    await put(scheduler, 2);
    const drained = scheduler.drain(60_000);
    finish();
    await drained;
    expect([scheduler.running(), await left(db)]).toEqual([0, 1]);
    await scheduler.sweep();
    expect(scheduler.running()).toBe(0);
  });

  it("drains: after the given time the signal aborts", async () => {
    const db = await watched();
    const { scheduler } = schedulerOf(db, [
      answering((_, signal) => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()))),
    ]);
    await put(scheduler, 1);
    await scheduler.drain(20);
    expect([scheduler.running(), await left(db)]).toEqual([0, 0]);
  });

  it("drains: waits for what a commit under way has claimed", async () => {
    const db = await watched();
    const begun = Promise.withResolvers<void>();
    let worked = false;
    const stage = answering(async () => {
      await new Promise<void>((resolve) => setImmediate(resolve));
      worked = true;
    });
    const draining: Stage = {
      ...stage,
      async claim(q, channel, room) {
        const claimed = await stage.claim(q, channel, room);
        begun.resolve(scheduler.drain(60_000));
        return claimed;
      },
    };
    const { scheduler } = schedulerOf(db, [draining]);
    const written = put(scheduler, 1);
    await begun.promise;
    expect(worked).toBe(true);
    await written;
    expect(await left(db)).toBe(0);
  });
});

describeReal("the scheduler on PostgreSQL", await needPostgres(), () => {
  it("claims at once what a commit has released, without a sweep", async () => {
    const store = await postgresDatabase(await sharedPostgres());
    const db = await fresh(async () => store);
    const order: string[] = [];
    const { scheduler } = schedulerOf(db, [answering(async ({ id }) => void order.push(id))]);
    await scheduler.commit(async (q) => {
      await conversation(q, "k");
      for (const id of ["t0", "t1", "t2", "t3"]) await turn(q, id, "k");
    });
    await expect.poll(() => left(db), { interval: 5 }).toBe(0);
    expect(order).toEqual(["t0", "t1", "t2", "t3"]);
    await scheduler.drain(1000);
  });

  it("wakes for work that becomes due soon after the commit that released it", async () => {
    const store = await postgresDatabase(await sharedPostgres());
    const db = await fresh(async () => store);
    const { drowsy, allow } = drowsyClock();
    allow(true);
    const timing = { scheduler: { sweep: 3_600_000 } };
    const work = schedulerOf(db, [answering(async () => undefined)], { clock: drowsy, timing });
    sweep(work.scheduler);
    await work.scheduler.commit(async (q) => {
      await conversation(q, "k");
      for (const id of ["t0", "t1"]) await turn(q, id, "k");
      await q.run("UPDATE turns SET due_at = now_ms() + 500 WHERE id = 't1'");
    });
    await expect.poll(() => left(db), { interval: 5 }).toBe(0);
  });
});

describeReal("two nodes on PostgreSQL", await needPostgres(), () => {
  it("rest when there is nothing to do, and take up at once what the other one has no room for", async () => {
    const server = await sharedPostgres();
    const store = await postgresDatabase(server);
    const db = await fresh(async () => store);
    const looks: number[] = [];
    const idle: TransactionalStage = {
      takes: "sessions",
      async run() {
        looks.push(performance.now());
        return [];
      },
    };
    const busy = schedulerOf(db, [answering(async () => undefined)], {
      room: () => 0,
      transactional: [idle],
    });
    const { drowsy, resting, allow } = drowsyClock();
    allow(true);
    const free = schedulerOf(await store.open(), [answering(async () => undefined)], {
      transactional: [idle],
      clock: drowsy,
    });
    sweep(busy.scheduler);
    sweep(free.scheduler);
    await expect.poll(() => looks.length).toBeGreaterThan(5);
    // Two nodes that look once a second: six looks take two seconds. Waking each other, they would take none.
    expect((looks[5] ?? 0) - (looks[0] ?? 0)).toBeGreaterThan(1500);
    // From now on the free one wakes when it is woken, or not at all.
    allow(false);
    await expect.poll(resting, { interval: 5 }).toBe(1);
    await put(busy.scheduler, 5);
    await expect.poll(() => left(db), { interval: 5 }).toBe(0);
  });
});
