// Iterates over lists (External API 2.1), by page or by item.

import type { Page } from "../wire/page.ts";
import { CallFailure, type CallResult } from "./result.ts";

/** Requests one page. Every `list` of the client can be used: `(query) => client.webhooks.deliveries(id,
 *  query)`. */
type AskPage<T> = (query: { readonly page: number }) => Promise<CallResult<Page<T>>>;

/** Yields every page from `first` on. Ends after the last page, or after a result that is not `ok`.
 *  Pages are addressed by number, without a snapshot. If items are added during the iteration, request
 *  ascending order, so that they are appended at the end. */
export async function* pages<T>(ask: AskPage<T>, first = 1): AsyncGenerator<CallResult<Page<T>>, void> {
  for (let page = first; ; page++) {
    const result = await ask({ page });
    yield result;
    // An empty page also ends the loop, in case a platform always announces another page.
    if (result.kind !== "ok" || !result.value.hasNextPage || result.value.data.length === 0) return;
  }
}

/** Yields every item of every page. Throws `CallFailure` for a result that is not `ok`. */
export async function* items<T>(ask: AskPage<T>): AsyncGenerator<T, void> {
  for await (const result of pages(ask)) {
    if (result.kind !== "ok") throw new CallFailure(result);
    yield* result.value.data;
  }
}
