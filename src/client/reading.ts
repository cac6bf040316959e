// Parses responses to values: leniently, record by record (see wire/record.ts), long lists item by item as they arrive.
// Iterates over lists (External API 2.1), by page or by item.

import * as z from "zod";
import { type Message, message } from "../wire/conversation.ts";
import { type Dropped, type Page, type Reading, read, record } from "../wire/record.ts";
import { CallFailure, type CallResult } from "./result.ts";

export type BodyReader<T> = (body: unknown, dropped: Dropped) => Reading<T>;

/** Parses one record. */
export const one =
  <S extends z.ZodType>(schema: S): BodyReader<z.output<S>> =>
  (body, dropped) =>
    read(schema, body, dropped);

/** Parses a page of records (External API 2.1). A bare array counts as the only page. Missing numbers of
 *  the envelope default to those of an only page. */
export function pageOf<S extends z.ZodType>(item: S): BodyReader<Page<z.output<S>>> {
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

/** A platform that returns the parameters of the query as it received them returns text. */
const pageNumber = z.union([
  z.number(),
  z
    .string()
    .regex(/^\d{1,15}$/)
    .transform(Number),
]);

function envelopeOf<S extends z.ZodType>(item: S) {
  const numbers = {
    currentPage: pageNumber,
    pageSize: pageNumber,
    totalItems: pageNumber,
    totalPages: pageNumber,
  };
  const more = { hasNextPage: z.boolean(), hasPreviousPage: z.boolean() };
  return record("page", { data: z.array(item) }, { ...numbers, ...more }, {}).read;
}

/** Parses one page of a list that was split into items. */
export type ListReader<T> = (list: SplitList, dropped: Dropped) => Reading<T>;

/** One page of a conversation's messages. `skipped`: the number of its messages that exceed the size limit. */
export type MessagePage = Page<Message> & { readonly skipped: number };

const readMessagePage = pageOf(message.read);

/** A platform without paging sends no envelope: this page is then the only one. */
export const messages: ListReader<MessagePage> = ({ envelope, items, skipped }, dropped) => {
  const size = (items?.length ?? 0) + skipped;
  const counts = { pageSize: size, totalItems: size, ...envelope, data: items?.map(withText) };
  const reading = readMessagePage(counts, dropped);
  return reading.ok ? { ok: true, value: { ...reading.value, skipped } } : reading;
};

/** A message of files alone may have no text. It must not keep the others from being read. */
const withText = (item: unknown): unknown =>
  item !== null && typeof item === "object" && ((item as Partial<Message>).message ?? null) === null
    ? { ...item, message: "" }
    : item;

/** The content of a successful response: JSON, a JSON list parsed item by item as it arrives, the bytes
 *  of a document, or nothing that is read. */
export type BodyContent<T> =
  | { readonly form: "json"; readonly read: (body: unknown) => Reading<T> }
  | {
      readonly form: "list";
      readonly names: readonly string[];
      readonly read: (list: SplitList) => Reading<T>;
    }
  | { readonly form: "bytes"; readonly read: (body: Buffer) => T }
  | { readonly form: "nothing"; readonly value: T };

/** The content of a successful response that is not read. */
export const nothing: BodyContent<void> = { form: "nothing", value: undefined };

/** Maximum size of one item in bytes. No known platform accepts a message of half this length. */
const maxItemBytes = 4 * 1024 * 1024;
/** Maximum size in bytes of the list's other fields. */
const maxEnvelopeBytes = 256 * 1024;

/** A completely read list. */
export interface SplitList {
  /** The JSON around the items: the page envelope. */
  readonly envelope: { readonly [name: string]: unknown };
  /** Null when the body contains no list. */
  readonly items: readonly unknown[] | null;
  /** Number of items above the size limit. */
  readonly skipped: number;
}

/** Removes a byte order mark, which RFC 8259 lets a reader ignore and `JSON.parse` rejects. */
export const utf8 = new TextDecoder();

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const isOpening = (byte: number) => byte === 0x5b || byte === 0x7b;
const isClosing = (byte: number) => byte === 0x5d || byte === 0x7d;

/** Splits a JSON list into its items. The size of the list or of one item therefore cannot prevent reading the
 *  other items. An item above the limit is counted and dropped; the list is never buffered as one string.
 *  Receives the chunks of one response body from the exchange. The list is the first of `names` in the
 *  top object that is an array, or the body itself. A second list is skipped. */
export class ListSplitter {
  readonly #names: readonly string[];
  #depth = 0;
  #inString = false;
  #escaped = false;
  /** Nesting depth of the items' brackets; 0 outside of a list. */
  #listDepth = 0;
  #taken = false;
  #keeping = false;
  /** The text of the top object outside of lists. */
  readonly #outside: Buffer[] = [];
  #outsideBytes = 0;
  /** The last string at depth 1, with quotes. Before an array it is the array's name. */
  #key: Buffer[] = [];
  #inKey = false;
  #item: Buffer[] = [];
  #itemBytes = 0;
  readonly #items: unknown[] = [];
  #skipped = 0;
  #broken = false;

  constructor(...names: readonly string[]) {
    this.#names = names;
  }

  /** Processes a chunk in linear time; JSON is parsed item by item. */
  push(chunk: Buffer): void {
    let from = 0;
    let keyFrom = 0;
    for (let at = 0; at < chunk.length && !this.#broken; at++) {
      const byte = chunk[at] ?? 0;
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false;
        else if (byte === backslash) this.#escaped = true;
        else if (byte === quote) {
          this.#inString = false;
          if (this.#inKey) this.#key.push(chunk.subarray(keyFrom, at + 1));
          this.#inKey = false;
        }
      } else if (byte === quote) {
        this.#inString = true;
        this.#inKey = this.#depth === 1 && this.#listDepth === 0;
        if (this.#inKey) this.#key = [];
        keyFrom = at;
      } else if (isOpening(byte)) {
        this.#depth += 1;
        if (byte === 0x5b && this.#opensList()) {
          this.#add(Buffer.concat([chunk.subarray(from, at), Buffer.from("[]")]));
          from = at + 1;
          this.#listDepth = this.#depth;
          this.#keeping = !this.#taken;
          this.#taken = true;
        }
      } else if (isClosing(byte)) {
        if (this.#depth === this.#listDepth && this.#listDepth > 0) {
          this.#add(chunk.subarray(from, at));
          this.#endItem();
          from = at + 1;
          this.#listDepth = 0;
        }
        this.#depth -= 1;
      } else if (byte === comma && this.#listDepth > 0 && this.#depth === this.#listDepth) {
        this.#add(chunk.subarray(from, at));
        this.#endItem();
        from = at + 1;
      }
    }
    this.#add(chunk.subarray(from));
    if (this.#inKey) this.#key.push(chunk.subarray(keyFrom));
  }

  /** Returns null when the body is not JSON, or its envelope is too large. */
  end(): SplitList | null {
    if (this.#broken || this.#depth !== 0 || this.#inString) return null;
    try {
      const envelope: unknown = JSON.parse(utf8.decode(Buffer.concat(this.#outside)));
      const fields = envelope !== null && typeof envelope === "object" && !Array.isArray(envelope);
      return {
        envelope: fields ? (envelope as { readonly [name: string]: unknown }) : {},
        items: this.#taken ? this.#items : null,
        skipped: this.#skipped,
      };
    } catch {
      return null;
    }
  }

  /** Whether an opening bracket starts the list. The bracket is already counted: depth 1 is the body
   *  itself, depth 2 a field of the top object. */
  #opensList(): boolean {
    if (this.#listDepth > 0) return false;
    if (this.#depth === 1) return true;
    const name = Buffer.concat(this.#key).toString("utf8");
    return this.#depth === 2 && this.#names.some((wanted) => name === `"${wanted}"`);
  }

  #add(bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (this.#listDepth === 0) {
      this.#outsideBytes += bytes.length;
      if (this.#outsideBytes > maxEnvelopeBytes) this.#broken = true;
      else this.#outside.push(bytes);
      return;
    }
    this.#itemBytes += bytes.length;
    if (!this.#keeping || this.#itemBytes > maxItemBytes) this.#item = [];
    else this.#item.push(bytes);
  }

  #endItem(): void {
    const [item, size] = [this.#item, this.#itemBytes];
    this.#item = [];
    this.#itemBytes = 0;
    if (!this.#keeping) return;
    if (size > maxItemBytes) {
      this.#skipped += 1;
      return;
    }
    const text = Buffer.concat(item).toString("utf8").trim();
    if (text === "") return; // an empty list
    try {
      this.#items.push(JSON.parse(text));
    } catch {
      this.#broken = true;
    }
  }
}

/** Requests one page. Every `list` of the client can be used: `(query) => client.webhooks.deliveries(id, query)`. */
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
