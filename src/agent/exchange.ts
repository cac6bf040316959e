// One HTTP exchange over undici's dispatch interface. It is used instead of `request()` because it alone tells the
// instant before the first byte is written: everything that fails earlier is certainly not done.

import type { Dispatcher, Pool } from "undici";

/** Larger answers are not read on: nothing the interface returns comes near it. */
const maxResponseBytes = 10 * 1024 * 1024;

export interface Outgoing {
  readonly method: "GET" | "POST";
  /** Path and query. */
  readonly path: string;
  readonly headers: { readonly [name: string]: string };
  readonly body?: string;
  readonly signal: AbortSignal;
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
    }
  | { readonly kind: "failed"; readonly crossed: boolean; readonly reason: string };

type Headers = { readonly [name: string]: string | string[] | undefined };

/** Sends one request and reads the whole answer. Never rejects, never sends twice, never follows a redirect. */
export function exchange(pool: Pool, outgoing: Outgoing): Promise<Exchange> {
  return new Promise((resolve) => {
    const deadline = AbortSignal.timeout(outgoing.timeoutMs);
    const state = new ExchangeState(outgoing, (result) => {
      deadline.removeEventListener("abort", onDeadline);
      outgoing.signal.removeEventListener("abort", onAbort);
      resolve(result);
    });
    const onDeadline = () => state.stop(`no answer within ${outgoing.timeoutMs} ms`);
    const onAbort = () => state.stop("stopped by the caller");
    if (outgoing.signal.aborted) return state.stop("stopped by the caller");
    deadline.addEventListener("abort", onDeadline, { once: true });
    outgoing.signal.addEventListener("abort", onAbort, { once: true });
    try {
      pool.dispatch(
        {
          method: outgoing.method,
          path: outgoing.path,
          headers: outgoing.headers,
          body: outgoing.body ?? null,
        },
        state,
      );
    } catch (error) {
      state.fail(error instanceof Error ? error : new Error(String(error)));
    }
  });
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
  readonly #outgoing: Outgoing;
  readonly #settle: (result: Exchange) => void;

  constructor(outgoing: Outgoing, settle: (result: Exchange) => void) {
    this.#outgoing = outgoing;
    this.#settle = settle;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Settled: it was stopped while it waited for a connection. Crossed: the client is about to send it again.
    if (this.#settled || this.#crossed) return controller.abort(new Error("must not be sent"));
    this.#controller = controller;
    try {
      this.#outgoing.crossing?.();
      this.#crossed = true;
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
    if (this.#bytes > maxResponseBytes) return this.stop(`the answer exceeds ${maxResponseBytes} bytes`);
    this.#chunks.push(chunk);
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
    });
  }
}
