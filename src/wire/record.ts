// How records of the External API are read. The interface promises more than anybody needs, and real platforms keep
// less than they promise: what a reader cannot do without is an error that names its path; everything else that has
// the wrong type is dropped, and said once. Unknown extra fields pass through.

import * as z from "zod";

type Fields = { readonly [name: string]: z.ZodType };
type Lenient<F extends Fields> = { [K in keyof F]: z.ZodCatch<z.ZodOptional<F[K]>> };
type Optional<F extends Fields> = { [K in keyof F]: z.ZodOptional<F[K]> };

/** Told about a field that was dropped for its type: the record's name and the field's. */
export type Dropped = (record: string, field: string) => void;

/** A record read from outside: its value, or a sentence naming the path that made it unreadable. */
export type Reading<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly reason: string };

/** One record: `read` is the lenient schema for what others send, `exact` the strict one for what we serve. */
export interface RecordOf<Needs extends Fields, Promises extends Fields, May extends Fields> {
  readonly read: z.ZodObject<Needs & Lenient<Promises & May>, z.core.$loose>;
  readonly exact: z.ZodObject<Needs & Promises & Optional<May>, z.core.$loose>;
}

/** What a record looks like to us when it is served: every promised field is there. */
export type Served<R extends { readonly exact: z.ZodType }> = z.input<R["exact"]>;

// Zod hands a schema no context, and reading is synchronous: whoever reads now listens here until it has read.
let listener: Dropped | undefined;

/**
 * Declares a record. `needs`: required, and nothing works without them. `promises`: required by the interface, but a
 * reader gets by without. `may`: optional.
 */
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
      // Null is how many platforms write "none": not worth a word.
      if (broken.input !== null) listener?.(name, key);
      return undefined;
    }),
  ]);
  return Object.fromEntries(entries) as Lenient<F>;
}

/** Reads `input`; every dropped field is told to `dropped`. Never throws. */
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

/** Passes each record's field on once, whatever happens afterwards. */
export function once(dropped: Dropped): Dropped {
  const told = new Set<string>();
  return (name, field) => {
    const key = `${name}.${field}`;
    if (told.has(key)) return;
    told.add(key);
    dropped(name, field);
  };
}

/** The first few problems as one sentence: `skills.0.status: Invalid input: expected string, received number`. */
function describe(issues: readonly z.core.$ZodIssue[]): string {
  const lines = issues.slice(0, 3).map((issue) => `${issue.path.join(".") || "body"}: ${issue.message}`);
  const more = issues.length - lines.length;
  return lines.join("; ") + (more > 0 ? `; and ${more} more` : "");
}
