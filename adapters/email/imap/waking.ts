// What wakes the reading loop, and what ends it when nothing has been proven for too long.

import type { Clock } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";

export interface Wakening {
  /** Idles until something happens: the number of mails announced since the last call; after `ms` at the latest 0,
   *  for a look of our own. An announcement during a sweep makes the next call return at once. */
  next(clock: Clock, ms: number): Promise<number>;
}

/** Listens from now on until the signal aborts, which also wakes; one per connection. */
export function wakening(client: ImapFlow, signal: AbortSignal): Wakening {
  let announced = 0;
  let changed = false;
  let poke: () => void = () => {};
  client.on("exists", ({ count, prevCount }) => {
    announced += Math.max(0, count - prevCount);
    changed = true;
    poke();
  });
  // A server that counts anew closes and opens the mailbox under us.
  client.on("mailboxOpen", () => {
    changed = true;
    poke();
  });
  signal.addEventListener("abort", () => poke(), { once: true });
  const idles = client.capabilities.has("IDLE") || client.capabilities.has("IMAP4REV2");

  return {
    async next(clock, ms) {
      if (!changed && !signal.aborted) {
        // Breaking IDLE is imapflow's own affair: the next command does it.
        if (idles) client.idle().catch(() => {});
        const timer = new AbortController();
        poke = () => timer.abort();
        await clock.sleep(ms, timer.signal);
        poke = () => {};
      }
      const count = announced;
      announced = 0;
      changed = false;
      return count;
    },
  };
}

export interface Watchdog {
  /** The line and the store have just shown that they live. */
  readonly proven: () => void;
  /** True when it has ended the connection. */
  readonly barked: () => boolean;
}

/** Calls `end` once when nothing was proven for three intervals: a half-open line gives no other sign. Time in which the
 *  machine stood still does not count: what the server said meanwhile is still unread. */
export function watchdog(clock: Clock, interval: number, signal: AbortSignal, end: () => void): Watchdog {
  let last = clock.monotonic();
  let barked = false;
  void (async () => {
    while (!signal.aborted) {
      const due = clock.monotonic() + interval;
      await clock.sleep(interval, signal);
      last += Math.max(0, clock.monotonic() - due);
      if (signal.aborted || clock.monotonic() - last < 3 * interval) continue;
      barked = true;
      return end();
    }
  })();
  return {
    proven: () => {
      last = clock.monotonic();
    },
    barked: () => barked,
  };
}
