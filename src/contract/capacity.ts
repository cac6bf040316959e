// Capacity of an adapter with a fixed number of concurrent sends.

import type { Outbound } from "./contract.ts";
import type { Json } from "./ids.ts";

/** Returns `send` together with a `capacity` that counts its running calls. `limit` is the number of drafts
 *  that can be sent at once: connections of a pool, slots of a window. Calls beyond it are not rejected;
 *  the pool makes them wait. */
export function countedSends<Draft extends Json>(
  limit: number,
  send: Outbound<Draft>["send"],
): { readonly send: Outbound<Draft>["send"]; capacity(): number } {
  let running = 0;
  return {
    async send(draft, attempt) {
      running += 1;
      try {
        return await send(draft, attempt);
      } finally {
        running -= 1;
      }
    },
    capacity: () => Math.max(0, limit - running),
  };
}
