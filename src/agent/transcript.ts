// Reads a conversation's messages page by page. A conversation may be larger than one response, a page may fail after
// others were read, and a platform may not page at all: what was read is kept, and the rest is read later.

import type { CallResult, Conversations, Message } from "../client/index.ts";

/** What reading needs from its caller. */
export interface ReadCall {
  readonly signal: AbortSignal;
  /** Asked before each request but the first: false when the platform's rate leaves no room for it. */
  more(): Promise<boolean>;
}

/** Messages that follow each other in the platform's order, oldest first. */
export interface Part {
  readonly messages: readonly Message[];
  /** Places in the conversation, from 0: of the first message, and behind the last. */
  readonly start: number;
  readonly end: number;
  /** Messages among them that are too long to be read. */
  readonly skipped: number;
  /** Why it was not read on; null at the end of the conversation. */
  readonly failure: Exclude<CallResult<unknown>, { kind: "ok" }> | null;
}

type Pages = Pick<Conversations, "messages">;

const pageSize = 64;
/** A page that is too large is read in so many parts. */
const split = 8;

interface Block extends Part {
  /** How many messages a page has: the platform may allow fewer than we want. */
  readonly size: number;
  readonly hasNext: boolean;
  /** Messages of the whole conversation, as the platform says. */
  readonly total: number;
}

class PageReader {
  readonly #pages: Pages;
  readonly #id: string;
  readonly #call: ReadCall;
  #asked = false;

  constructor(pages: Pages, id: string, call: ReadCall) {
    this.#pages = pages;
    this.#id = id;
    this.#call = call;
  }

  /** The block of `size` messages at `start`, a multiple of it; or what the platform makes of that. */
  async block(start: number, size: number): Promise<Block> {
    const nothing = { messages: [], start, end: start, skipped: 0, size, hasNext: false, total: 0 };
    if (this.#asked && !(await this.#call.more()))
      return { ...nothing, failure: { kind: "deferred", reason: "the platform's rate is used up" } };
    this.#asked = true;
    const query = { page: start / size + 1, pageSize: size, orderDirection: "ASC" } as const;
    const result = await this.#pages.messages(this.#id, query, { signal: this.#call.signal });
    if (result.kind === "unknown" && result.tooLarge && size > 1) return this.#inParts(start, size);
    if (result.kind !== "ok") return { ...nothing, failure: result };
    const { data: messages, skipped, currentPage, totalItems: total, ...page } = result.value;
    const count = messages.length + skipped;
    // A platform that always announces another page must not keep us for ever.
    const hasNext = page.hasNextPage && count > 0;
    // A page with another one behind it is full: that is the size the platform uses, whatever it was asked for.
    const used = hasNext ? count : Math.max(count, Math.min(size, page.pageSize));
    const at = (currentPage - 1) * used;
    return { messages, start: at, end: at + count, skipped, failure: null, size: used, hasNext, total };
  }

  async #inParts(start: number, size: number): Promise<Block> {
    const part = size % split === 0 ? size / split : 1;
    let read = await this.block(start, part);
    while (read.failure === null && read.hasNext && read.end < start + size) {
      const next = await this.block(read.end, part);
      if (next.start !== read.end) break; // it does not page as it said
      read = { ...next, ...joined(read, next) };
    }
    return { ...read, size };
  }
}

/** Two parts that follow each other, or overlap. */
function joined(first: Part, second: Part): Part {
  const known = new Set(first.messages.map(({ id }) => id));
  return {
    messages: [...first.messages, ...second.messages.filter(({ id }) => !known.has(id))],
    start: first.start,
    end: Math.max(first.end, second.end),
    skipped: first.skipped + second.skipped,
    failure: second.failure,
  };
}

/** From the page with the message at `from` to the end. A platform that does not page gives all, from 0. */
export async function readFrom(pages: Pages, id: string, from: number, call: ReadCall): Promise<Part> {
  const reader = new PageReader(pages, id, call);
  return readOn(reader, await reader.block(from - (from % pageSize), pageSize));
}

async function readOn(reader: PageReader, first: Block): Promise<Part> {
  let read: Part = first;
  for (let block = first; block.failure === null && block.hasNext; ) {
    const next = await reader.block(block.end - (block.end % block.size), block.size);
    // It gives the same page again.
    if (next.failure === null && next.end <= block.end) break;
    read = joined(read, next);
    block = next;
  }
  return read;
}

/** From the end back, until `enough` is satisfied with what was read or all was read. `failure` null: either of them. The
 *  parts are joined, so what is before them may be missing. */
export async function readBack(
  pages: Pages,
  id: string,
  call: ReadCall,
  enough: (messages: readonly Message[]) => boolean,
): Promise<Part> {
  const reader = new PageReader(pages, id, call);
  const first = await reader.block(0, pageSize);
  if (first.failure !== null || !first.hasNext) return first;
  const { size } = first;
  let at = Math.max(first.end, first.total - 1);
  let read = await readOn(reader, await reader.block(at - (at % size), size));
  // There is nothing where the end should be: the platform counts more messages than it has.
  if (read.failure === null && read.end <= read.start) return readOn(reader, first);
  while (read.failure === null && !enough(read.messages) && read.start > first.end) {
    at = Math.max(first.end, read.start - size);
    const block = await reader.block(at - (at % size), size);
    // Contiguous only with what is behind it: a block that was cut off has a gap.
    if (block.failure !== null) return { ...read, failure: block.failure };
    if (block.start >= read.start) return { ...read, failure: sameAgain };
    const { failure } = read;
    read = { ...joined(block, read), failure };
  }
  return enough(read.messages) || read.failure !== null ? read : joined(first, read);
}

const sameAgain = { kind: "unknown", reason: "the platform gives the same page again" } as const;
