// The platform's rate limit, as the stages use it.

import type { Clock } from "bridgehead/contract";
import type { ReadCall } from "../agent/calls.ts";
import type { Timing } from "../engine/timing.ts";
import type { Database } from "../store/driver.ts";
import { type Rate, takeRate } from "../store/rates.ts";

/** The key of the shared rate limit: all agents of the platform share one rate limit. */
export const rateName = "platform";

/** Reads a list of several pages. The claim already took the first request from the rate limit; each
 *  further request is taken here. */
export function readCall(
  signal: AbortSignal,
  {
    db,
    rate,
    clock,
    timing,
  }: {
    readonly db: Database;
    readonly rate: Rate;
    readonly clock: Clock;
    readonly timing: Timing;
  },
): ReadCall {
  return {
    signal,
    async more() {
      const turn = await db.tx((q) => takeRate(q, rateName, rate, 1, timing.ask.rateWait));
      if (turn.taken) await clock.sleep(turn.waitMs, signal);
      return turn.taken && !signal.aborted;
    },
  };
}
