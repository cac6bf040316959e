// Decides whether a request is retried. A retry is allowed only when it cannot repeat an effect: for a
// read, or for a request that certainly had no effect.

import type { Clock } from "bridgehead/contract";
import { jitter } from "../ops/clock.ts";
import type { CallResult } from "./result.ts";

const firstPauseMs = 250;
const longestPauseMs = 10_000;
/** Maximum delay in milliseconds before a retry. For a longer Retry-After the result is returned, and
 *  the caller decides. */
const longestWaitMs = 60_000;

interface Try {
  /** A GET request: it can be repeated after any outcome. */
  readonly reads: boolean;
  /** Whether the first byte was sent. */
  readonly crossed: () => boolean;
}

/** Returns the milliseconds until the next attempt, or null after the last one. `tried` is the number of
 *  attempts so far. */
function pauseBefore(result: CallResult<unknown>, { reads, crossed }: Try, tried: number): number | null {
  const again =
    result.kind === "deferred"
      ? reads || result.limited === true || !crossed()
      : result.kind === "unknown" && reads;
  if (!again) return null;
  const told = result.kind === "deferred" ? result.retryAfterMs : undefined;
  if (told !== undefined) return told <= longestWaitMs ? told : null;
  return jitter(Math.min(longestPauseMs, firstPauseMs * 2 ** (tried - 1)));
}

/** Calls `once` up to `most` times, with pauses. When the signal aborts, it returns the last result. */
export async function tryUpTo<T>(
  most: number,
  once: () => Promise<CallResult<T>>,
  about: Try,
  clock: Clock,
  signal: AbortSignal,
): Promise<CallResult<T>> {
  for (let tried = 1; ; tried++) {
    const result = await once();
    const pause = tried < most && !signal.aborted ? pauseBefore(result, about, tried) : null;
    if (pause === null) return result;
    await clock.sleep(pause, signal);
    if (signal.aborted) return result;
  }
}
