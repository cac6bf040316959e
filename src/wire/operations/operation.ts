// The definition of an operation of the External API. The description is generated from the operation
// table, and the client is checked against the platform with it.

import * as z from "zod";

/** What an operation takes and returns. */
export interface OperationRecords {
  readonly summary: string;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** The body is a form with a file. */
  readonly upload?: true;
  readonly answer: {
    readonly status: 200 | 201 | 202 | 204;
    /** JSON, no content, or the bytes of a document. */
    readonly record: z.ZodType | null | "bytes";
  };
  /** In addition to 403, 429 and 500, which every operation has. */
  readonly errors: readonly (400 | 404 | 413)[];
}

/** An operation with its request line. */
export interface Operation extends OperationRecords {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Contains parameters in braces. */
  readonly path: `/external/${string}`;
  /** The credential that the operation requires (External API 5). */
  readonly key: "agent" | "organization";
  readonly tag: "agents" | "conversations" | "users" | "files" | "webhooks";
}

/** Date and time in a request. */
export const dateTime = z.string().meta({ format: "date-time" });

/** The shared list parameters (External API 4.1). */
export const listParameters = z.object({
  page: z.int().min(1).optional(),
  pageSize: z.int().min(1).optional(),
  orderBy: z.enum(["createdAt"]).optional(),
  orderDirection: z.enum(["ASC", "DESC"]).optional(),
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
