// A date and time in a query string (ISO 8601, the interface's `date-time`).

import * as z from "zod";

const iso = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/i;

/** Returns epoch milliseconds. A time without a zone is UTC, in any time zone of the server; a date
 *  alone is its first instant. */
export const instant = z
  .string()
  .transform(msOf)
  .refine((ms) => !Number.isNaN(ms), "not a date-time");

function msOf(given: string): number {
  // A plus sign that was not percent-encoded arrives as a space.
  const text = given.replace(/ (?=\d\d:\d\d$)/, "+");
  const [, time, , , zone] = iso.exec(text) ?? [];
  if (!iso.test(text)) return Number.NaN;
  return Date.parse(time !== undefined && zone === undefined ? `${text}Z` : text);
}
