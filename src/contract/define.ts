import type * as z from "zod";
import type { AdapterDefinition } from "./contract.ts";
import type { Json, SendKey } from "./ids.ts";

/** Types an adapter's definition; what it gets back is what it gave. */
export function defineAdapter<const C extends z.ZodType, D extends Json>(
  definition: AdapterDefinition<C, D>,
): AdapterDefinition<C, D> {
  return definition;
}

/** The key of part `n` (counted from 0) of a reply: the reply's own key for the first one. */
export function partKey(reply: SendKey, part: number): SendKey {
  return (part === 0 ? reply : `${reply}p${part}`) as SendKey;
}
