import type * as z from "zod";
import type { AdapterDefinition } from "./contract.ts";
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
