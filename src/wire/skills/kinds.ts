// Schemas that the skills share (External API 2.6).

import * as z from "zod";
import { record } from "../record.ts";

export const status = z.enum(["active", "inactive"]);

/** Seconds between an answer and its sending; null counts as 0. */
export const delay = z.number().min(0).max(3600).nullable();

type Fields = { readonly [name: string]: z.ZodType };

/** One skill: the base fields, the fields that the interface also requires, and the optional ones. */
export function skillOf<Name extends string, Promises extends Fields, May extends Fields>(
  name: Name,
  promises: Promises,
  may: May,
) {
  return record(`${name} skill`, {}, { systemName: z.literal(name), status, ...promises }, may);
}
