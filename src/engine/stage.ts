// Stage interfaces: transactional stages (`TransactionalStage`) and stages with effects (`Stage`). The scheduler in
// scheduler.ts runs them.

import type { FailpointName } from "../ops/failpoints.ts";
import { type CommitPace, failpointOfCommit, type Query, type Work } from "../store/driver.ts";

/** The writes of one finished piece of work. Begins with the guard of its lease. */
export type Transition = (q: Query) => Promise<void>;

/** Returns the transition with a failpoint at its commit. */
export const withFailpoint =
  (transition: Transition, name: FailpointName, fields: { readonly [key: string]: unknown }): Transition =>
  async (q) => {
    await transition(q);
    failpointOfCommit(q, name, fields);
  };

/** The key of work that a shutdown cancels immediately: it has no external effect, and is retried by
 *  another node or later. */
export const whenever = "whenever";

export interface Claimed {
  readonly channel: string;
  /** The key for `Scheduler.cancel`; absent when no event makes the work obsolete. */
  readonly key?: string | undefined;
  /** Work starts at the commit of the claim, before that commit is on disk. An effect that must not be repeated
   *  or lost follows a durable record of its own, which makes the claim durable too. True: starts when the
   *  claim is on disk, for an effect whose record does not wait. */
  readonly waitsForDisk?: boolean;
  readonly pace?: CommitPace | undefined;
  /** Performs all I/O. Never throws for an expected failure; writes nothing to the store. */
  work(signal: AbortSignal): Promise<Transition>;
  /** Milliseconds left of the lease. */
  left(): number;
  /** Releases the lane when the work ended without a transition that could be written. */
  abandon(q: Query): Promise<void>;
}

export interface ClaimResult {
  readonly claimed: readonly Claimed[];
  /** How many pieces of work it could have claimed. As many were claimed: the channel may have more. 0 or less: the
   *  stage itself has no room for some or all of the work, so the channel is asked again when work ends. */
  readonly room: number;
}

export interface Stage {
  readonly name: string;
  readonly takes: Work;
  /** Maximum concurrent work per channel, where that is less than the channel's concurrency. */
  readonly atOnce?: number;
  /** Leases lanes (or attachments) of that channel, at most `most` and no more than could start now. `isDue`: work of the
   *  channel became due (default). False: the channel is asked again only because there was no room before. */
  claim(q: Query, channel: string, most: number, isDue?: boolean): Promise<ClaimResult>;
}

/** A transactional stage: runs inside a transaction and processes all due work; returns quickly when
 *  there is none. The returned callbacks are called at the commit, possibly before it is on disk. They change
 *  memory only, and must not throw. */
export interface TransactionalStage {
  readonly takes: Work;
  /** `channels` are those with due work; absent for work without channels. */
  run(q: Query, channels?: ReadonlySet<string>): Promise<readonly (() => void)[]>;
}
