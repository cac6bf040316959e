// Opens the store at the start of the daemon. Waits for an unreachable database server, for example after a
// power cut when both machines start at once.

import type { Clock, Log } from "bridgehead/contract";
import { type OpenedStore, openStore } from "../app.ts";
import type { Config } from "../config/index.ts";
import { jitter } from "../ops/clock.ts";
import type { Notifier } from "../ops/systemd.ts";
import type { Timing } from "../ops/timing.ts";
import { migrations } from "../store/migrate.ts";
import { isUnreachable } from "../store/postgres/unreachable.ts";

/** Retries until the store is reachable; null when `signal` aborts before. Rejects on an error that a
 *  retry cannot fix. */
export async function reachStore(
  config: Pick<Config, "store">,
  service: {
    readonly clock: Clock;
    readonly log: Log;
    readonly timing: Timing;
    readonly notifier: Pick<Notifier, "extend" | "status">;
    readonly signal: AbortSignal;
  },
): Promise<OpenedStore | null> {
  const { clock, log, timing, notifier, signal } = service;
  const { storeRetry, storeRetryLongest, storeAttempt } = timing.startup;
  const ended = new Promise<null>((resolve) => {
    if (signal.aborted) resolve(null);
    signal.addEventListener("abort", () => resolve(null), { once: true });
  });
  for (let pause = storeRetry; !signal.aborted; pause = Math.min(pause * 2, storeRetryLongest)) {
    const opening = openStore(config, clock, log, migrations, timing);
    // At shutdown a running attempt is abandoned.
    void opening.catch(() => undefined);
    try {
      return await Promise.race([opening, ended]);
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      const again = jitter(pause);
      log.warn({ err: error, again_in_ms: again }, "the store cannot be reached yet");
      await Promise.all([notifier.extend(again + storeAttempt), notifier.status("waiting for the store")]);
      await clock.sleep(again, signal);
    }
  }
  return null;
}
