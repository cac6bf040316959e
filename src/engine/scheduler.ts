// The scheduler of all stages (`Scheduler`). A transactional stage (`TransactionalStage`) is one function inside a
// transaction. A stage with effects claims work under leases, performs all I/O without writes, and applies
// one transition. Work that a commit made ready is claimed in the same commit. A message that meets an
// empty queue thus costs four commits from intake to "sent".

import type { Clock, Log } from "bridgehead/contract";
import type { Database, Query } from "../store/driver.ts";
import { LeaseLost } from "../store/lanes.ts";
import { createCancellation } from "./cancellation.ts";
import { type Claimed, type Stage, type TransactionalStage, type Transition, whenever } from "./stage.ts";
import { createTimer } from "./timer.ts";

export interface Scheduler {
  /** Runs `write`, runs the following stages in the same transaction, and starts the claimed work after
   *  the commit. */
  commit<T>(write: (q: Query) => Promise<T>): Promise<T>;
  /** Runs until the signal aborts. Sweeps periodically for due work and for work that other nodes
   *  abandoned. */
  run(signal: AbortSignal): Promise<void>;
  /** Runs one sweep for all due work, and releases work that this process could not finish. Returns
   *  false when the transaction fails. */
  sweep(): Promise<boolean>;
  /** Starts a sweep now instead of at the next interval. */
  wake(): void;
  /** Cancels the work that was claimed with this key immediately, because its outcome is obsolete. Its
   *  transition still runs. */
  cancel(key: string): void;
  /** Waits until running work has ended; after `ms` milliseconds its signals abort. */
  drain(ms: number): Promise<void>;
  /** Resolves when all work that runs now for that channel has ended. */
  settled(channel: string): Promise<void>;
  /** The number of running pieces of work. */
  running(): number;
}

const sweepMs = 1000;
/** A claim of unknown outcome is released this many milliseconds after its lease. */
const doubtMs = 30_000;
/** At most this many lanes of a channel are claimed before the next channel. */
const share = 4;

export function createScheduler(options: {
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly pure: readonly TransactionalStage[];
  readonly stages: readonly Stage[];
  /** Maximum concurrent work of a stage for a channel; 0 when the channel cannot work now. */
  concurrency(stage: string, channel: string): number;
}): Scheduler {
  const { db, clock, log } = options;
  const busy = new Map<string, number>();
  const works = new Map<Promise<void>, string>();
  const commits = new Set<Promise<void>>();
  const abort = new AbortController();
  let stopping = false;
  /** Number of writes queued for their transaction. */
  let queued = 0;
  /** By stage and channel: the sequence number of the last claim. */
  const served = new Map<string, number>();
  let servings = 0;
  /** Stages that found more work than they had room for. */
  const backlog = new Set<Stage>();
  let abandoned: Claimed[] = [];
  /** Work claimed in a commit that failed, or whose response was lost. */
  let doubtful: Claimed[] = [];
  const timer = createTimer(clock);
  const nudge = () => timer.wake();
  const keyed = createCancellation();

  const reserve = (stage: string, channel: string, by: number) => {
    const key = `${stage} ${channel}`;
    busy.set(key, (busy.get(key) ?? 0) + by);
  };

  async function claimAll(q: Query, everything: boolean, claimed: [Stage, Claimed][]): Promise<void> {
    for (const stage of stopping ? [] : options.stages) {
      if (!everything && !q.touched.has(stage.takes) && !backlog.has(stage)) continue;
      backlog.delete(stage);
      // Claims in fair order: the channel with the oldest claim is first, and each gets a small share in
      // turn. This keeps one channel with a long queue from using up the platform's rate limit.
      const last = (channel: string) => served.get(`${stage.name} ${channel}`) ?? 0;
      let waiting = [...(await stage.channels(q))].sort((a, b) => last(a) - last(b));
      while (waiting.length > 0) {
        const more: string[] = [];
        for (const channel of waiting) {
          const busyNow = busy.get(`${stage.name} ${channel}`) ?? 0;
          const most = Math.min(options.concurrency(stage.name, channel), stage.atOnce ?? Infinity);
          const room = Math.min(share, most - busyNow);
          // The stage is claimed again as soon as running work ends.
          if (room <= 0) backlog.add(stage);
          const found = room > 0 ? await claimSome(q, stage, channel, room, claimed) : 0;
          if (found > 0) served.set(`${stage.name} ${channel}`, ++servings);
          if (room > 0 && found === room) more.push(channel);
        }
        waiting = more;
      }
    }
    for (const [, one] of claimed) one.recorded("before");
  }

  /** Claims in a savepoint: an error in one channel does not stop the claims of others. */
  async function claimSome(
    q: Query,
    stage: Stage,
    channel: string,
    room: number,
    claimed: [Stage, Claimed][],
  ): Promise<number> {
    try {
      const found = await q.savepoint(() => stage.claim(q, channel, room));
      for (const one of found) {
        reserve(stage.name, channel, 1);
        claimed.push([stage, one]);
      }
      return found.length;
    } catch (error) {
      log.error({ stage: stage.name, channel, err: error }, "claiming work failed");
      return 0;
    }
  }

  function commit<T>(write: (q: Query) => Promise<T>, waking = true): Promise<T> {
    const committed = commitOnce(write, waking);
    const ended: Promise<void> = committed.then(
      () => void commits.delete(ended),
      () => void commits.delete(ended),
    );
    commits.add(ended);
    return committed;
  }

  async function commitOnce<T>(write: (q: Query) => Promise<T>, waking: boolean): Promise<T> {
    let claimed: [Stage, Claimed][] = [];
    let committed: (() => void)[] = [];
    const giveBack = () => {
      for (const [stage, one] of claimed) reserve(stage.name, one.channel, -1);
      claimed = [];
    };
    let result: T;
    let begun = false;
    const begin = () => {
      if (!begun) queued -= 1;
      begun = true;
    };
    queued += 1;
    try {
      result = await db.tx(async (q) => {
        begin();
        giveBack(); // the database may run a transaction again after a deadlock
        committed = [];
        const written = await write(q);
        // SQLite commits queued writes together: only the last of them runs the following stages for all.
        if (queued === 0 || db.kind === "postgres") await follow(q, !waking, claimed, committed, giveBack);
        if (waking) await db.wake(q);
        return written;
      });
    } catch (error) {
      begin();
      doubtful.push(...claimed.map(([, one]) => one));
      giveBack();
      // Other writes of the shared commit may have left work to claim. A sweep does not wake the loop,
      // because a failing sweep would then repeat without a pause.
      if (waking) nudge();
      throw error;
    }
    for (const tell of committed) tell();
    for (const [stage, one] of claimed) {
      one.recorded("after");
      start(stage, one);
    }
    return result;
  }

  /** Runs the following stages in savepoints. An error in them does not roll back the preceding write,
   *  and the sweep retries them. */
  async function follow(
    q: Query,
    everything: boolean,
    claimed: [Stage, Claimed][],
    committed: (() => void)[],
    giveBack: () => void,
  ): Promise<void> {
    for (const pure of options.pure) {
      if (!everything && !q.touched.has(pure.takes)) continue;
      await q
        .savepoint(async () => committed.push(...(await pure.run(q))))
        .catch((error: unknown) => log.error({ err: error }, "a pure stage failed"));
    }
    await q
      .savepoint(() => claimAll(q, everything, claimed))
      .catch((error: unknown) => {
        giveBack();
        log.error({ err: error }, "claiming work failed");
      });
    q.touched.clear();
    for (const ms of q.waits) timer.wakeIn(ms);
    q.waits.clear();
  }

  function start(stage: Stage, one: Claimed): void {
    const done = perform(stage, one).finally(() => {
      reserve(stage.name, one.channel, -1);
      works.delete(done);
      nudge();
    });
    works.set(done, one.channel);
  }

  async function perform(stage: Stage, one: Claimed): Promise<void> {
    try {
      await apply(stage, one, await keyed.run(one.key, abort.signal, (signal) => one.work(signal)));
      one.committing("after");
    } catch (error) {
      // The lease expires. The next holder of the lane treats the attempt as of unknown outcome.
      abandoned.push(one);
      if (error instanceof LeaseLost)
        log.warn({ stage: stage.name, channel: one.channel, err: error }, "lease lost");
      else log.error({ stage: stage.name, channel: one.channel, err: error }, "a stage failed");
    }
  }

  /** Commits the transition. When the store is busy or full it retries with backoff while the lease
   *  lasts. A commit whose response was lost is not written twice, because it has released the lane. */
  async function apply(stage: Stage, one: Claimed, transition: Transition): Promise<void> {
    for (let pause = 50; ; pause = Math.min(pause * 2, 2000)) {
      try {
        await commit(async (q) => {
          await transition(q);
          one.committing("before");
        });
        return;
      } catch (error) {
        if (error instanceof LeaseLost || one.left() <= pause) throw error;
        log.warn(
          { stage: stage.name, channel: one.channel, err: error },
          "an outcome could not be written yet",
        );
        await clock.sleep(pause);
      }
    }
  }

  /** Resolves when no work runs; a running commit may still start the work it has claimed. */
  async function settled(): Promise<void> {
    while (works.size + commits.size > 0) await Promise.allSettled([...works.keys(), ...commits]);
  }

  async function sweep(): Promise<boolean> {
    // A doubtful claim that was rolled back may have been claimed again under the same token. It is
    // released only after that lease is over too.
    const over = doubtful.filter((one) => one.left() < -doubtMs);
    const letGo = [...abandoned, ...over];
    try {
      await commit(async (q) => {
        for (const one of letGo) await one.abandon(q);
      }, false); // a sweep wakes no other node: the nodes would wake each other without end
      abandoned = abandoned.filter((one) => !letGo.includes(one));
      doubtful = doubtful.filter((one) => !over.includes(one));
      return true;
    } catch (error) {
      log.error({ err: error }, "the sweep failed");
      return false;
    }
  }

  return {
    commit: (write) => commit(write),
    async run(signal) {
      db.onWake(nudge);
      while (!signal.aborted) {
        timer.begin();
        const well = await sweep();
        await timer.over(sweepMs, signal, !well);
      }
    },
    sweep,
    wake: nudge,
    cancel: (key) => keyed.cancel(key),
    async drain(ms) {
      stopping = true;
      keyed.cancel(whenever);
      const patience = new AbortController();
      const ended = settled().then(() => patience.abort());
      await clock.sleep(ms, patience.signal);
      abort.abort();
      await ended;
    },
    async settled(channel) {
      const own = [...works].filter(([, of]) => of === channel).map(([work]) => work);
      await Promise.allSettled(own);
    },
    running: () => works.size,
  };
}
