// Reads of several pages under the platform's rate limit.

import type { Clock } from "bridgehead/contract";
import type { ReadCall } from "../agent/calls.ts";
import type { Timing } from "../ops/timing.ts";
import type { RateReserve } from "../store/rates.ts";

/** Reads a list of several pages. The work already took the first request from the rate limit; each further
 *  request is taken here. */
export function readCall(
  signal: AbortSignal,
  { rate, clock, timing }: { readonly rate: RateReserve; readonly clock: Clock; readonly timing: Timing },
): ReadCall {
  return {
    signal,
    async more() {
      const turn = await rate.take(1, timing.ask.rateWait);
      if (turn.taken) await clock.sleep(turn.waitMs, signal);
      return turn.taken && !signal.aborted;
    },
  };
}
