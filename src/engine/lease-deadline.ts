// The deadline of a lease in this process. Both clocks are used: the monotonic clock stops while a machine
// is suspended, and the wall clock can jump.

import type { Clock } from "bridgehead/contract";

export interface LeaseDeadline {
  /** Milliseconds that are certainly left; zero or less when another node may hold the lease. The scheduler
   *  aborts the work then. */
  left(): number;
}

/** Starts the deadline now: call when the lease is taken. */
export function leaseDeadline(clock: Clock, leaseMs: number): LeaseDeadline {
  const monotonic = clock.monotonic();
  const wall = clock.now();
  return {
    left: () => leaseMs - Math.max(clock.monotonic() - monotonic, clock.now() - wall),
  };
}

/** Thrown by a crossing when the effect does not fit into the rest of the lease. Nothing was sent. */
export class TooLate extends Error {
  constructor(left: number) {
    super(`too little of the lease is left to begin (${Math.round(left)} ms)`);
  }
}
