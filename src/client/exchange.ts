// One HTTP exchange over undici's dispatch interface. It is used instead of `request()` because it alone tells the
// instant before the first byte is written: everything that fails earlier is certainly not done.

import type { Dispatcher, Pool } from "undici";
import type { Places } from "./places.ts";
import { stopped } from "./result.ts";

export interface Outgoing {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path and query. */
  readonly path: string;
  readonly headers: { readonly [name: string]: string };
  readonly body?: string | Uint8Array;
  /** Larger answers are not read on. */
  readonly maxResponseBytes: number;
  /** Takes the body of a success in place of `body`, chunk by chunk. */
  readonly sink?: { push(chunk: Buffer): void };
  readonly signal: AbortSignal;
  /** For a connection: to be opened, or to come free. */
  readonly connectionWaitMs: number;
  /** From the first byte that leaves to the last that comes back. */
  readonly timeoutMs: number;
  /** Called just before the first byte leaves; what it throws stops the request unsent. */
  crossing?(): void;
}

/** `broken`: why the body is not whole. `failed` without `crossed`: no byte has left. */
export type Exchange =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly retryAfter: string | undefined;
      readonly body: Buffer;
      readonly broken?: string;
      /** The body is not whole because it exceeds `maxResponseBytes`. */
      readonly tooLarge?: true;
    }
  | { readonly kind: "failed"; readonly crossed: boolean; readonly reason: string };

type Headers = { readonly [name: string]: string | string[] | undefined };

/** Where the requests go: each holds one of the places from before it is sent until it is settled. */
export interface Connections {
  readonly pool: Pool;
  readonly places: Places;
}

/** Sends one request and reads the whole answer. Never rejects, never sends twice, never follows a redirect. */
export async function exchange({ pool, places }: Connections, outgoing: Outgoing): Promise<Exchange> {
  const { signal, connectionWaitMs } = outgoing;
  // Not Promise.withResolvers: programs on Node.js 20 use this client too.
  let resolve!: (exchange: Exchange) => void;
  const promise = new Promise<Exchange>((done) => (resolve = done));
  const state = new ExchangeState(outgoing, resolve);
  const onAbort = () => state.stop(whyAborted(signal));
  state.limit(connectionWaitMs, `no connection within ${connectionWaitMs} ms`);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const leave = places.enter(() => dispatch(pool, outgoing, state));
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    leave();
  }
}

function dispatch(pool: Pool, { method, path, headers, body }: Outgoing, state: ExchangeState): void {
  if (state.settled) return;
  try {
    pool.dispatch({ method, path, headers, body: body ?? null }, state);
  } catch (error) {
    state.fail(error instanceof Error ? error : new Error(String(error)));
  }
}

function whyAborted(signal: AbortSignal): string {
  const reason = signal.reason as { name?: string } | null | undefined;
  return reason?.name === "TimeoutError" ? "the caller's time is up" : stopped;
}

/** What is known about one request while it is under way. */
class ExchangeState implements Dispatcher.DispatchHandler {
  #crossed = false;
  #settled = false;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #retryAfter: string | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #tooLarge = false;
  #lift = () => {};
  readonly #outgoing: Outgoing;
  readonly #settle: (result: Exchange) => void;

  constructor(outgoing: Outgoing, settle: (result: Exchange) => void) {
    this.#outgoing = outgoing;
    this.#settle = settle;
  }

  get settled(): boolean {
    return this.#settled;
  }

  /** Gives up after `ms` from now. Takes the place of the limit before. */
  limit(ms: number, reason: string): void {
    this.#lift();
    const timer = AbortSignal.timeout(ms);
    const onEnd = () => this.stop(reason);
    timer.addEventListener("abort", onEnd, { once: true });
    this.#lift = () => timer.removeEventListener("abort", onEnd);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Settled: it was stopped while it waited for a connection. Crossed: the client is about to send it again.
    if (this.#settled || this.#crossed) return controller.abort(new Error("must not be sent"));
    this.#controller = controller;
    try {
      this.#outgoing.crossing?.();
      this.#crossed = true;
      // Only now: a question that waited for a connection has as much time for its answer as any other.
      this.limit(this.#outgoing.timeoutMs, `no answer within ${this.#outgoing.timeoutMs} ms`);
    } catch (error) {
      controller.abort(error instanceof Error ? error : new Error(String(error)));
    }
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
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

  /** Gives up: settles now and tears the request down, or never lets it start. */
  stop(reason: string): void {
    const controller = this.#controller;
    this.#finish(reason);
    controller?.abort(new Error(reason));
  }

  /** Once the status is known it is an answer, however little of its body arrived. */
  #finish(broken?: string): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#lift();
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
