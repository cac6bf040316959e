// The messages of a conversation. They are read page by page: a conversation may exceed the size of one response, a page
// may fail after others were read, and a platform may not support paging. The messages read so far are kept, and the rest
// is read later. They show whether a question was stored, and its answer. The interface has no idempotency key, so
// questions are recognized by their text and the ids of earlier turns.

import type { CallResult, Conversations, Message } from "../client/index.ts";
import { normalizeWhitespace } from "../domain/turn.ts";
import type { LookUp, PastQuestion, PlatformMessage } from "./calls.ts";

/** Finds the user's newest message with this text that belongs to no earlier turn, and its answer. */
export function findQuestion(messages: readonly Message[], question: PastQuestion): LookUp {
  const ordered = inOrder(messages);
  const index = ordered.findLastIndex((message) => isQuestion(message, question));
  const asked = ordered[index];
  if (!asked) return { state: "absent" };
  const reply = replyTo(asked, ordered.slice(index + 1), ordered, question.knownIds);
  return reply
    ? { state: "answered", answer: { questionId: asked.id, replyId: reply.id, text: spoken(reply) } }
    : { state: "pending", questionId: asked.id };
}

/** Whether older messages cannot change the result of `findQuestion` for these messages, the newest of
 *  the conversation. */
export function isCertain(messages: readonly Message[], question: PastQuestion): boolean {
  const found = findQuestion(messages, question);
  if (found.state !== "answered") return found.state === "pending";
  // A reply that names a question id belongs to another question when that question is found.
  const reply = messages.find(({ id }) => id === found.answer.replyId);
  const named = reply?.conversationMessageId;
  return !named || messages.some(({ id }) => id === named);
}

/** Returns the id of a human's newest reply with this text that belongs to no earlier turn. */
export function findWords(messages: readonly Message[], words: PastQuestion): string | null {
  const text = normalizeWhitespace(words.text);
  const found = inOrder(messages).findLast(
    (message) =>
      message.senderRole === "manual_assistant" &&
      !words.knownIds.has(message.id) &&
      normalizeWhitespace(message.message) === text,
  );
  return found?.id ?? null;
}

const roles: { readonly [role: string]: PlatformMessage["role"] } = {
  assistant: "agent",
  manual_assistant: "human",
};

export function platformMessages(messages: readonly Message[]): readonly PlatformMessage[] {
  return inOrder(messages).map((message) => ({
    id: message.id,
    role: roles[message.senderRole] ?? "person",
    text: message.message,
    answers: message.conversationMessageId ?? null,
    files: (message.files ?? []).map(({ fileName }) => fileName),
  }));
}

/** Sorts by time. If any message has no readable time, all keep the platform's order. */
function inOrder(messages: readonly Message[]): Message[] {
  const times = new Map(messages.map((message) => [message, Date.parse(message.createdAt ?? "")]));
  if ([...times.values()].some(Number.isNaN)) return [...messages];
  return messages.toSorted((a, b) => (times.get(a) ?? 0) - (times.get(b) ?? 0));
}

function isQuestion(message: Message, question: PastQuestion): boolean {
  if (message.senderRole !== "conversation_user" || question.knownIds.has(message.id)) return false;
  const text = normalizeWhitespace(question.text);
  return normalizeWhitespace(message.message) === text || normalizeWhitespace(message.rawMessage ?? "") === text;
}

/** Prefers the reply that names the question; otherwise takes the next reply that names no other question. */
function replyTo(
  asked: Message,
  later: readonly Message[],
  all: readonly Message[],
  known: ReadonlySet<string>,
): Message | undefined {
  const replies = all.filter((message) => isReply(message) && !known.has(message.id));
  const named = replies.find((reply) => reply.conversationMessageId === asked.id);
  if (named) return named;
  const questions = new Set(all.filter((message) => !isReply(message)).map((message) => message.id));
  return later.find((message) => replies.includes(message) && !questions.has(message.conversationMessageId ?? ""));
}

const isReply = ({ senderRole }: Message): boolean => Object.hasOwn(roles, senderRole);

/** Returns the text of a reply. An empty reply has no text to send. */
export const spoken = ({ message }: Message): string | null => (message.trim() ? message : null);

export interface ReadCall {
  readonly signal: AbortSignal;
  /** Called before each request except the first. Returns false when the platform's rate limit leaves no
   *  capacity for it. */
  more(): Promise<boolean>;
}

/** Consecutive messages in the platform's order, oldest first. */
export interface MessageRange {
  readonly messages: readonly Message[];
  /** Positions in the conversation, from 0: of the first message, and after the last. */
  readonly start: number;
  readonly end: number;
  /** Number of messages among them that exceed the size limit. */
  readonly skipped: number;
  /** The reason why reading stopped; null at the end of the conversation. */
  readonly failure: Exclude<CallResult<unknown>, { kind: "ok" }> | null;
}

type Pages = Pick<Conversations, "messages">;

const pageSize = 64;
/** A page that is too large is read in this number of parts. */
const split = 8;

interface PageOfMessages extends MessageRange {
  /** Number of messages of a page. The platform may allow fewer than requested. */
  readonly size: number;
  readonly hasNext: boolean;
  /** Number of messages in the whole conversation, as reported by the platform. */
  readonly total: number;
}

class PageReader {
  readonly #pages: Pages;
  readonly #id: string;
  readonly #call: ReadCall;
  #asked = false;
  /** The number of the first page. The interface does not say it. */
  #firstPage = 1;

  constructor(pages: Pages, id: string, call: ReadCall) {
    this.#pages = pages;
    this.#id = id;
    this.#call = call;
  }

  /** Requests the block of `size` messages at `start`, a multiple of it. The platform may return another range. */
  async block(start: number, size: number): Promise<PageOfMessages> {
    const nothing = { messages: [], start, end: start, skipped: 0, size, hasNext: false, total: 0 };
    const isFirst = !this.#asked;
    if (!isFirst && !(await this.#call.more()))
      return { ...nothing, failure: { kind: "deferred", reason: "the platform's rate is used up" } };
    this.#asked = true;
    const order = { orderDirection: "ASC" } as const;
    const query = { page: start / size + this.#firstPage, pageSize: size, ...order };
    const options = { signal: this.#call.signal };
    let result = await this.#pages.messages(this.#id, query, options);
    // The parameters of a page are unknown to the platform, or its pages are smaller. It chooses the range.
    if (result.kind === "refused" && isFirst && (await this.#call.more()))
      result = await this.#pages.messages(this.#id, order, options);
    if (result.kind === "unknown" && result.tooLarge && size > 1) return this.#inParts(start, size);
    if (result.kind !== "ok") return { ...nothing, failure: result };
    const { data: messages, skipped, currentPage, totalItems: total, ...page } = result.value;
    const count = messages.length + skipped;
    // The last page, with another one before it that has the other messages.
    if (start === 0 && this.#firstPage === 1 && page.hasPreviousPage && !page.hasNextPage && count < total) {
      this.#firstPage = 0;
      return this.block(start, size);
    }
    // Bounds the loop, in case a platform always announces another page.
    const hasNext = page.hasNextPage && count > 0;
    // A page that is followed by another one is full. Its length is the platform's page size, regardless of
    // the requested size.
    const used = hasNext ? count : Math.max(count, Math.min(size, page.pageSize));
    const at = (currentPage - this.#firstPage) * used;
    return { messages, start: at, end: at + count, skipped, failure: null, size: used, hasNext, total };
  }

  async #inParts(start: number, size: number): Promise<PageOfMessages> {
    const part = size % split === 0 ? size / split : 1;
    let read = await this.block(start, part);
    while (read.failure === null && read.hasNext && read.end < start + size) {
      const next = await this.block(read.end, part);
      if (next.start !== read.end) break; // the pages do not adjoin
      read = { ...next, ...joined(read, next) };
    }
    return { ...read, size };
  }
}

/** Joins two adjacent or overlapping parts. */
function joined(first: MessageRange, second: MessageRange): MessageRange {
  const known = new Set(first.messages.map(({ id }) => id));
  return {
    messages: [...first.messages, ...second.messages.filter(({ id }) => !known.has(id))],
    start: first.start,
    end: Math.max(first.end, second.end),
    skipped: first.skipped + second.skipped,
    failure: second.failure,
  };
}

/** Reads from the page with the message at `from` to the end. A platform without paging returns all
 *  messages, from 0. */
export async function readFrom(pages: Pages, id: string, from: number, call: ReadCall): Promise<MessageRange> {
  const reader = new PageReader(pages, id, call);
  return readOn(reader, await reader.block(from - (from % pageSize), pageSize));
}

async function readOn(reader: PageReader, first: PageOfMessages): Promise<MessageRange> {
  let read: MessageRange = first;
  for (let block = first; block.failure === null && block.hasNext; ) {
    const next = await reader.block(block.end - (block.end % block.size), block.size);
    // The platform returned the same page again.
    if (next.failure === null && next.end <= block.end) break;
    read = joined(read, next);
    block = next;
  }
  return read;
}

/** Reads backwards from the end, until `enough` accepts the messages or all were read; `failure` is null
 *  in both cases. The parts are joined, so messages before them may be missing. */
export async function readBack(
  pages: Pages,
  id: string,
  call: ReadCall,
  enough: (messages: readonly Message[]) => boolean,
): Promise<MessageRange> {
  const reader = new PageReader(pages, id, call);
  const first = await reader.block(0, pageSize);
  if (first.failure !== null || !first.hasNext) return first;
  const { size } = first;
  let at = Math.max(first.end, first.total - 1);
  let read = await readOn(reader, await reader.block(at - (at % size), size));
  // The last page is empty: the platform counts more messages than it has.
  if (read.failure === null && read.end <= read.start) return readOn(reader, first);
  while (read.failure === null && !enough(read.messages) && read.start > first.end) {
    at = Math.max(first.end, read.start - size);
    const block = await reader.block(at - (at % size), size);
    // A block that was cut off leaves a gap, so it does not join the messages after it.
    if (block.failure !== null) return { ...read, failure: block.failure };
    if (block.start >= read.start) return { ...read, failure: sameAgain };
    const { failure } = read;
    read = { ...joined(block, read), failure };
  }
  return enough(read.messages) || read.failure !== null ? read : joined(first, read);
}

const sameAgain = { kind: "unknown", reason: "the platform gives the same page again" } as const;
