// Whether a request is sent again. Only where a second one cannot do a thing twice: a read, or a request that certainly
// was not done.

import type { Clock } from "bridgehead/contract";
import { jitter } from "../ops/clock.ts";
import type { CallResult } from "./result.ts";

const firstPauseMs = 250;
const longestPauseMs = 10_000;
/** Told to come back later than this, the caller decides, not we. */
const longestWaitMs = 60_000;

interface Try {
  /** A GET: whatever became of it, it can be repeated. */
  readonly reads: boolean;
  /** The first byte has left. */
  readonly crossed: () => boolean;
}

/** Milliseconds until the next try, or null when this was the last: `tried` is how many there were. */
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

/** Calls `once` up to `most` times, with pauses. A signal that aborts ends it with the last result. */
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
