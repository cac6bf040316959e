// Wakes the read loop on server events, and ends the connection when it makes no progress for too long.

import type { Clock } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";

export interface Wakening {
  /** Idles until an event occurs. Returns the number of messages announced since the last call; after at
   *  most `ms` it returns 0, for a scheduled poll. An announcement during a sweep makes the next call
   *  return at once. */
  next(clock: Clock, ms: number): Promise<number>;
}

/** Listens until the signal aborts, which also wakes the loop; one per connection. */
export function wakening(client: ImapFlow, signal: AbortSignal): Wakening {
  let announced = 0;
  let changed = false;
  let poke: () => void = () => {};
  client.on("exists", ({ count, prevCount }) => {
    announced += Math.max(0, count - prevCount);
    changed = true;
    poke();
  });
  // A server that changes UIDVALIDITY closes and reopens the mailbox during the session.
  client.on("mailboxOpen", () => {
    changed = true;
    poke();
  });
  signal.addEventListener("abort", () => poke(), { once: true });
  const idles = client.capabilities.has("IDLE") || client.capabilities.has("IMAP4REV2");

  return {
    async next(clock, ms) {
      if (!changed && !signal.aborted) {
        // imapflow ends IDLE when the next command is sent.
        if (idles) client.idle().catch(() => {});
        const timer = new AbortController();
        poke = () => timer.abort(null);
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
  /** Called when the connection and the database have just worked. */
  readonly proven: () => void;
  /** True when the watchdog has ended the connection. */
  readonly barked: () => boolean;
}

/** Calls `end` once when `proven` was not called for three intervals; a half-open socket shows no other
 *  error. Time in which the machine was suspended does not count, because responses that arrived during
 *  that time are still unread. */
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
