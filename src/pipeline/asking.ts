// One claimed turn with all that deciding about it needs.

import type { Clock, Log } from "bridgehead/contract";
import type { ConversationRow } from "../store/conversations.ts";
import type { Database } from "../store/driver.ts";
import type { Lease } from "../store/lanes.ts";
import type { Rate } from "../store/rates.ts";
import type { TurnRow } from "../store/turns.ts";
import type { Line, Lines } from "./line.ts";
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
  /** Milliseconds after an unanswered call before "the question is not there" is believed. */
  readonly settleAfter: number;
}

/** One claimed turn with all that deciding needs. */
export interface Asking {
  readonly line: Line;
  readonly lease: Lease;
  readonly tenure: Tenure;
  readonly turn: TurnRow;
  readonly conversation: ConversationRow;
  readonly clock: Clock;
}

const longestRead = 20_000;

/** Reading back what became of a call is quick, or it can wait. */
export const readTimeout = (deps: AskDeps): number => Math.min(deps.timeout, longestRead);
export const readSignal = (asking: Asking, signal: AbortSignal, deps: AskDeps): AbortSignal =>
  AbortSignal.any([asking.tenure.signal(signal), AbortSignal.timeout(readTimeout(deps))]);
