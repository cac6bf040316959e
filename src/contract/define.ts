// Functions that adapters call: for their definition, the keys of their drafts, and their capacity.

import type * as z from "zod";
import type { AdapterDefinition, Outbound } from "./contract.ts";
import type { Json, SendKey } from "./ids.ts";

/** Adds the types of an adapter's definition. Returns its argument unchanged. */
export function defineAdapter<const C extends z.ZodType, D extends Json>(
  definition: AdapterDefinition<C, D>,
): AdapterDefinition<C, D> {
  return definition;
}

/** Returns the key of part `n` (counted from 0) of a reply. The first part has the reply's own key. */
export function partKey(reply: SendKey, part: number): SendKey {
  return (part === 0 ? reply : `${reply}p${part}`) as SendKey;
}

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
