// A watchdog that means something: it is fed only while the event loop is free, the store answers, and no channel's
// supervisor is stuck. A plain timer would prove the event loop alone.

import type { Clock, Log } from "bridgehead/contract";

export interface WatchdogOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** How often it must be fed; it is fed twice as often. */
  readonly intervalMs: number;
  feed(): Promise<void>;
  /** Writes to the store; rejects or hangs when the store does not answer. */
  probe(signal: AbortSignal): Promise<void>;
  /** Names of what should have given a sign of life and did not. */
  stuck(): readonly string[];
  /** A loop that was blocked longer than this is not healthy. */
  readonly maxLagMs?: number;
  /** The store must have answered within this time. */
  readonly maxProbeAgeMs?: number;
}

/** Runs until the signal aborts. Never throws: a reason not to feed is logged when it begins and when it ends. */
export async function runWatchdog(options: WatchdogOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, maxLagMs = 5000, maxProbeAgeMs = 30_000 } = options;
  const pause = Math.max(10, Math.min(options.intervalMs / 2, maxProbeAgeMs / 3));
  let answeredAt = clock.monotonic();
  let probing = false;
  let silent = "";

  const probe = async (): Promise<void> => {
    if (probing) return;
    probing = true;
    const asked = clock.monotonic();
    try {
      await options.probe(signal);
      answeredAt = asked;
    } catch (error) {
      if (!signal.aborted) log.error({ err: error }, "the store does not answer");
    } finally {
      probing = false;
    }
  };

  const reason = (lag: number): string => {
    if (lag > maxLagMs) return "the event loop was blocked";
    if (clock.monotonic() - answeredAt > maxProbeAgeMs) return "the store does not answer";
    const stuck = options.stuck();
    return stuck.length === 0 ? "" : `stuck: ${stuck.join(", ")}`;
  };

  let lag = 0;
  while (!signal.aborted) {
    void probe();
    const why = reason(lag);
    if (why === "") await options.feed();
    if (why !== silent) {
      if (why === "") log.info({}, "the watchdog is fed again");
      else log.error({ reason: why }, "the watchdog is not fed");
      silent = why;
    }
    const before = clock.monotonic();
    await clock.sleep(pause, signal);
    lag = clock.monotonic() - before - pause;
  }
}
