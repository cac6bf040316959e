// Error bodies (External API 7). The 400 form is the public description's; the body of a 429 is nowhere described.

import * as z from "zod";

/** An error body as a reader may meet it: nothing in it is certain. */
const failure = z.looseObject({
  name: z.string().optional().catch(undefined),
  message: z.string().optional().catch(undefined),
});

/** What an error body says about itself, in a few words; empty when it says nothing readable. */
export function failureReason(input: unknown): string {
  const reading = failure.safeParse(input);
  if (!reading.success) return "";
  const { name, message } = reading.data;
  return [name, message].filter(Boolean).join(": ").slice(0, 200);
}

const detailed = z.looseObject({
  details: z.array(z.looseObject({ path: z.string(), message: z.string() })).min(1),
});

/** Which fields an error body complains about, where it says so in our own form (the interface leaves it open). */
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
/** Not described either; a body this large has no business here. */
export const tooLarge: Failure = { ...badRequest([{ path: "", message: "too large" }]), status: 413 };
export const internalError: Failure = { status: 500, message: "Internal Server Error" };

/** A request that cannot be accepted, and which of its fields are why. */
export function badRequest(details: readonly FailureDetail[]): Failure {
  return { status: 400, name: "BAD_REQUEST", message: "INVALID_REQUEST", details };
}
