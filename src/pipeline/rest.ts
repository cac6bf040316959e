// The rest of the loop between two looks: over when somebody wakes it, when something becomes due, or after a while.

import type { Clock } from "bridgehead/contract";

export interface Rest {
  /** Call before looking: who wakes it from now on ends the next rest. */
  begin(): void;
  wake(): void;
  /** Wakes it in `ms`. Instants that are close to each other are one. */
  wakeIn(ms: number): void;
  /** Rests for at most `mostMs`. `deaf`: for all of it, whoever calls. */
  over(mostMs: number, signal: AbortSignal, deaf: boolean): Promise<void>;
}

/** Milliseconds that what becomes due may wait for what becomes due a little later. */
const grain = 20;

export function createRest(clock: Clock): Rest {
  const due = new Set<number>();
  let woken = false;
  /** Ends the sleep, to look how long it still has to be. */
  let rouse: () => void = () => undefined;

  /** Resolves when somebody rouses it; at the latest after `ms`. */
  async function sleep(ms: number, signal: AbortSignal): Promise<void> {
    const roused = new AbortController();
    rouse = () => roused.abort();
    await clock.sleep(ms, AbortSignal.any([signal, roused.signal]));
  }

  return {
    begin: () => void (woken = false),
    wake() {
      woken = true;
      rouse();
    },
    wakeIn(ms) {
      const at = (Math.floor((clock.monotonic() + ms) / grain) + 1) * grain;
      if (due.has(at)) return;
      due.add(at);
      rouse();
    },
    async over(mostMs, signal, deaf) {
      const end = clock.monotonic() + mostMs;
      for (;;) {
        const now = clock.monotonic();
        const next = deaf ? end : Math.min(end, ...due);
        if (signal.aborted || (woken && !deaf) || now >= next) break;
        await sleep(next - now, signal);
      }
      rouse = () => undefined;
      for (const at of due) if (at <= clock.monotonic()) due.delete(at);
    },
  };
}
