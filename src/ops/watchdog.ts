// systemd watchdog with health checks. It is fed only while the event loop is responsive, all probes (the
// store, the listener) answer, and no channel supervisor is stuck. A plain timer would check the event loop
// only.

import type { Clock, Log } from "bridgehead/contract";
import type { Timing } from "./timing.ts";

export interface WatchdogOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Watchdog interval in milliseconds; it is fed twice per interval. */
  readonly intervalMs: number;
  feed(): Promise<void>;
  /** Probes by name ("the store"). A probe rejects or hangs when its target does not answer. The signal
   *  aborts with the watchdog, and when the timeout of the probe expires. */
  readonly probes: Readonly<Record<string, (signal: AbortSignal) => Promise<void>>>;
  /** Returns the names of components whose heartbeat is overdue. */
  stuck(): readonly string[];
  readonly timing: Pick<Timing["health"], "lag" | "probe">;
}

/** Runs until the signal aborts. Never throws. Logs each change of the reason for which the watchdog is
 *  not fed. */
export async function runWatchdog(options: WatchdogOptions, signal: AbortSignal): Promise<void> {
  const { clock, log } = options;
  const { lag: maxLagMs, probe: maxProbeAgeMs } = options.timing;
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
