// Parses records of the External API. The interface promises more fields than clients need, and real
// platforms omit some of them. A missing required field is an error that names its path. Any other field of
// a wrong type is dropped and reported once. Unknown extra fields pass through.
//
// Forms that several records share: texts that the interface types as object in one place and as string in another
// (`smsSignature`, introductions), a date and time in a query string (ISO 8601, the interface's `date-time`), the page
// envelope of every list (External API 2.1) with the query parameters that select a page (4.1), and error bodies (7).
// The 400 format is from the public description; the body of a 429 is not documented.

import * as z from "zod";

type JsonFields = { readonly [name: string]: unknown };
export type NoFields = { readonly [name in never]: z.ZodType };
type Fields = { readonly [name: string]: z.ZodType };
type Lenient<F extends Fields> = { [K in keyof F]: z.ZodCatch<z.ZodOptional<F[K]>> };
type Optional<F extends Fields> = { [K in keyof F]: z.ZodOptional<F[K]> };

/** Called for a field that was dropped for its type, with the names of the record and the field. */
export type Dropped = (record: string, field: string) => void;

/** The result of parsing a record: its value, or an error sentence with the path that made it unreadable. */
export type Reading<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly reason: string };

/** One record: `read` is the lenient schema for data of others, `exact` the strict one for data that we serve. */
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
export function record<N extends Fields, P extends Fields = NoFields, M extends Fields = NoFields>(
  name: string,
  needs: N,
  promises = {} as P,
  may = {} as M,
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
    return result.success ? { ok: true, value: result.data } : { ok: false, reason: describe(result.error.issues) };
  } finally {
    listener = undefined;
  }
}

/** Passes each pair of record and field on only once, also across calls. */
export function once(dropped: Dropped): Dropped {
  const reported = new Set<string>();
  return (name, field) => {
    const key = `${name}.${field}`;
    if (reported.has(key)) return;
    reported.add(key);
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

/** A string, an object with the text under a common field name, or an object of texts by language. */
export const textOrObject = z.union([z.string(), z.record(z.string(), z.unknown())]);

const usualNames = [
  "text",
  "value",
  "message",
  "content",
  "body",
  "signature",
  "introduction",
  "default",
  "en",
  "en-US",
  "en_US",
];
/** `id` is an identifier more often than Indonesian. */
const languageName = /^(?!id$)[a-z]{2}(?:[-_][a-z]{2,4})?$/i;
const switches = ["enabled", "isEnabled", "active", "isActive"];

/** A text under a common field name may itself be an object by language. Deeper nesting is ignored. */
const deepest = 2;

/** Returns the trimmed text, or null without one. Of several languages it returns English, else
 *  the first that is not empty. The shape of such an object is not documented, and customers read the text: a string
 *  under any other name may be an identifier or markup, and a text that is switched off must not be sent. */
export function plainText(value: z.output<typeof textOrObject> | null | undefined): string | null {
  return textIn(value, deepest);
}

function textIn(value: unknown, depth: number): string | null {
  if (typeof value === "string") return value.trim() || null;
  if (value === null || typeof value !== "object" || Array.isArray(value) || depth === 0) return null;
  const fields = value as JsonFields;
  if (switches.some((name) => fields[name] === false)) return null;
  for (const name of [...usualNames, ...Object.keys(fields).filter((one) => languageName.test(one))]) {
    const text = textIn(fields[name], depth - 1);
    if (text !== null) return text;
  }
  return null;
}

const iso = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$/i;

/** Returns epoch milliseconds. A time without a zone is UTC, in any time zone of the server; a date
 *  alone is its first instant. A day that the month does not have is refused; `Date.parse` counts on into the next one. */
export const instant = z
  .string()
  .transform(msOf)
  .refine((ms) => !Number.isNaN(ms), "not a date-time");

function msOf(given: string): number {
  // A plus sign that was not percent-encoded arrives as a space.
  const text = given.replace(/ (?=\d\d:\d\d$)/, "+");
  const [, time, , , zone] = iso.exec(text) ?? [];
  const day = text.slice(0, 10);
  if (!iso.test(text) || Number.isNaN(Date.parse(day)) || !new Date(day).toJSON().startsWith(day)) return Number.NaN;
  return Date.parse(time !== undefined && zone === undefined ? `${text}Z` : text);
}

export const defaultPageSize = 20;
const maxPageSize = 100;
const count = z.coerce.number().int().min(1);
const pageNumber = count.max(1_000_000);
const pageSize = count.transform((size) => Math.min(size, maxPageSize));

/** The page parameters of a query string. The interface defines no defaults; these are Bridgehead's. A
 *  larger page size is reduced to our maximum. */
export const pageQuery = z.looseObject({
  page: pageNumber.default(1),
  pageSize: pageSize.default(defaultPageSize),
  orderBy: z.enum(["createdAt", "updatedAt"]).default("createdAt"),
  orderDirection: z.enum(["ASC", "DESC"]).default("DESC"),
});

/** As above, for a list that is returned complete unless a page is requested. */
export const optionalPageQuery = z.looseObject({
  page: pageNumber.optional(),
  pageSize: pageSize.optional(),
});

export interface Page<T> {
  readonly currentPage: number;
  readonly pageSize: number;
  readonly totalItems: number;
  readonly totalPages: number;
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: boolean;
  readonly data: readonly T[];
}

/** Wraps one page of items; `page` counts from 1. */
export function pageOf<T>(data: readonly T[], page: number, pageSize: number, totalItems: number): Page<T> {
  const totalPages = Math.ceil(totalItems / pageSize);
  return {
    currentPage: page,
    pageSize,
    totalItems,
    totalPages,
    hasNextPage: page < totalPages,
    hasPreviousPage: page > 1 && totalPages > 0,
    data,
  };
}

const fieldsOf = (input: unknown): JsonFields => (typeof input === "object" ? ((input ?? {}) as JsonFields) : {});

/** Where error bodies have their text, in order of preference: those of the interface, of web frameworks, and of RFC 9457. */
const textFields = ["message", "msg", "error", "detail", "title", "errors"];
/** Limits of the texts and fields of one error, and of the objects in objects that are searched for them. */
const mostEntries = 5;
const deepestText = 3;

/** Returns a short message from an error body, with the names of the fields that it rejects; empty when it contains no
 *  readable one. The interface leaves the form of validation errors open, so lists of texts and of objects with a text are
 *  accepted. `cleaned` is applied to each part before the message is cut. */
export function failureReason(input: unknown, cleaned = (text: string) => text): string {
  const { name, details } = fieldsOf(input);
  const rejected = Array.isArray(details) ? details.slice(0, mostEntries).map(fieldNameOf) : [];
  const fields = [...new Set(rejected)].filter(Boolean).join(", ");
  const parts = [typeof name === "string" ? name : "", failureText(fieldsOf(input), deepestText)];
  const reason = parts.filter(Boolean).map(cleaned).join(": ").slice(0, 200);
  return fields === "" ? reason : `${reason} (${cleaned(fields)})`.trim();
}

function failureText(value: unknown, depth: number): string {
  if (typeof value === "string") return value;
  if (depth === 0) return "";
  if (Array.isArray(value)) {
    const texts = value.slice(0, mostEntries).map((one) => {
      const text = failureText(one, depth - 1);
      return [text && fieldNameOf(one), text].filter(Boolean).join(": ");
    });
    return texts.filter(Boolean).join("; ");
  }
  const fields = fieldsOf(value);
  for (const name of textFields) {
    const text = failureText(fields[name], depth - 1);
    if (text !== "") return text;
  }
  return "";
}

/** Returns the name of the field that an entry of an error body rejects; empty without one. */
function fieldNameOf(entry: unknown): string {
  const { path, field, property, loc } = fieldsOf(entry);
  const name = [path, field, property, loc].find((one) => typeof one === "string" || Array.isArray(one));
  if (!Array.isArray(name)) return name ?? "";
  const steps = name.slice(0, mostEntries).filter((step) => typeof step !== "object");
  return steps.join(".");
}

const detailed = z.looseObject({
  details: z.array(z.looseObject({ path: z.string(), message: z.string() })).min(1),
});

/** Returns the fields that an error body rejects, if it uses our own format (the interface leaves it open). */
export function failureDetails(input: unknown): readonly FailureDetail[] | undefined {
  const reading = detailed.safeParse(input);
  return reading.success ? reading.data.details.map(({ path, message }) => ({ path, message })) : undefined;
}

export interface Failure {
  readonly status: number;
  readonly name?: string;
  readonly message: string;
  readonly details?: readonly FailureDetail[];
}
export type FailureDetail = { readonly path: string; readonly message: string };

const failureOf = (status: number, name: string, message: string): Failure => ({
  status,
  name,
  message,
  details: [],
});

export const forbidden = failureOf(403, "FORBIDDEN_ERROR", "INVALID_CREDENTIALS");
export const notFound = failureOf(404, "ENTITY_NOT_FOUND_ERROR", "ENTITY_NOT_FOUND");
export const tooManyRequests = failureOf(429, "TOO_MANY_REQUESTS_ERROR", "RATE_LIMIT_EXCEEDED");
/** Not documented either; bounds the size of the body. */
export const tooLarge: Failure = { ...badRequest([{ path: "", message: "too large" }]), status: 413 };
/** The embedded platform's response when the model is unreachable or refuses the account: the request had no effect.
 *  `details` names the key of the configuration that an operator has to correct; absent when the failure may pass. Other
 *  platforms have no such name, and their 503 leaves the effect open. */
export const modelUnavailable: Failure = { status: 503, name: "MODEL_UNAVAILABLE_ERROR", message: "" };
export const internalError: Failure = { status: 500, message: "Internal Server Error" };

/** A request that is rejected, with the fields that are the reason. */
export function badRequest(details: readonly FailureDetail[]): Failure {
  return { status: 400, name: "BAD_REQUEST", message: "INVALID_REQUEST", details };
}
