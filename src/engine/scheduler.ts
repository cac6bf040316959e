// The scheduler of all stages. A transactional stage is one function inside a transaction. A stage with
// effects claims work under leases, performs all I/O without writes, and applies one transition. Work that
// a commit made ready is claimed in the same commit, also with the capacity that this commit frees.

import { endsWithin } from "../ops/clock.ts";
import type { Timing } from "../ops/timing.ts";
import type { CommitPace, Core, Query } from "../store/driver.ts";
import { findDue } from "../store/due.ts";
import { LeaseLost } from "../store/lanes.ts";
import { isUnreachable } from "../store/postgres/unreachable.ts";
import { TransitionRefused } from "../store/transitions.ts";
import { Running, SweepTimer } from "./running.ts";
import {
  type Claimed,
  type ClaimResult,
  type Stage,
  type TransactionalStage,
  type Transition,
  whenever,
} from "./stage.ts";

export interface SchedulerOptions extends Core {
  readonly transactional: readonly TransactionalStage[];
  readonly stages: readonly Stage[];
  /** Maximum concurrent work of a stage for a channel; 0 when the channel cannot work now. Asked for every claim. */
  capacity(stage: string, channel: string): number;
}

export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #claims: Claims;
  readonly #running: Running;
  readonly #timing: Timing["scheduler"];
  readonly #timer: SweepTimer;
  /** Number of commits that run, and the functions that are called at the end of the last one. */
  #commits = 0;
  readonly #afterCommits: (() => void)[] = [];
  #isDraining = false;
  #isShutDown = false;
  /** True while sweeps fail. */
  #isFailing = false;
  /** Number of writes queued for their transaction. */
  #queued = 0;
  #abandoned: Claimed[] = [];
  /** Work claimed in a commit that failed, or whose response was lost. */
  #doubtful: Claimed[] = [];

  constructor(options: SchedulerOptions) {
    const { clock, timing } = options;
    this.#options = options;
    this.#claims = new Claims(options);
    this.#timing = timing.scheduler;
    this.#running = new Running(this.#timing.deadlineCheck);
    this.#timer = new SweepTimer(clock, this.#timing);
  }

  /** Runs `write`, runs the following stages in the same transaction, and starts the claimed work at the
   *  commit, or when it is on disk (`Claimed.waitsForDisk`). Resolves when it is on disk. */
  commit<T>(write: (q: Query) => Promise<T>, pace?: CommitPace): Promise<T> {
    const all = (q: Query) => {
      if (q.leases === null) q.onDisk(() => this.#followLate(q));
      return write(q);
    };
    return this.#commit(all, true, pace);
  }

  /** Runs until the signal aborts. Sweeps periodically for due work and for work that other nodes abandoned. */
  async run(signal: AbortSignal): Promise<void> {
    this.#options.db.onWake(() => this.wake());
    while (!signal.aborted) {
      this.#timer.begin();
      const hasFailed = !(await this.sweep());
      await this.#timer.wait(this.#timing.sweep, signal, hasFailed);
    }
  }

  /** Runs one sweep for all due work, and releases work that this process could not finish. Returns false
   *  when the transaction fails. */
  async sweep(): Promise<boolean> {
    // The server may commit a claim after its connection was lost. A release before that would find nothing, and this
    // process could not claim the lane again.
    const over = this.#doubtful.filter((one) => one.left() < -this.#timing.claimInDoubt);
    const released = new Set([...this.#abandoned, ...over]);
    try {
      // A sweep wakes no other node: the nodes would wake each other without end.
      await this.#commit(async (q) => {
        for (const one of released) await one.abandon(q);
      }, false);
      this.#abandoned = this.#abandoned.filter((one) => !released.has(one));
      this.#doubtful = this.#doubtful.filter((one) => !released.has(one));
      if (this.#isFailing) this.#options.log.info({}, "store available again");
      this.#isFailing = false;
      return true;
    } catch (error) {
      // Repeated every second while the store is down.
      if (!this.#isFailing) this.#options.log.error({ err: error }, "store unavailable: scheduler sweep failed");
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
    const ended = this.#ended();
    await endsWithin(ended, ms, this.#options.clock);
    this.#isShutDown = true;
    this.#running.shutDown();
    await ended;
  }

  /** Resolves when all work that runs now for that channel has ended. */
  idle(channel: string): Promise<void> {
    return this.#running.ended(channel);
  }

  /** The number of running pieces of work. */
  running(): number {
    return this.#running.size;
  }

  /** Resolves when no work runs; a running commit may still start the work it has claimed. */
  async #ended(): Promise<void> {
    while (this.#running.size + this.#commits > 0) {
      await this.#running.ended();
      if (this.#commits > 0) await new Promise<void>((resolve) => void this.#afterCommits.push(resolve));
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
      for (const callback of callbacks.splice(0)) callback();
      const early = pieces.filter(({ claimed }) => claimed.waitsForDisk !== true);
      pieces = pieces.filter((piece) => !early.includes(piece));
      start(early);
    };
    const discard = () => {
      for (const { stage, claimed } of pieces.splice(0)) this.#claims.occupy(stage, claimed.channel, -1);
    };
    const begin = () => {
      if (!isBegun) this.#queued -= 1;
      isBegun = true;
    };
    this.#queued += 1;
    this.#commits += 1;
    try {
      const result = await this.#options.db.tx(
        async (q) => {
          begin();
          discard(); // the database may run a transaction again
          callbacks = [];
          const written = await write(q);
          // SQLite commits queued writes together: only the last of them runs the following stages for all.
          const follows = this.#queued === 0 || q.leases === null;
          const isDue = follows && (await this.#follow(q, !waking, pieces, callbacks, discard));
          if (waking && isDue) await this.#options.db.wake(q);
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
      this.#commits -= 1;
      if (this.#commits === 0) for (const resolve of this.#afterCommits.splice(0)) resolve();
    }
  }

  /** Claims the work that a transaction of PostgreSQL found to be due when it had committed (`Query.defer`). */
  #followLate({ touched, waits }: Query): void {
    for (const ms of waits) this.#timer.schedule(ms);
    if (touched.size === 0) return;
    const announce = (q: Query) => touched.forEach((channels, work) => void q.touched.set(work, channels));
    this.#commit(async (q) => announce(q), true).catch(() => undefined); // the sweep retries it
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
    const { log, node } = this.#options;
    const failed = (error: unknown) => log.error({ err: error }, "claiming work failed");
    if (everything || hasUnknown(q)) await q.savepoint(() => findDue(q, node, everything)).catch(failed);
    for (const stage of this.#options.transactional) {
      const channels = q.touched.get(stage.takes);
      const isPeriodic = stage.takes === "sessions" || stage.takes === "escalations";
      if (channels === undefined && !(everything && isPeriodic)) continue;
      await q
        .savepoint(async () => callbacks.push(...(await stage.run(q, channels ?? undefined))))
        .catch((error: unknown) => log.error({ err: error }, "a transactional stage failed"));
    }
    const claim = async () => {
      if (hasUnknown(q)) await findDue(q, node, false);
      const due = new Map(q.touched);
      q.touched.clear();
      await this.#claims.claim(q, due, pieces);
    };
    const isDue = q.touched.size > 0;
    if (!this.#isDraining)
      await q.savepoint(claim).catch((error: unknown) => {
        discard();
        failed(error);
      });
    if (this.#isDraining || q.leases !== null) q.touched.clear();
    for (const ms of q.waits) this.#timer.schedule(ms);
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
    try {
      const transition = await claimed.work(signal);
      await this.#apply(stage, claimed, transition, occupy);
    } catch (error) {
      // The lease expires. The next holder of the lane treats the attempt as of unknown outcome.
      this.#abandoned.push(claimed);
      const fields = { stage: stage.name, channel: claimed.channel, err: error };
      if (error instanceof LeaseLost) this.#options.log.warn(fields, "lease lost");
      else if (error instanceof TransitionRefused) this.#options.log.warn(fields, "outcome of ended work discarded");
      else this.#options.log.error(fields, "a stage failed");
    }
    if (!isOccupying) return;
    occupy(false);
    this.wake();
  }

  /** Commits the transition. When that fails it retries with backoff while the lease lasts, and while the store is
   *  unreachable, busy or full: the outcome is known here only, and the lease's token protects a later holder. It ends when the
   *  row was ended in between (an erasure), and after a commit whose response was lost: that one has released the lane. */
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
        const isOut = isUnreachable(error) || fullOrBusy.has((error as { code?: string }).code ?? "");
        const isObsolete = error instanceof LeaseLost || error instanceof TransitionRefused;
        if (isObsolete || this.#isShutDown || (claimed.left() <= pause && !isOut)) throw error;
        const fields = { stage: stage.name, channel: claimed.channel, err: error };
        if (isOut && claimed.left() <= pause)
          this.#options.log.debug(fields, "writing an outcome failed after the end of the lease, retrying");
        else if (isUnreachable(error))
          this.#options.log.debug(fields, "writing an outcome failed, the store is unreachable");
        else this.#options.log.warn(fields, "writing an outcome failed, retrying");
        await this.#options.clock.sleep(pause);
      }
    }
  }
}

/** A write error of SQLite is a quota that is used up. PostgreSQL: no disk space, no memory, read-only since a failover. */
const fullOrBusy = new Set(["SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_BUSY", "53100", "53200", "25006"]);

/** Returns whether work became due on channels that are not known. */
const hasUnknown = ({ touched }: Query): boolean => [...touched.values()].includes(null);

/** One piece of work with the stage that claimed it. */
interface ClaimedWork {
  readonly stage: Stage;
  readonly claimed: Claimed;
}

/** At most this many lanes of a channel are claimed before the next channel, when several wait. */
const share = 4;

/** Decides how much a stage claims on a channel, up to its free capacity, and claims it. Channels have their turns fairly. */
class Claims {
  readonly #options: Pick<SchedulerOptions, "stages" | "capacity" | "log">;
  /** By stage and channel: the number of claimed or running pieces. */
  readonly #running = new Map<string, number>();
  /** By stage and channel: the sequence number of the last claim. */
  readonly #served = new Map<string, number>();
  #servings = 0;
  /** Channels on which a stage found, or may have left, more work than it had capacity for. */
  readonly #backlog = new Map<Stage, Set<string>>();

  constructor(options: Pick<SchedulerOptions, "stages" | "capacity" | "log">) {
    this.#options = options;
  }

  /** Occupies (`by` 1) or frees (`by` -1) capacity of the stage on the channel. */
  occupy(stage: Stage, channel: string, by: 1 | -1): void {
    const key = keyOf(stage, channel);
    const count = (this.#running.get(key) ?? 0) + by;
    if (count === 0) this.#running.delete(key);
    else this.#running.set(key, count);
  }

  /** Claims what can start now, and occupies its capacity. Checks the stages whose work became due or exceeded the
   *  capacity before. Fills `pieces`. */
  async claim(q: Query, due: Query["touched"], pieces: ClaimedWork[]): Promise<void> {
    for (const stage of this.#options.stages) {
      const channels = due.get(stage.takes);
      if (channels || this.#backlog.has(stage)) await this.#claimFairly(q, stage, channels ?? new Set(), pieces);
    }
  }

  /** Returns the channels that may have work for the stage. */
  #candidates(due: ReadonlySet<string>, stage: Stage): string[] {
    const backlog = this.#backlog.get(stage);
    this.#backlog.delete(stage);
    return [...new Set([...due, ...(backlog ?? [])])];
  }

  /** Claims in fair order: the channel with the oldest claim is first, and each gets a small share in turn.
   *  This keeps one channel with a long queue from using up the platform's rate limit. */
  async #claimFairly(q: Query, stage: Stage, due: ReadonlySet<string>, pieces: ClaimedWork[]): Promise<void> {
    const last = (channel: string) => this.#served.get(keyOf(stage, channel)) ?? 0;
    let waiting = this.#candidates(due, stage).sort((a, b) => last(a) - last(b));
    while (waiting.length > 0) {
      const more: string[] = [];
      for (const channel of waiting) {
        const free = this.#free(stage, channel);
        const most = waiting.length > 1 ? Math.min(share, free) : free;
        const { claimed, room } =
          most > 0 ? await this.#claimSome(q, stage, channel, most, due.has(channel)) : { claimed: [], room: most };
        for (const piece of claimed) pieces.push({ stage, claimed: piece });
        if (claimed.length > 0) this.#served.set(keyOf(stage, channel), ++this.#servings);
        // The stage claims again on this channel as soon as running work ends.
        if (room <= 0) this.#remember(stage, channel);
        else if (claimed.length === room) more.push(channel);
      }
      waiting = more;
    }
  }

  #free(stage: Stage, channel: string): number {
    const most = Math.min(this.#options.capacity(stage.name, channel), stage.atOnce ?? Infinity);
    return most - (this.#running.get(keyOf(stage, channel)) ?? 0);
  }

  #remember(stage: Stage, channel: string): void {
    this.#backlog.set(stage, (this.#backlog.get(stage) ?? new Set()).add(channel));
  }

  /** Claims in a savepoint: an error in one channel does not stop the claims of others. */
  async #claimSome(q: Query, stage: Stage, channel: string, most: number, isDue: boolean): Promise<ClaimResult> {
    try {
      const result = await q.savepoint(() => stage.claim(q, channel, most, isDue));
      for (const _ of result.claimed) this.occupy(stage, channel, 1);
      return result;
    } catch (error) {
      this.#options.log.error({ stage: stage.name, channel, err: error }, "claiming work failed");
      return { claimed: [], room: most };
    }
  }
}

const keyOf = (stage: Stage, channel: string): string => `${stage.name} ${channel}`;
