// Decides which stage may claim how much on which channel, claims it, and runs what was claimed. A channel's free
// capacity is the limit; channels share the order of claims fairly. Each running piece has one abort signal, for a
// shutdown, a cancellation by key, and the deadline of its lease.

import type { Clock, Log } from "bridgehead/contract";
import { every, type SignalScope, scopeUnder, systemClock } from "../ops/clock.ts";
import type { Query } from "../store/driver.ts";
import type { Claimed, Stage } from "./stage.ts";

/** One piece of work with the stage that claimed it. */
export interface ClaimedWork {
  readonly stage: Stage;
  readonly claimed: Claimed;
}

/** At most this many lanes of a channel are claimed before the next channel, when several wait. */
const share = 4;

export class Claims {
  readonly #stages: readonly Stage[];
  readonly #capacity: (stage: string, channel: string) => number;
  readonly #log: Log;
  /** By stage and channel: the number of claimed or running pieces. */
  readonly #running = new Map<string, number>();
  /** By stage and channel: the sequence number of the last claim. */
  readonly #served = new Map<string, number>();
  #servings = 0;
  /** Channels on which a stage found, or may have left, more work than it had capacity for. */
  readonly #backlog = new Map<Stage, Set<string>>();

  constructor(stages: readonly Stage[], capacity: (stage: string, channel: string) => number, log: Log) {
    this.#stages = stages;
    this.#capacity = capacity;
    this.#log = log;
  }

  /** Occupies (`by` 1) or frees (`by` -1) capacity of the stage on the channel. */
  occupy(stage: Stage, channel: string, by: 1 | -1): void {
    const key = keyOf(stage, channel);
    const count = (this.#running.get(key) ?? 0) + by;
    if (count === 0) this.#running.delete(key);
    else this.#running.set(key, count);
  }

  /** Claims what can start now, and occupies its capacity. Checks the stages whose work became due (`q.touched`)
   *  or exceeded the capacity before. Fills `pieces`. */
  async claim(q: Query, pieces: ClaimedWork[]): Promise<void> {
    for (const stage of this.#stages) {
      const channels = this.#candidates(q, stage);
      if (channels.length > 0) await this.#claimFairly(q, stage, channels, pieces);
    }
  }

  /** Returns the channels that may have work for the stage. */
  #candidates(q: Query, stage: Stage): string[] {
    const backlog = this.#backlog.get(stage);
    this.#backlog.delete(stage);
    const channels = new Set([...(q.touched.get(stage.takes) ?? []), ...(backlog ?? [])]);
    return [...channels].filter((channel) => stage.mayClaim(channel));
  }

  /** Claims in fair order: the channel with the oldest claim is first, and each gets a small share in turn.
   *  This keeps one channel with a long queue from using up the platform's rate limit. */
  async #claimFairly(q: Query, stage: Stage, channels: string[], pieces: ClaimedWork[]): Promise<void> {
    const last = (channel: string) => this.#served.get(keyOf(stage, channel)) ?? 0;
    let waiting = channels.sort((a, b) => last(a) - last(b));
    while (waiting.length > 0) {
      const more: string[] = [];
      for (const channel of waiting) {
        const free = this.#free(stage, channel);
        const room = waiting.length > 1 ? Math.min(share, free) : free;
        const found = room > 0 ? await this.#claimSome(q, stage, channel, room, pieces) : 0;
        if (found > 0) this.#served.set(keyOf(stage, channel), ++this.#servings);
        // The stage claims again on this channel as soon as running work ends.
        if (free <= 0) this.#remember(stage, channel);
        else if (found === room) more.push(channel);
      }
      waiting = more;
    }
  }

  #free(stage: Stage, channel: string): number {
    const most = Math.min(this.#capacity(stage.name, channel), stage.atOnce ?? Number.POSITIVE_INFINITY);
    const free = most - (this.#running.get(keyOf(stage, channel)) ?? 0);
    return Math.min(free, stage.room?.(channel) ?? Number.POSITIVE_INFINITY);
  }

  #remember(stage: Stage, channel: string): void {
    const channels = this.#backlog.get(stage) ?? new Set();
    this.#backlog.set(stage, channels.add(channel));
  }

  /** Claims in a savepoint: an error in one channel does not stop the claims of others. */
  async #claimSome(
    q: Query,
    stage: Stage,
    channel: string,
    room: number,
    pieces: ClaimedWork[],
  ): Promise<number> {
    try {
      const found = await q.savepoint(() => stage.claim(q, channel, room));
      for (const claimed of found) {
        this.occupy(stage, channel, 1);
        pieces.push({ stage, claimed });
      }
      return found.length;
    } catch (error) {
      this.#log.error({ stage: stage.name, channel, err: error }, "claiming work failed");
      return 0;
    }
  }
}

const keyOf = (stage: Stage, channel: string): string => `${stage.name} ${channel}`;

/** Reason of the abort at a shutdown. The work is retried by the next process. */
const shutdown = "shutting down";
const cancelled = "cancelled";
/** Reason of the abort at the deadline of the lease. */
export const overdue = Object.assign(new Error("the lease of this work is over"), { name: "TimeoutError" });

interface RunningWork {
  readonly claimed: Claimed;
  readonly scope: SignalScope;
  readonly done: Promise<void>;
  /** Monotonic milliseconds of this machine. A step of the wall clock aborts no work; a crossing still checks
   *  both clocks. */
  readonly deadline: number;
}

export class Running {
  readonly #works = new Set<RunningWork>();
  #stopChecks: (() => void) | null = null;
  readonly #checkMs: number;

  /** `checkMs` is the interval at which deadlines are checked. Leases have a margin of several seconds. */
  constructor(checkMs: number) {
    this.#checkMs = checkMs;
  }

  get size(): number {
    return this.#works.size;
  }

  /** Runs `work` with a signal that aborts on `shutDown`, on `cancel` with the key of `claimed`, and when its
   *  lease is over. `work` must not reject. */
  start(claimed: Claimed, work: (signal: AbortSignal) => Promise<void>): void {
    const scope = scopeUnder();
    const { promise, resolve } = Promise.withResolvers<void>();
    const entry: RunningWork = {
      claimed,
      scope,
      done: promise,
      deadline: systemClock.monotonic() + claimed.left(),
    };
    this.#works.add(entry);
    this.#stopChecks ??= every(this.#checkMs, () => this.#checkDeadlines());
    const end = () => {
      this.#works.delete(entry);
      scope.end();
      if (this.#works.size === 0) {
        this.#stopChecks?.();
        this.#stopChecks = null;
      }
      resolve();
    };
    work(scope.signal).then(end, end);
  }

  /** Aborts the work with that key. Its transition still runs. */
  cancel(key: string): void {
    for (const { claimed, scope } of this.#works) if (claimed.key === key) scope.abort(cancelled);
  }

  shutDown(): void {
    for (const { scope } of this.#works) scope.abort(shutdown);
  }

  /** Resolves when the work that runs now has ended; `channel` limits it to one channel. */
  async ended(channel?: string): Promise<void> {
    const works = [...this.#works].filter(
      ({ claimed }) => channel === undefined || claimed.channel === channel,
    );
    await Promise.all(works.map(({ done }) => done));
  }

  #checkDeadlines(): void {
    const now = systemClock.monotonic();
    for (const { scope, deadline } of this.#works) if (deadline <= now) scope.abort(overdue);
  }
}

/** The deadline of a lease in this process. Both clocks are used: the monotonic clock stops while a machine is suspended,
 *  and the wall clock can jump. */
export interface LeaseDeadline {
  /** Milliseconds that are certainly left; zero or less when another node may hold the lease. The scheduler
   *  aborts the work then. */
  left(): number;
}

/** Starts the deadline now: call when the lease is taken. */
export function leaseDeadline(clock: Clock, leaseMs: number): LeaseDeadline {
  const monotonic = clock.monotonic();
  const wall = clock.now();
  return {
    left: () => leaseMs - Math.max(clock.monotonic() - monotonic, clock.now() - wall),
  };
}

/** Thrown by a crossing when the effect does not fit into the rest of the lease. Nothing was sent. */
export class TooLate extends Error {
  constructor(left: number) {
    super(`too little of the lease is left to begin (${Math.round(left)} ms)`);
  }
}
