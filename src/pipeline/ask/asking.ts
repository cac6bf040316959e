// The context of one claimed turn in stage ask.

import type { Clock, Log } from "bridgehead/contract";
import type { ReadCall } from "../../agent/calls.ts";
import type { LeaseDeadline } from "../../engine/lease-deadline.ts";
import type { Database } from "../../store/driver.ts";
import type { Lease } from "../../store/lanes.ts";
import { type Rate, takeRate } from "../../store/rates.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import type { TurnRow } from "../../store/tables/turns.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../channel-runtime.ts";
import { rateName } from "../rate.ts";

export interface AskDeps {
  readonly lines: () => ChannelRuntimes;
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  readonly rate: Rate;
  /** Timeout of one API call, in milliseconds. */
  readonly timeout: number;
  /** Milliseconds after an unanswered call before a missing question counts as not asked. Applies to
   *  channels without their own value. */
  readonly settleAfter: number;
}

/** Returns the channel's `settle_after`, or the platform's default, in milliseconds. */
export const settleAfterOf = ({ line }: Pick<Asking, "line">, deps: Pick<AskDeps, "settleAfter">): number =>
  line.rules.settle_after ?? deps.settleAfter;

/** One claimed turn with its lease, conversation and attempt. */
export interface Asking {
  readonly line: ChannelRuntime;
  readonly lease: Lease;
  readonly leaseDeadline: LeaseDeadline;
  readonly turn: TurnRow;
  readonly conversation: ConversationRow;
  readonly clock: Clock;
  readonly node: string;
  readonly attempt: AttemptState;
}

/** The state of the attempt that the running work has recorded. */
export interface AttemptState {
  /** The attempt is committed: the turn is `asking`. */
  recorded: boolean;
  /** The turn changed between claim and crossing. The lane is released, and the turn is claimed again in
   *  its new state. */
  obsolete: boolean;
}

const longestRead = 20_000;

/** Timeout of a lookup after a call. A lookup that takes longer is retried later. */
export const readTimeout = (deps: AskDeps): number => Math.min(deps.timeout, longestRead);
export const readSignal = (asking: Asking, signal: AbortSignal, deps: AskDeps): AbortSignal =>
  AbortSignal.any([asking.leaseDeadline.signal(signal), AbortSignal.timeout(readTimeout(deps))]);

/** Reads a list of several pages. The claim already took the first request from the rate limit; each
 *  further request is taken here. Waits at most two seconds for the rate limit. */
export function readCall(
  signal: AbortSignal,
  { db, rate, clock }: Pick<AskDeps, "db" | "rate" | "clock">,
): ReadCall {
  return {
    signal,
    async more() {
      const turn = await db.tx((q) => takeRate(q, rateName, rate, 1, longestRateWait));
      if (turn.taken) await clock.sleep(turn.waitMs, signal);
      return turn.taken && !signal.aborted;
    },
  };
}
const longestRateWait = 2000;
