// How answers become values: leniently, record by record (see wire/record.ts).

import * as z from "zod";
import { readMessages } from "../wire/message.ts";
import type { Page } from "../wire/page.ts";
import { type Dropped, type Reading, read, record } from "../wire/record.ts";

export type Reader<T> = (body: unknown, dropped: Dropped) => Reading<T>;

/** Reads one record. */
export const one =
  <S extends z.ZodType>(schema: S): Reader<z.output<S>> =>
  (body, dropped) =>
    read(schema, body, dropped);

/** Reads a page of records (External API 2.1). A bare array is taken for the only page; so are envelopes' numbers that
 *  are missing. */
export function pageOf<S extends z.ZodType>(item: S): Reader<Page<z.output<S>>> {
  let schema: ReturnType<typeof envelopeOf<S>> | undefined;
  return (body, dropped) => {
    schema ??= envelopeOf(item);
    const reading = read(schema, Array.isArray(body) ? { data: body } : body, dropped);
    if (!reading.ok) return reading;
    const { data, ...rest } = reading.value as Partial<Omit<Page<unknown>, "data">> & {
      readonly data: z.output<S>[];
    };
    const currentPage = rest.currentPage ?? 1;
    const totalPages = rest.totalPages ?? currentPage;
    return {
      ok: true,
      value: {
        currentPage,
        pageSize: rest.pageSize ?? data.length,
        totalItems: rest.totalItems ?? data.length,
        totalPages,
        hasNextPage: rest.hasNextPage ?? currentPage < totalPages,
        hasPreviousPage: rest.hasPreviousPage ?? currentPage > 1,
        data,
      },
    };
  };
}

function envelopeOf<S extends z.ZodType>(item: S) {
  const numbers = {
    currentPage: z.number(),
    pageSize: z.number(),
    totalItems: z.number(),
    totalPages: z.number(),
  };
  const more = { hasNextPage: z.boolean(), hasPreviousPage: z.boolean() };
  return record("page", { data: z.array(item) }, { ...numbers, ...more }, {}).read;
}

/** Reads a conversation's messages, in whichever of the known forms they come. */
export const messages: Reader<Extract<ReturnType<typeof readMessages>, { ok: true }>["value"]> = readMessages;
