// Performs one HTTP exchange over undici's dispatch interface, and states the result of every operation of the client:
// a value that states what is certain. No exception has to be interpreted. Only the dispatch interface reports the
// moment before the first byte is written. A request that fails earlier certainly had no effect.

import type { Readable } from "node:stream";
import type PQueue from "p-queue";
import type { Dispatcher, Pool } from "undici";
import { after } from "../ops/clock.ts";

/** The outcome of one call. It can be serialized as JSON if its value can. */
export type CallResult<T> =
  | { readonly kind: "ok"; readonly value: T }
  /** 401 or 403: the key was rejected. The operation was certainly not performed. */
  | { readonly kind: "unauthorized"; readonly reason: string }
  /** 404 in the interface's own format, for an object that the request names. The operation was
   *  certainly not performed. */
  | { readonly kind: "missing"; readonly reason: string }
  /** Another 4xx (400, 409, 413, 422 ...): a permanent rejection. `details`: the rejected fields, if the
   *  platform names them. Unlike `reason`, they may quote the request. */
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly reason: string;
      readonly details?: readonly { readonly path: string; readonly message: string }[];
    }
  /** The operation was certainly not performed, and a retry may succeed: no connection, or 429
   *  (`limited`; with `retryAfterMs` above 0 if the platform sends it). Also a response that the
   *  platform did not generate itself: a redirect, 405, 408, 425, any other 404. */
  | {
      readonly kind: "deferred";
      readonly reason: string;
      readonly retryAfterMs?: number;
      readonly limited?: true;
    }
  /** The operation may have been performed: a timeout, a reset after the request was sent, 5xx, or an
   *  unreadable success. `tooLarge`: the response exceeds the client's size limit; a smaller page may
   *  not. */
  | { readonly kind: "unknown"; readonly reason: string; readonly tooLarge?: true };

/** The reason of a call whose caller aborted its signal. */
export const stopped = "stopped by the caller";

/** A result that is not `ok`, as an error. Thrown to callers that iterate over items. */
export class CallFailure extends Error {
  override readonly name = "CallFailure";
  readonly result: Exclude<CallResult<never>, { kind: "ok" }>;

  constructor(result: Exclude<CallResult<never>, { kind: "ok" }>) {
    super(result.reason);
    this.result = result;
  }
}

export interface Outgoing {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path and query. */
  readonly path: string;
  readonly headers: { readonly [name: string]: string };
  readonly body?: string | Uint8Array;
  /** Maximum size of a response in bytes. Reading stops when it is exceeded. */
  readonly maxResponseBytes: number;
  /** Receives the body of a successful response in chunks, instead of `body`. */
  readonly sink?: { push(chunk: Buffer): void };
  readonly signal: AbortSignal;
  /** Timeout in milliseconds until a connection is open or available. */
  readonly connectionWaitMs: number;
  /** Timeout in milliseconds from the first byte sent to the last byte received. */
  readonly timeoutMs: number;
  /** Called when the connection is available, before the first byte is written. With a body the first
   *  byte waits for the promise; without one the promise is not awaited. An error or rejection stops the
   *  request unsent. */
  crossing?(): void | Promise<void>;
}

/** `broken`: the reason why the body is incomplete. `failed` without `crossed`: no byte was sent. */
export type Exchange =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly retryAfter: string | undefined;
      readonly body: Buffer;
      readonly broken?: string;
      /** The body is incomplete because it exceeds `maxResponseBytes`. */
      readonly tooLarge?: true;
    }
  | { readonly kind: "failed"; readonly crossed: boolean; readonly reason: string };

type ResponseHeaders = { readonly [name: string]: string | string[] | undefined };

/** The queue bounds the requests under way: each occupies it until it is settled. The pool is as large
 *  as the queue. Its own queue only covers the moment in which a connection becomes reusable, because a
 *  request cannot be removed from it. */
export interface Connections {
  /** Replaced when the limit changes, so each request reads it at its start. */
  pool: Pool;
  readonly queue: PQueue;
}

/** Sends one request and reads the complete response. Never rejects, never sends twice, never follows a
 *  redirect. */
export async function exchange(connections: Connections, outgoing: Outgoing): Promise<Exchange> {
  const { signal, connectionWaitMs } = outgoing;
  // Promise.withResolvers is not available: this client also supports Node.js 20.
  let resolve!: (exchange: Exchange) => void;
  const promise = new Promise<Exchange>((done) => (resolve = done));
  const state = new ExchangeState(outgoing, resolve);
  const onAbort = () => state.stop(whyAborted(signal));
  state.limit(connectionWaitMs, `no connection within ${connectionWaitMs} ms`);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const { queue } = connections;
  const run = () => {
    dispatch(connections.pool, outgoing, state);
    return promise;
  };
  // A queued request leaves the queue when it is settled; one that starts at once needs no signal for it.
  const waits = queue.size > 0 || queue.pending >= queue.concurrency;
  const settled = waits ? new AbortController() : undefined;
  // Rejects only when the request was settled while it was still queued.
  queue.add(run, settled && { signal: settled.signal }).catch(() => undefined);
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    settled?.abort(null);
  }
}

function dispatch(pool: Pool, { method, path, headers, body }: Outgoing, state: ExchangeState): void {
  if (state.settled) return;
  try {
    if (body === undefined) return void pool.dispatch({ method, path, headers, body: null }, state);
    // undici writes the head together with the first chunk of an iterable body.
    const sized = { ...headers, "content-length": String(Buffer.byteLength(body)) };
    // undici takes any async iterable; its types name streams only.
    const stream = state.bodyAfterCrossing(Buffer.from(body)) as unknown as Readable;
    pool.dispatch({ method, path, headers: sized, body: stream }, state);
  } catch (error) {
    state.fail(error instanceof Error ? error : new Error(String(error)));
  }
}

function whyAborted(signal: AbortSignal): string {
  const reason = signal.reason as { name?: string } | null | undefined;
  return reason?.name === "TimeoutError" ? "the caller's time is up" : stopped;
}

/** The state of one request in progress. */
class ExchangeState implements Dispatcher.DispatchHandler {
  #crossed = false;
  #settled = false;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #retryAfter: string | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #tooLarge = false;
  #lift: (() => void) | undefined;
  readonly #outgoing: Outgoing;
  readonly #settle: (result: Exchange) => void;

  constructor(outgoing: Outgoing, settle: (result: Exchange) => void) {
    this.#outgoing = outgoing;
    this.#settle = settle;
  }

  get settled(): boolean {
    return this.#settled;
  }

  /** Sets a timeout of `ms` from now. Replaces the previous timeout. */
  limit(ms: number, reason: string): void {
    this.#lift?.();
    this.#lift = after(ms, () => this.stop(reason));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Settled: the request was stopped while it waited for a connection. Crossed: undici is about to send
    // it again.
    if (this.#settled || this.#crossed) return controller.abort(new Error("must not be sent"));
    this.#controller = controller;
    if (this.#outgoing.body !== undefined) return;
    try {
      void this.#outgoing.crossing?.();
      this.#cross();
    } catch (error) {
      controller.abort(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** The request's body. undici asks for it when the connection is available, and writes nothing before
   *  the first chunk. */
  async *bodyAfterCrossing(bytes: Buffer): AsyncGenerator<Buffer> {
    await this.#outgoing.crossing?.();
    if (this.#settled) throw new Error("must not be sent");
    this.#cross();
    yield bytes;
  }

  /** Marks the request as possibly effective. The response timeout starts now, independent of the wait
   *  for a connection. */
  #cross(): void {
    this.#crossed = true;
    this.limit(this.#outgoing.timeoutMs, `no answer within ${this.#outgoing.timeoutMs} ms`);
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHeaders,
  ): void {
    if (status < 200) return;
    this.#status = status;
    const retryAfter = headers["retry-after"];
    this.#retryAfter = Array.isArray(retryAfter) ? retryAfter[0] : retryAfter;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
    const { maxResponseBytes, sink } = this.#outgoing;
    if (this.#bytes > maxResponseBytes) {
      this.#tooLarge = true;
      return this.stop(`the answer exceeds ${maxResponseBytes} bytes`);
    }
    if (sink && this.#status < 300) sink.push(chunk);
    else this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    this.#finish();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(error);
  }

  fail(error: Error): void {
    const code = (error as { code?: string }).code;
    this.#finish(
      code === undefined || error.message.includes(code) ? error.message : `${code} ${error.message}`,
    );
  }

  /** Cancels the request: settles now, and aborts the request or prevents its start. */
  stop(reason: string): void {
    const controller = this.#controller;
    this.#finish(reason);
    controller?.abort(new Error(reason));
  }

  /** Once the status was received the result is a response, even if the body is incomplete. */
  #finish(broken?: string): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#lift?.();
    if (this.#status === 0) {
      const reason = broken ?? "the connection ended without an answer";
      return this.#settle({ kind: "failed", crossed: this.#crossed, reason });
    }
    const body = Buffer.concat(this.#chunks);
    this.#settle({
      kind: "answered",
      status: this.#status,
      retryAfter: this.#retryAfter,
      body,
      ...(broken === undefined ? {} : { broken }),
      ...(this.#tooLarge ? { tooLarge: true } : {}),
    });
  }
}
