// The page envelope of every list (External API 2.1), and the query parameters that select a page (4.1).

import * as z from "zod";

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
