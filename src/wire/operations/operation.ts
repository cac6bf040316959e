// What an operation of the External API is: the one table from which the description is generated and the client is held
// against the platform.

import * as z from "zod";

export interface Operation {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Parameters in braces. */
  readonly path: `/external/${string}`;
  /** Which credential opens it (External API 5). */
  readonly key: "agent" | "organization";
  readonly summary: string;
  readonly tag: "agents" | "conversations" | "users" | "files" | "webhooks";
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** The body is a form with a file. */
  readonly upload?: true;
  readonly answer: {
    readonly status: 200 | 201 | 202 | 204;
    /** JSON, nothing at all, or a document's own bytes. */
    readonly record: z.ZodType | null | "bytes";
  };
  /** Beside 403, 429 and 500, which every operation has. */
  readonly errors: readonly (400 | 404 | 413)[];
}

/** A request's date and time. */
export const dateTime = z.string().meta({ format: "date-time" });

const numbers = { page: z.int().min(1).optional(), pageSize: z.int().min(1).optional() };
const orderDirection = z.enum(["ASC", "DESC"]).optional();

/** The shared list parameters (External API 4.1). */
export const listParameters = z.object({
  ...numbers,
  orderBy: z.enum(["createdAt"]).optional(),
  orderDirection,
});

/** A page of records (External API 2.1). */
export function pageRecord(item: z.ZodType) {
  return z.looseObject({
    currentPage: z.number(),
    pageSize: z.number(),
    totalItems: z.number(),
    totalPages: z.number(),
    hasNextPage: z.boolean(),
    hasPreviousPage: z.boolean(),
    data: z.array(item),
  });
}
