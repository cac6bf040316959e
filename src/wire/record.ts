// Parses records of the External API. The interface promises more fields than clients need, and real
// platforms omit some of them. A missing required field is an error that names its path. Any other field of
// a wrong type is dropped and reported once. Unknown extra fields pass through.

import * as z from "zod";

type Fields = { readonly [name: string]: z.ZodType };
type Lenient<F extends Fields> = { [K in keyof F]: z.ZodCatch<z.ZodOptional<F[K]>> };
type Optional<F extends Fields> = { [K in keyof F]: z.ZodOptional<F[K]> };

/** Called for a field that was dropped for its type, with the names of the record and the field. */
export type Dropped = (record: string, field: string) => void;

/** The result of parsing a record: its value, or an error sentence with the path that made it
 *  unreadable. */
export type Reading<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: string };

/** One record: `read` is the lenient schema for data of others, `exact` the strict one for data that we
 *  serve. */
export interface RecordOf<Needs extends Fields, Promises extends Fields, May extends Fields> {
  readonly read: z.ZodObject<Needs & Lenient<Promises & May>, z.core.$loose>;
  readonly exact: z.ZodObject<Needs & Promises & Optional<May>, z.core.$loose>;
}

/** The type of a record that we serve: every promised field is present. */
export type Served<R extends { readonly exact: z.ZodType }> = z.input<R["exact"]>;

// Zod passes no context to a schema, and parsing is synchronous. The current reader therefore sets its
// callback here until it has finished.
let listener: Dropped | undefined;

/** Declares a record. `needs`: required fields, without which the record is unusable. `promises`:
 *  required by the interface, but a client can work without them. `may`: optional fields. */
export function record<N extends Fields, P extends Fields, M extends Fields>(
  name: string,
  needs: N,
  promises: P,
  may: M,
): RecordOf<N, P, M> {
  const tolerated = { ...promises, ...may };
  const optional = Object.fromEntries(Object.entries(may).map(([key, type]) => [key, type.optional()]));
  const read = z.looseObject({ ...needs, ...lenient(name, tolerated) });
  const exact = z.looseObject({ ...needs, ...promises, ...optional });
  return { read, exact } as unknown as RecordOf<N, P, M>;
}

function lenient<F extends Fields>(name: string, fields: F): Lenient<F> {
  const entries = Object.entries<z.ZodType>(fields).map(([key, type]) => [
    key,
    type.optional().catch((broken: z.core.$ZodCatchCtx) => {
      // Many platforms send null for an absent value, so null is not reported.
      if (broken.input !== null) listener?.(name, key);
      return undefined;
    }),
  ]);
  return Object.fromEntries(entries) as Lenient<F>;
}

/** Parses `input` and reports every dropped field to `dropped`. Never throws. */
export function read<S extends z.ZodType>(schema: S, input: unknown, dropped: Dropped): Reading<z.output<S>> {
  listener = dropped;
  try {
    const result = schema.safeParse(input);
    return result.success
      ? { ok: true, value: result.data }
      : { ok: false, reason: describe(result.error.issues) };
  } finally {
    listener = undefined;
  }
}

/** Passes each pair of record and field on only once, also across calls. */
export function once(dropped: Dropped): Dropped {
  const told = new Set<string>();
  return (name, field) => {
    const key = `${name}.${field}`;
    if (told.has(key)) return;
    told.add(key);
    dropped(name, field);
  };
}

/** Formats the first few problems as one sentence: `skills.0.status: Invalid input: expected string,
 *  received number`. */
function describe(issues: readonly z.core.$ZodIssue[]): string {
  const lines = issues.slice(0, 3).map((issue) => `${issue.path.join(".") || "body"}: ${issue.message}`);
  const more = issues.length - lines.length;
  return lines.join("; ") + (more > 0 ? `; and ${more} more` : "");
}
