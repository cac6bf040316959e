// One claimed turn with all that deciding about it needs.

import type { Clock, Log } from "bridgehead/contract";
import type { ReadCall } from "../agent/calls.ts";
import type { ConversationRow } from "../store/conversations.ts";
import type { Database } from "../store/driver.ts";
import type { Lease } from "../store/lanes.ts";
import { type Rate, takeRate } from "../store/rates.ts";
import type { TurnRow } from "../store/turns.ts";
import type { Line, Lines } from "./line.ts";
import { rateName } from "./rate.ts";
import type { Tenure } from "./tenure.ts";

export interface AskDeps {
  readonly lines: () => Lines;
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  readonly rate: Rate;
  /** Milliseconds one call may take. */
  readonly timeout: number;
  /** Milliseconds after an unanswered call before "the question is not there" is believed, for channels without a value of
   *  their own. */
  readonly settleAfter: number;
}

/** The channel's `settle_after`, else the platform's, in milliseconds. */
export const settleAfterOf = ({ line }: Pick<Asking, "line">, deps: Pick<AskDeps, "settleAfter">): number =>
  line.rules.settle_after ?? deps.settleAfter;

/** One claimed turn with all that deciding needs. */
export interface Asking {
  readonly line: Line;
  readonly lease: Lease;
  readonly tenure: Tenure;
  readonly turn: TurnRow;
  readonly conversation: ConversationRow;
  readonly clock: Clock;
  readonly node: string;
  readonly attempt: AttemptState;
}

/** What the running piece of work has recorded of its attempt. */
export interface AttemptState {
  /** The attempt is committed: the turn is `asking`. */
  recorded: boolean;
  /** The turn changed between claim and crossing. The lane goes back, and the turn is claimed anew as it is now. */
  obsolete: boolean;
}

const longestRead = 20_000;

/** Reading back what became of a call is quick, or it can wait. */
export const readTimeout = (deps: AskDeps): number => Math.min(deps.timeout, longestRead);
export const readSignal = (asking: Asking, signal: AbortSignal, deps: AskDeps): AbortSignal =>
  AbortSignal.any([asking.tenure.signal(signal), AbortSignal.timeout(readTimeout(deps))]);

/** Reads a list of several pages: the first request was taken from the rate when the work was claimed, each further one is
 *  taken here. Waits at most two seconds for it. */
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
