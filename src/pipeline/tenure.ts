// How long this process may act under a lease it has taken. Judged by both clocks: the monotonic one stands still while
// a machine is suspended, the other one jumps.

import type { Clock } from "bridgehead/contract";

export interface Tenure {
  /** Milliseconds that are certainly left; zero or less when the lease may be another's. */
  left(): number;
  /** Aborts when the lease is over, or with `also`. */
  signal(also: AbortSignal): AbortSignal;
}

/** Begins now: call when the lease is taken. */
export function tenure(clock: Clock, leaseMs: number): Tenure {
  const monotonic = clock.monotonic();
  const wall = clock.now();
  const left = () => leaseMs - Math.max(clock.monotonic() - monotonic, clock.now() - wall);
  return {
    left,
    signal: (also) => AbortSignal.any([also, AbortSignal.timeout(Math.max(0, Math.floor(left())))]),
  };
}

/** Thrown by a crossing when the effect would not fit into what is left of the lease: nothing was sent. */
export class TooLate extends Error {
  constructor(left: number) {
    super(`too little of the lease is left to begin (${Math.round(left)} ms)`);
  }
}
