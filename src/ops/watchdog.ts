// A watchdog that means something: it is fed only while the event loop is free, everything that is probed answers (the
// store, the listener), and no channel's supervisor is stuck. A plain timer would prove the event loop alone.

import type { Clock, Log } from "bridgehead/contract";

export interface WatchdogOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** How often it must be fed; it is fed twice as often. */
  readonly intervalMs: number;
  feed(): Promise<void>;
  /** By name ("the store"): rejects or hangs when it does not answer. The signal aborts with the watchdog, and when the
   *  answer would come too late. */
  readonly probes: Readonly<Record<string, (signal: AbortSignal) => Promise<void>>>;
  /** Names of what should have given a sign of life and did not. */
  stuck(): readonly string[];
  /** A loop that was blocked longer than this is not healthy. */
  readonly maxLagMs?: number;
  /** Each probe must have been answered within this time. */
  readonly maxProbeAgeMs?: number;
}

/** Runs until the signal aborts. Never throws: a reason not to feed is logged when it begins and when it ends. */
export async function runWatchdog(options: WatchdogOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, maxLagMs = 5000, maxProbeAgeMs = 30_000 } = options;
  const pause = Math.max(10, Math.min(options.intervalMs / 2, maxProbeAgeMs / 3));
  const answeredAt = new Map(Object.keys(options.probes).map((name) => [name, clock.monotonic()]));
  const probing = new Set<string>();
  let silent = "";

  const probe = async (name: string, ask: (signal: AbortSignal) => Promise<void>): Promise<void> => {
    if (probing.has(name)) return;
    probing.add(name);
    const asked = clock.monotonic();
    try {
      await ask(AbortSignal.any([signal, AbortSignal.timeout(maxProbeAgeMs)]));
      answeredAt.set(name, asked);
    } catch (error) {
      if (!signal.aborted) log.error({ err: error, probe: name }, "a probe of the watchdog failed");
    } finally {
      probing.delete(name);
    }
  };

  const reason = (lag: number): string => {
    if (lag > maxLagMs) return "the event loop was blocked";
    for (const [name, at] of answeredAt)
      if (clock.monotonic() - at > maxProbeAgeMs) return `${name} does not answer`;
    const stuck = options.stuck();
    return stuck.length === 0 ? "" : `stuck: ${stuck.join(", ")}`;
  };

  let lag = 0;
  while (!signal.aborted) {
    for (const [name, ask] of Object.entries(options.probes)) void probe(name, ask);
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
