// Error bodies (External API 7). The 400 format is from the public description; the body of a 429 is not
// documented.

import * as z from "zod";

/** An error body as a client may receive it: every field is optional. */
const failure = z.looseObject({
  name: z.string().optional().catch(undefined),
  message: z.string().optional().catch(undefined),
});

/** Returns a short message from an error body; empty when it contains no readable one. */
export function failureReason(input: unknown): string {
  const reading = failure.safeParse(input);
  if (!reading.success) return "";
  const { name, message } = reading.data;
  return [name, message].filter(Boolean).join(": ").slice(0, 200);
}

const detailed = z.looseObject({
  details: z.array(z.looseObject({ path: z.string(), message: z.string() })).min(1),
});

/** Returns the fields that an error body rejects, if it uses our own format (the interface leaves it
 *  open). */
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

export const forbidden: Failure = {
  status: 403,
  name: "FORBIDDEN_ERROR",
  message: "INVALID_CREDENTIALS",
  details: [],
};
export const notFound: Failure = {
  status: 404,
  name: "ENTITY_NOT_FOUND_ERROR",
  message: "ENTITY_NOT_FOUND",
  details: [],
};
export const tooManyRequests: Failure = {
  status: 429,
  name: "TOO_MANY_REQUESTS_ERROR",
  message: "RATE_LIMIT_EXCEEDED",
  details: [],
};
/** Not documented either; bounds the size of the body. */
export const tooLarge: Failure = { ...badRequest([{ path: "", message: "too large" }]), status: 413 };
export const internalError: Failure = { status: 500, message: "Internal Server Error" };

/** A request that is rejected, with the fields that are the reason. */
export function badRequest(details: readonly FailureDetail[]): Failure {
  return { status: 400, name: "BAD_REQUEST", message: "INVALID_REQUEST", details };
}
