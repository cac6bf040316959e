// The scheduler of all stages. A transactional stage is one function inside a transaction. A stage with
// effects claims work under leases, performs all I/O without writes, and applies one transition. Work that
// a commit made ready is claimed in the same commit, also with the capacity that this commit frees.

import type { Clock, Log } from "bridgehead/contract";
import type { Timing } from "../ops/timing.ts";
import type { CommitPace, Database, Query } from "../store/driver.ts";
import { findDue } from "../store/due.ts";
import { LeaseLost } from "../store/lanes.ts";
import { isUnreachable } from "../store/postgres/unreachable.ts";
import { type ClaimedWork, Claims, Running } from "./claims.ts";
import { type Claimed, type Stage, type TransactionalStage, type Transition, whenever } from "./stage.ts";

export interface SchedulerOptions {
  readonly db: Database;
  readonly node: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly transactional: readonly TransactionalStage[];
  readonly stages: readonly Stage[];
  readonly timing: Timing;
  /** Maximum concurrent work of a stage for a channel; 0 when the channel cannot work now. Asked for every
   *  claim. */
  capacity(stage: string, channel: string): number;
}

export class Scheduler {
  readonly #db: Database;
  readonly #node: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #transactional: readonly TransactionalStage[];
  readonly #claims: Claims;
  readonly #running: Running;
  readonly #timing: Timing["scheduler"];
  readonly #timer: SweepTimer;
  /** The running commits. */
  readonly #commits = new Set<Promise<void>>();
  #isDraining = false;
  /** True while sweeps fail. */
  #isFailing = false;
  /** Number of writes queued for their transaction. */
  #queued = 0;
  #abandoned: Claimed[] = [];
  /** Work claimed in a commit that failed, or whose response was lost. */
  #doubtful: Claimed[] = [];

  constructor({ db, node, clock, log, transactional, stages, timing, ...options }: SchedulerOptions) {
    this.#db = db;
    this.#node = node;
    this.#clock = clock;
    this.#log = log;
    this.#transactional = transactional;
    this.#claims = new Claims(stages, (stage, channel) => options.capacity(stage, channel), log);
    this.#timing = timing.scheduler;
    this.#running = new Running(this.#timing.deadlineCheck);
    this.#timer = new SweepTimer(clock, this.#timing);
  }

  /** Runs `write`, runs the following stages in the same transaction, and starts the claimed work at the
   *  commit, or when it is on disk (`Claimed.waitsForDisk`). Resolves when it is on disk. */
  commit<T>(write: (q: Query) => Promise<T>, pace?: CommitPace): Promise<T> {
    return this.#commit(write, true, pace);
  }

  /** Runs until the signal aborts. Sweeps periodically for due work and for work that other nodes
   *  abandoned. */
  async run(signal: AbortSignal): Promise<void> {
    this.#db.onWake(() => this.wake());
    while (!signal.aborted) {
      this.#timer.begin();
      const succeeded = await this.sweep();
      await this.#timer.wait(this.#timing.sweep, signal, !succeeded);
    }
  }

  /** Runs one sweep for all due work, and releases work that this process could not finish. Returns false
   *  when the transaction fails. */
  async sweep(): Promise<boolean> {
    // A doubtful claim that was rolled back may have been claimed again under the same token. It is
    // released only after that lease is over too.
    const over = this.#doubtful.filter((one) => one.left() < -this.#timing.claimInDoubt);
    const released = new Set([...this.#abandoned, ...over]);
    try {
      // A sweep wakes no other node: the nodes would wake each other without end.
      await this.#commit(async (q) => {
        for (const one of released) await one.abandon(q);
      }, false);
      this.#abandoned = this.#abandoned.filter((one) => !released.has(one));
      this.#doubtful = this.#doubtful.filter((one) => !released.has(one));
      if (this.#isFailing) this.#log.info({}, "store available again");
      this.#isFailing = false;
      return true;
    } catch (error) {
      // Repeated every second while the store is down.
      if (!this.#isFailing) this.#log.error({ err: error }, "store unavailable: scheduler sweep failed");
      this.#isFailing = true;
      return false;
    }
  }

  /** Starts a sweep now instead of at the next interval. */
  wake(): void {
    this.#timer.wake();
  }

  /** Cancels the work that was claimed with this key immediately, because its outcome is obsolete. Its
   *  transition still runs. */
  cancel(key: string): void {
    this.#running.cancel(key);
  }

  /** Waits until running work has ended; after `ms` milliseconds its signals abort. Claims nothing more. */
  async drain(ms: number): Promise<void> {
    this.#isDraining = true;
    this.#running.cancel(whenever);
    const patience = new AbortController();
    const ended = this.#ended().then(() => patience.abort("ended"));
    await this.#clock.sleep(ms, patience.signal);
    this.#running.shutDown();
    await ended;
  }

  /** Resolves when all work that runs now for that channel has ended. */
  settled(channel: string): Promise<void> {
    return this.#running.ended(channel);
  }

  /** The number of running pieces of work. */
  running(): number {
    return this.#running.size;
  }

  /** Resolves when no work runs; a running commit may still start the work it has claimed. */
  async #ended(): Promise<void> {
    while (this.#running.size + this.#commits.size > 0) {
      await this.#running.ended();
      await Promise.all(this.#commits);
    }
  }

  async #commit<T>(write: (q: Query) => Promise<T>, waking: boolean, pace?: CommitPace): Promise<T> {
    let pieces: ClaimedWork[] = [];
    let callbacks: (() => void)[] = [];
    let isBegun = false;
    const start = (which: readonly ClaimedWork[]) => {
      for (const { stage, claimed } of which)
        this.#running.start(claimed, (signal) => this.#perform(stage, claimed, signal));
    };
    /** At the commit, before it is on disk. Work prepares its effect, and the record of its attempt is durable. */
    const committed = () => {
      for (const callback of callbacks) callback();
      callbacks = [];
      const early = pieces.filter(({ claimed }) => claimed.waitsForDisk !== true);
      pieces = pieces.filter((piece) => !early.includes(piece));
      start(early);
    };
    const discard = () => {
      for (const { stage, claimed } of pieces) this.#claims.occupy(stage, claimed.channel, -1);
      pieces.length = 0;
    };
    const begin = () => {
      if (!isBegun) this.#queued -= 1;
      isBegun = true;
    };
    this.#queued += 1;
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    this.#commits.add(ended);
    try {
      const result = await this.#db.tx(
        async (q) => {
          begin();
          discard(); // the database may run a transaction again
          callbacks = [];
          const written = await write(q);
          // SQLite commits queued writes together: only the last of them runs the following stages for all.
          let isDue = false;
          if (this.#queued === 0 || this.#db.kind === "postgres")
            isDue = await this.#follow(q, !waking, pieces, callbacks, discard);
          if (waking && isDue) await this.#db.wake(q);
          return written;
        },
        { committed, pace },
      );
      committed();
      start(pieces);
      return result;
    } catch (error) {
      begin();
      this.#doubtful.push(...pieces.map(({ claimed }) => claimed));
      discard();
      // Other writes of the shared commit may have left work to claim. A sweep does not wake the loop,
      // because a failing sweep would then repeat without a pause.
      if (waking) this.wake();
      throw error;
    } finally {
      this.#commits.delete(ended);
      end();
    }
  }

  /** Runs the following stages in savepoints. An error in them does not roll back the preceding write, and
   *  the sweep retries them. Returns whether work became due. */
  async #follow(
    q: Query,
    everything: boolean,
    pieces: ClaimedWork[],
    callbacks: (() => void)[],
    discard: () => void,
  ): Promise<boolean> {
    if (everything || hasUnknown(q))
      await q
        .savepoint(() => findDue(q, this.#node, everything))
        .catch((error: unknown) => this.#log.error({ err: error }, "claiming work failed"));
    for (const stage of this.#transactional) {
      const channels = q.touched.get(stage.takes);
      const isPeriodic = stage.takes === "sessions" || stage.takes === "escalations";
      if (channels === undefined && !(everything && isPeriodic)) continue;
      await q
        .savepoint(async () => callbacks.push(...(await stage.run(q, channels ?? undefined))))
        .catch((error: unknown) => this.#log.error({ err: error }, "a transactional stage failed"));
    }
    if (!this.#isDraining) {
      await q
        .savepoint(async () => {
          if (hasUnknown(q)) await findDue(q, this.#node, false);
          await this.#claims.claim(q, pieces);
        })
        .catch((error: unknown) => {
          discard();
          this.#log.error({ err: error }, "claiming work failed");
        });
    }
    const isDue = q.touched.size > 0;
    q.touched.clear();
    for (const ms of q.waits) this.#timer.wakeIn(ms);
    q.waits.clear();
    return isDue;
  }

  async #perform(stage: Stage, claimed: Claimed, signal: AbortSignal): Promise<void> {
    /** True while this piece occupies capacity of its channel. */
    let isOccupying = true;
    const occupy = (wanted: boolean) => {
      if (isOccupying !== wanted) this.#claims.occupy(stage, claimed.channel, wanted ? 1 : -1);
      isOccupying = wanted;
    };
    const { channel } = claimed;
    try {
      const transition = await claimed.work(signal);
      await this.#apply(stage, claimed, transition, occupy);
    } catch (error) {
      // The lease expires. The next holder of the lane treats the attempt as of unknown outcome.
      this.#abandoned.push(claimed);
      if (error instanceof LeaseLost)
        this.#log.warn({ stage: stage.name, channel, err: error }, "lease lost");
      else this.#log.error({ stage: stage.name, channel, err: error }, "a stage failed");
    }
    if (!isOccupying) return;
    occupy(false);
    this.wake();
  }

  /** Commits the transition. When the store is busy or full it retries with backoff while the lease lasts. A
   *  commit whose response was lost is not written twice, because it has released the lane. */
  async #apply(
    stage: Stage,
    claimed: Claimed,
    transition: Transition,
    occupy: (wanted: boolean) => void,
  ): Promise<void> {
    const { writeRetry, writeRetryLongest } = this.#timing;
    for (let pause = writeRetry; ; pause = Math.min(pause * 2, writeRetryLongest)) {
      try {
        await this.commit(async (q) => {
          await transition(q);
          // The claims of this commit may use the capacity that it frees.
          occupy(false);
          q.onRollback(() => occupy(true));
        }, claimed.pace);
        return;
      } catch (error) {
        if (error instanceof LeaseLost || claimed.left() <= pause) throw error;
        const fields = { stage: stage.name, channel: claimed.channel, err: error };
        if (isUnreachable(error))
          this.#log.debug(fields, "writing an outcome failed, the store is unreachable");
        else this.#log.warn(fields, "writing an outcome failed, retrying");
        await this.#clock.sleep(pause);
      }
    }
  }
}

/** Returns whether work became due on channels that are not known. */
function hasUnknown({ touched }: Query): boolean {
  for (const channels of touched.values()) if (channels === null) return true;
  return false;
}

/** Preallocated, because an abort without a reason creates an error with a stack trace. */
const woken = "woken";

/** The timer between two sweeps. The wait ends on a wake, when work becomes due, or on a timeout. */
class SweepTimer {
  readonly #clock: Clock;
  readonly #timing: Timing["scheduler"];
  /** Monotonic milliseconds at which work becomes due. */
  readonly #due = new Set<number>();
  #isWoken = false;
  /** Ends the sleep, so that the loop computes the remaining time again. */
  #sleeping: AbortController | null = null;

  constructor(clock: Clock, timing: Timing["scheduler"]) {
    this.#clock = clock;
    this.#timing = timing;
  }

  /** Call before a sweep: a `wake` after this call ends the next wait. */
  begin(): void {
    this.#isWoken = false;
  }

  wake(): void {
    this.#isWoken = true;
    this.#rouse();
  }

  /** Schedules a wake in `ms` milliseconds; the sweep serves later work than `timerHorizon`. Times close to
   *  each other share one timer. */
  wakeIn(ms: number): void {
    const { timerGrain: grain, timerHorizon } = this.#timing;
    if (ms >= timerHorizon) return;
    const at = (Math.floor((this.#clock.monotonic() + ms) / grain) + 1) * grain;
    if (this.#due.has(at)) return;
    this.#due.add(at);
    this.#rouse();
  }

  /** Waits for at most `mostMs` milliseconds. `deaf`: waits for the full time and ignores wakes. */
  async wait(mostMs: number, signal: AbortSignal, deaf: boolean): Promise<void> {
    const onAbort = () => this.#rouse();
    signal.addEventListener("abort", onAbort, { once: true });
    const end = this.#clock.monotonic() + mostMs;
    for (;;) {
      const now = this.#clock.monotonic();
      const next = deaf ? end : Math.min(end, ...this.#due);
      if (signal.aborted || (this.#isWoken && !deaf) || now >= next) break;
      this.#sleeping = new AbortController();
      await this.#clock.sleep(next - now, this.#sleeping.signal);
      this.#sleeping = null;
    }
    signal.removeEventListener("abort", onAbort);
    for (const at of this.#due) if (at <= this.#clock.monotonic()) this.#due.delete(at);
  }

  #rouse(): void {
    this.#sleeping?.abort(woken);
  }
}
