// Going through lists (External API 2.1): page after page, or item after item.

import type { Page } from "../wire/page.ts";
import { CallFailure, type CallResult } from "./result.ts";

/** Asks for one page; every `list` of the client is one: `(query) => client.webhooks.deliveries(id, query)`. */
type AskPage<T> = (query: { readonly page: number }) => Promise<CallResult<Page<T>>>;

/**
 * Every page from `first` on; ends after the last one, or after a result that is not `ok`.
 * Pages are counted, not held: where items are added meanwhile, ask in ascending order, so that they come at the end.
 */
export async function* pages<T>(ask: AskPage<T>, first = 1): AsyncGenerator<CallResult<Page<T>>, void> {
  for (let page = first; ; page++) {
    const result = await ask({ page });
    yield result;
    // A platform that always says there is more must not keep us for ever.
    if (result.kind !== "ok" || !result.value.hasNextPage || result.value.data.length === 0) return;
  }
}

/** Every item of every page. Throws `CallFailure` in place of a result that is not `ok`. */
export async function* items<T>(ask: AskPage<T>): AsyncGenerator<T, void> {
  for await (const result of pages(ask)) {
    if (result.kind !== "ok") throw new CallFailure(result);
    yield* result.value.data;
  }
}
