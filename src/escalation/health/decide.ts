// Decides whether a channel is down. Without a database.

import type { Clock } from "bridgehead/contract";

/** The health of a channel. */
export interface Pulse {
  readonly channel: string;
  readonly agent: string;
  readonly state: "connecting" | "ready" | "degraded" | "unauthorized";
  readonly reason: string | null;
  /** Time in this state, in milliseconds. */
  readonly forMs: number;
}

/** Returns null while the state is undecided. `connecting` is neither a failure nor a recovery: a node
 *  on standby is connecting, and a failing channel may connect and fail repeatedly. */
export function verdict(
  { channel, state, forMs }: Pulse,
  fallen: Map<string, number>,
  downAfter: number,
  clock: Clock,
): "down" | "well" | null {
  if (state === "connecting") return null;
  if (state === "ready") {
    fallen.delete(channel);
    return "well";
  }
  const since = fallen.get(channel) ?? clock.now() - forMs;
  fallen.set(channel, since);
  return clock.now() - since >= downAfter ? "down" : null;
}
