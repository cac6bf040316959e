// Performs one operation under a key: rate limit, headers, deadline, retries, one HTTP exchange over undici's dispatch
// interface, and parsing of the response. Only that interface reports the moment before the first byte is written. A
// request that fails earlier certainly had no effect.

import type { Readable } from "node:stream";
import type { Clock } from "bridgehead/contract";
import type { Dispatcher, Pool } from "undici";
import { after, systemClock } from "../ops/clock.ts";
import { requestLines } from "../wire/operations/requests.ts";
import { once } from "../wire/record.ts";
import { OriginConnections } from "./connections.ts";
import type { OperationId } from "./operations.ts";
import type { CallOptions, ClientOptions } from "./options.ts";
import { tryUpTo } from "./rate.ts";
import { type BodyContent, type BodyReader, type ListReader, ListSplitter, type SplitList, utf8 } from "./reading.ts";
import { type CallResult, type Exchange, failureOf, type ResponseHeaders, stopped, unreadable } from "./result.ts";

/** Maximum size of a JSON response in bytes. No response of the interface comes near it. */
const maxJsonBytes = 10 * 1024 * 1024;
/** Maximum size in bytes of a list whose items are parsed one at a time. It is larger because platforms
 *  without paging send the complete list. */
const maxListBytes = 64 * 1024 * 1024;
/** Maximum size of a document in bytes. */
const maxDocumentBytes = 256 * 1024 * 1024;
const maxBytes = { json: maxJsonBytes, nothing: maxJsonBytes, list: maxListBytes, bytes: maxDocumentBytes };

const defaultConnections = 128;

const never = new AbortController().signal;

interface Request<T> {
  /** Values for the parameters in braces of the path. */
  readonly names?: { readonly [name: string]: string };
  readonly query?: QueryParameters | undefined;
  readonly body?: object | undefined;
  /** A body that is not JSON. */
  readonly form?: { readonly type: string; readonly bytes: Uint8Array };
  readonly answer: BodyContent<T>;
}

export interface OperationCaller {
  readonly call: <T>(
    operation: OperationId,
    request: Request<T>,
    options: CallOptions | undefined,
  ) => Promise<CallResult<T>>;
  /** The response is JSON, parsed by `reader`. Each dropped field is reported once. */
  readonly json: <T>(reader: BodyReader<T>) => BodyContent<T>;
  /** The response is a JSON list in the first of the named fields. Its items are parsed one at a time. */
  readonly list: <T>(names: readonly string[], reader: ListReader<T>) => BodyContent<T>;
  /** Changes the maximum number of concurrent requests; further requests are queued. */
  setConnections(count: number): void;
  reserve(): (() => void) | null;
  close(): Promise<void>;
}

/** Creates a caller. Opens no connection before the first call. Throws when `url` is not an address. */
export function createCaller(
  options: ClientOptions & { readonly url: string; readonly clock: Clock },
): OperationCaller {
  const base = new URL(options.url);
  const prefix = base.pathname.replace(/\/+$/, "");
  const { clock, connectionWaitMs = 10_000, longestRetryAfterMs = 15 * 60_000, tries: most = 3, pauses } = options;
  const size = options.connections ?? defaultConnections;
  const connections = new OriginConnections(base.origin, size, connectionWaitMs);
  const dropped = once(options.dropped ?? (() => {}));
  const headersOf = headersUnder(options);
  const sender = { ...options, connections, connectionWaitMs, longestRetryAfterMs };
  return {
    json: (reader) => ({ form: "json", read: (body) => reader(body, dropped) }),
    list: (names, reader) => ({ form: "list", names, read: (list) => reader(list, dropped) }),
    async call(operation, request, given = {}) {
      const [method, template, key, mayBeMissing] = requestLines[operation];
      const path = addressOf(template, request.names, request.query);
      if (path === null) return { kind: "refused", status: 400, reason: "the path's id is empty or dots" };
      const type = request.form?.type ?? (request.body ? "application/json" : undefined);
      const headers = headersOf(key, type);
      if (!headers) return { kind: "unauthorized", reason: `no ${key} key was given` };
      const body = request.form?.bytes ?? (request.body ? JSON.stringify(request.body) : undefined);
      const sent = { method, path: prefix + path, headers, ...(body === undefined ? {} : { body }) };
      const about = { mayBeMissing, answer: request.answer };
      // A caller that records crossings decides itself whether to retry.
      if (most <= 1 || given.crossing) return send(sender, sent, about, given);
      let crossed = false;
      const watched = { ...given, crossing: () => void (crossed = true) };
      const attempt = () => send(sender, sent, about, watched);
      const isRead = method === "GET";
      return tryUpTo(most, attempt, { reads: isRead, crossed: () => crossed, pauses }, clock, given.signal ?? never);
    },
    setConnections: (count) => connections.resize(count),
    reserve: () => connections.reserve(),
    close: () => connections.close(),
  };
}

type SendSettings = Pick<ClientOptions, "rate" | "timeoutMs"> &
  Required<Pick<ClientOptions, "connectionWaitMs" | "longestRetryAfterMs">> & {
    readonly clock: Clock;
    readonly connections: OriginConnections;
  };

/** Makes one attempt of a call: waits for the rate limit, sends the request, and interprets the response. */
async function send<T>(
  { rate, clock, connections, connectionWaitMs, longestRetryAfterMs, ...sender }: SendSettings,
  sent: Pick<Outgoing, "method" | "path" | "headers" | "body">,
  { mayBeMissing, answer }: { readonly mayBeMissing: boolean; readonly answer: BodyContent<T> },
  { signal = never, crossing, reserved = false, timeoutMs = sender.timeoutMs }: CallOptions,
): Promise<CallResult<T>> {
  if (rate && !(await rate.turn(signal))) return { kind: "deferred", reason: stopped };
  const splitter = answer.form === "list" ? new ListSplitter(...answer.names) : undefined;
  const result = await exchange(connections, {
    ...sent,
    signal,
    reserved,
    connectionWaitMs,
    timeoutMs,
    maxResponseBytes: maxBytes[answer.form],
    ...(splitter ? { sink: splitter } : {}),
    ...(crossing ? { crossing } : {}),
  });
  if (result.kind === "answered" && result.status >= 200 && result.status < 300)
    return successOf(result, answer, splitter);
  const body = result.kind === "answered" ? parseJson(result.body) : undefined;
  const failure = failureOf(result, { now: clock.now(), mayBeMissing, body, longestRetryAfterMs });
  if (rate && failure.kind === "deferred" && failure.limited) rate.pause(failure.retryAfterMs ?? 1000);
  return failure;
}

/** Parses the response of an operation that the platform has performed. */
function successOf<T>(
  result: Exchange & { readonly kind: "answered" },
  answer: BodyContent<T>,
  splitter: ListSplitter | undefined,
): CallResult<T> {
  if (answer.form === "nothing") return { kind: "ok", value: answer.value };
  if (result.broken !== undefined) return unreadable(result, `cut off: ${result.broken}`);
  if (answer.form === "bytes") return { kind: "ok", value: answer.read(result.body) };
  const body = answer.form === "list" ? (splitter?.end() ?? undefined) : parseJson(result.body);
  if (body === undefined) return unreadable(result, "is not JSON");
  const reading = answer.form === "list" ? answer.read(body as SplitList) : answer.read(body);
  return reading.ok ? { kind: "ok", value: reading.value } : unreadable(result, `unreadable: ${reading.reason}`);
}

/** Returns undefined when the body is not JSON; JSON itself has no undefined. */
function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(utf8.decode(body));
  } catch {
    return undefined;
  }
}

type RequestHeaders = { readonly [name: string]: string };

/** Returns the headers of a request for the credential that it needs (External API 5) and the type of
 *  its body. Undefined when that credential is not configured. */
function headersUnder(options: ClientOptions) {
  // Without the second header a server may compress (RFC 9110, 12.5.3).
  const headers = (name: string, key: string | undefined) =>
    key ? { [name]: key, accept: "application/json", "accept-encoding": "identity" } : undefined;
  const plain = {
    agent: headers("agent-secret-key", options.agentKey),
    organization: headers("organization-secret-key", options.organizationKey),
  };
  return (key: "agent" | "organization", type: string | undefined): RequestHeaders | undefined => {
    const without = plain[key];
    return without && type ? { ...without, "content-type": type } : without;
  };
}

export type QueryParameters = { readonly [name: string]: string | number | undefined };

/** Returns path and query of one request. Null when an id is invalid, because it would change the path. */
function addressOf(
  path: string,
  names: { readonly [name: string]: string } = {},
  query: QueryParameters = {},
): string | null {
  for (const value of Object.values(names)) if (value === "" || value === "." || value === "..") return null;
  const full = path.includes("{")
    ? path.replace(/\{(\w+)\}/g, (_whole, name: string) => encoded(names[name] ?? ""))
    : path;
  let separator = "?";
  let search = "";
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    search += `${separator}${name}=${encoded(String(value))}`;
    separator = "&";
  }
  return full + search;
}

/** A lone surrogate, as in a text cut in the middle of a character, must not throw. */
const encoded = (value: string): string => encodeURIComponent(value.toWellFormed());

interface Outgoing
  extends Required<Pick<CallOptions, "signal" | "reserved" | "timeoutMs">>,
    Required<Pick<ClientOptions, "connectionWaitMs">>,
    Pick<CallOptions, "crossing"> {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Path and query. */
  readonly path: string;
  readonly headers: { readonly [name: string]: string };
  readonly body?: string | Uint8Array;
  /** Maximum size of a response in bytes. Reading stops when it is exceeded. */
  readonly maxResponseBytes: number;
  /** Receives the body of a successful response in chunks, instead of `body`. */
  readonly sink?: { push(chunk: Buffer): void };
}

/** Sends one request and reads the complete response. Never rejects, never sends twice, never follows a redirect. */
async function exchange(connections: OriginConnections, outgoing: Outgoing): Promise<Exchange> {
  const { signal, reserved, connectionWaitMs } = outgoing;
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
  const mayNotBegin = () =>
    reserved || connections.reserved === 0 || state.finished ? null : connections.whileReserved();
  for (let ended = mayNotBegin(); ended !== null; ended = mayNotBegin()) await Promise.race([ended, promise]);
  // A queued request leaves the queue when it is settled; one that starts at once needs no signal for it.
  const waits = queue.size > 0 || queue.pending >= queue.concurrency;
  const queued = waits ? new AbortController() : undefined;
  // Rejects only when the request was settled while it was still queued.
  queue.add(run, queued && { signal: queued.signal }).catch(() => undefined);
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
    queued?.abort(null);
  }
}

function dispatch(pool: Pool, { method, path, headers, body }: Outgoing, state: ExchangeState): void {
  if (state.finished) return;
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
  #finished = false;
  #controller: Dispatcher.DispatchController | undefined;
  #status = 0;
  #headers: ResponseHeaders = {};
  #chunks: Buffer[] = [];
  #bytes = 0;
  #tooLarge = false;
  #deadline = { at: Infinity, reason: "" };
  /** End of the timer, which may be before the deadline; both in monotonic milliseconds. */
  #timerAt = Infinity;
  #lift: (() => void) | undefined;
  readonly #outgoing: Outgoing;
  readonly #complete: (result: Exchange) => void;

  constructor(outgoing: Outgoing, complete: (result: Exchange) => void) {
    this.#outgoing = outgoing;
    this.#complete = complete;
  }

  get finished(): boolean {
    return this.#finished;
  }

  /** Sets a timeout of `ms` from now. Replaces the previous timeout. A timer that ends earlier stays and continues with the
   *  rest, so most requests need a single one. */
  limit(ms: number, reason: string): void {
    this.#deadline = { at: systemClock.monotonic() + ms, reason };
    if (this.#deadline.at < this.#timerAt) this.#startTimer();
  }

  #startTimer(): void {
    this.#lift?.();
    const { at, reason } = this.#deadline;
    const left = at - systemClock.monotonic();
    if (left <= 0) return this.stop(reason);
    this.#timerAt = at;
    // A timer may end up to a millisecond early.
    this.#lift = after(Math.ceil(left), () => this.#startTimer());
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Settled: the request was stopped while it waited for a connection. Crossed: undici is about to send it again.
    if (this.#finished || this.#crossed) return controller.abort(new Error("must not be sent"));
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
    if (this.#finished) throw new Error("must not be sent");
    this.#cross();
    yield bytes;
  }

  /** Marks the request as possibly effective. The response timeout starts now, independent of the wait
   *  for a connection. */
  #cross(): void {
    this.#crossed = true;
    this.limit(this.#outgoing.timeoutMs, `no answer within ${this.#outgoing.timeoutMs} ms`);
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
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
    this.#finish(code === undefined || error.message.includes(code) ? error.message : `${code} ${error.message}`);
  }

  /** Cancels the request: settles now, and aborts the request or prevents its start. */
  stop(reason: string): void {
    const controller = this.#controller;
    this.#finish(reason);
    controller?.abort(new Error(reason));
  }

  /** Once the status was received the result is a response, even if the body is incomplete. */
  #finish(broken?: string): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#lift?.();
    if (this.#status === 0) {
      const reason = broken ?? "the connection ended without an answer";
      return this.#complete({ kind: "failed", crossed: this.#crossed, reason });
    }
    const body = Buffer.concat(this.#chunks);
    this.#complete({
      kind: "answered",
      status: this.#status,
      headers: this.#headers,
      body,
      ...(broken === undefined ? {} : { broken }),
      ...(this.#tooLarge ? { tooLarge: true } : {}),
    });
  }
}
