// What a stage is: pure, or with effects. step.ts runs them.

import type { Query, Work } from "../store/driver.ts";

/** What one finished piece of work writes: begins with the guard of its lease. */
export type Transition = (q: Query) => Promise<void>;

/** The key of work that a shutdown ends at once: it has no effect anywhere, and is begun again elsewhere or later. */
export const whenever = "whenever";

export interface Claimed {
  readonly channel: string;
  /** Under which `Flow.cancel` finds it; absent when nothing makes it obsolete. */
  readonly key?: string | undefined;
  /** All I/O; never throws for an expected failure; writes nothing. */
  work(signal: AbortSignal): Promise<Transition>;
  /** Published as the "before" and "after" of the transition's commit. */
  committing(phase: "before" | "after"): void;
  /** Milliseconds left of the lease. */
  left(): number;
  /** Lets go of the lane when the work ended without a transition that could be written. */
  abandon(q: Query): Promise<void>;
  /** Called when the claim is about to be, and has been, committed. Stages that record the attempt in the claim publish it. */
  recorded(phase: "before" | "after"): void;
}

export interface Stage {
  readonly name: string;
  readonly takes: Work;
  /** How many pieces of work it may have running for a channel, where that is less than the channel's concurrency. */
  readonly atOnce?: number;
  /** Channels with something due. */
  channels(q: Query): Promise<readonly string[]>;
  /** Leases at most `room` lanes (or attachments) of that channel and records their attempts. */
  claim(q: Query, channel: string, room: number): Promise<readonly Claimed[]>;
}

/** Runs inside a transaction and finishes what it finds; returns quickly when there is nothing. The callbacks it
 *  returns are called once the commit is on disk. */
export interface PureStage {
  readonly takes: Work;
  run(q: Query): Promise<readonly (() => void)[]>;
}
