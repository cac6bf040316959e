// Parses responses to values: leniently, record by record (see wire/record.ts).

import * as z from "zod";
import { type Message, message } from "../wire/message.ts";
import type { Page } from "../wire/page.ts";
import { type Dropped, type Reading, read, record } from "../wire/record.ts";
import type { SplitList } from "./list-splitter.ts";

export type Reader<T> = (body: unknown, dropped: Dropped) => Reading<T>;

/** Parses one record. */
export const one =
  <S extends z.ZodType>(schema: S): Reader<z.output<S>> =>
  (body, dropped) =>
    read(schema, body, dropped);

/** Parses a page of records (External API 2.1). A bare array counts as the only page. Missing numbers of
 *  the envelope default to those of an only page. */
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

/** Parses one page of a list that was split into items. */
export type ListReader<T> = (list: SplitList, dropped: Dropped) => Reading<T>;

/** One page of a conversation's messages. `skipped`: the number of its messages that exceed the size
 *  limit. */
export type MessagePage = Page<Message> & { readonly skipped: number };

const readMessagePage = pageOf(message.read);

/** A platform without paging sends no envelope: this page is then the only one. */
export const messages: ListReader<MessagePage> = ({ envelope, items, skipped }, dropped) => {
  const size = (items?.length ?? 0) + skipped;
  const counts = { pageSize: size, totalItems: size, ...envelope, data: items ?? undefined };
  const reading = readMessagePage(counts, dropped);
  return reading.ok ? { ok: true, value: { ...reading.value, skipped } } : reading;
};
