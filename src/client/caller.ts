// Performs one operation under a key: rate limit, headers, deadline, retries, and parsing of the response. Contains the
// single mapping of status codes, connection errors and unreadable bodies.

import type { Clock } from "bridgehead/contract";
import PQueue from "p-queue";
import Pool from "undici/lib/dispatcher/pool.js";
import { requestLines } from "../wire/operations/requests.ts";
import {
  type Failure,
  failureDetails,
  failureReason,
  modelUnavailable,
  notFound,
  once,
  type Reading,
} from "../wire/record.ts";
import { type CallResult, type Connections, type Exchange, exchange, stopped } from "./exchange.ts";
import type { OperationId } from "./operations.ts";
import type { CallOptions, ClientOptions } from "./options.ts";
import { tryUpTo } from "./rate.ts";
import { type BodyReader, type ListReader, ListSplitter, type SplitList } from "./reading.ts";

// Imports only the pool: all of undici would take a third of an idle daemon's own memory.

/** Maximum size of a JSON response in bytes. No response of the interface comes near it. */
const maxJsonBytes = 10 * 1024 * 1024;
/** Maximum size in bytes of a list whose items are parsed one at a time. It is larger because platforms
 *  without paging send the complete list. */
const maxListBytes = 64 * 1024 * 1024;
/** Maximum size of a document in bytes. */
const maxDocumentBytes = 256 * 1024 * 1024;
const maxBytes = {
  json: maxJsonBytes,
  nothing: maxJsonBytes,
  list: maxListBytes,
  bytes: maxDocumentBytes,
};

const defaultConnections = 128;

const never = new AbortController().signal;

type Method = (typeof requestLines)[OperationId][0];

/** One call of an operation. */
interface Request<T> {
  /** Values for the parameters in braces of the path. */
  readonly names?: { readonly [name: string]: string };
  readonly query?: { readonly [name: string]: string | number | undefined } | undefined;
  readonly body?: object | undefined;
  readonly form?: FormBody;
  readonly answer: BodyContent<T>;
}
/** A body that is not JSON. */
interface FormBody {
  readonly type: string;
  readonly bytes: Uint8Array;
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
  close(): Promise<void>;
}

/** The connections to one origin. */
class OriginConnections implements Connections {
  pool: Pool;
  readonly queue: PQueue;
  readonly #origin: string;
  readonly #waitMs: number;
  readonly #retired = new Set<Pool>();

  constructor(origin: string, size: number, waitMs: number) {
    this.#origin = origin;
    this.#waitMs = waitMs;
    this.pool = this.#poolOf(size);
    this.queue = new PQueue({ concurrency: size });
  }

  /** Changes the maximum number of concurrent requests. Requests in progress complete first. */
  resize(size: number): void {
    if (size === this.queue.concurrency) return;
    const former = this.pool;
    this.pool = this.#poolOf(size);
    this.queue.concurrency = size;
    this.#retired.add(former);
    void former.close().finally(() => this.#retired.delete(former));
  }

  async close(): Promise<void> {
    await Promise.all([this.pool, ...this.#retired].map((pool) => pool.destroy()));
  }

  #poolOf(connections: number): Pool {
    return new Pool(this.#origin, {
      connections,
      // One request per connection: a connection error would fail all requests that share the connection.
      allowH2: false,
      connect: { timeout: this.#waitMs },
      // Disabled: `exchange` has its own deadline for the whole response.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }
}

/** Creates a caller. Opens no connection before the first call. Throws when `url` is not an address. */
export function createCaller(
  options: ClientOptions & { readonly url: string; readonly clock: Clock },
): OperationCaller {
  const { clock, rate } = options;
  const base = new URL(options.url);
  const prefix = base.pathname.replace(/\/+$/, "");
  const connectionWaitMs = options.connectionWaitMs ?? 10_000;
  const most = options.tries ?? 3;
  const size = options.connections ?? defaultConnections;
  const connections = new OriginConnections(base.origin, size, connectionWaitMs);
  const dropped = once(options.dropped ?? (() => {}));
  const headersOf = headersUnder(options);

  async function send<T>(
    mayBeMissing: boolean,
    { answer }: Request<T>,
    sent: {
      readonly method: Method;
      readonly path: string;
      readonly headers: RequestHeaders;
      readonly body?: string | Uint8Array;
    },
    { signal = never, crossing, timeoutMs = options.timeoutMs }: CallOptions,
  ): Promise<CallResult<T>> {
    if (rate && !(await rate.turn(signal))) return { kind: "deferred", reason: stopped };
    const splitter = answer.form === "list" ? new ListSplitter(...answer.names) : undefined;
    const result = await exchange(connections, {
      ...sent,
      signal,
      connectionWaitMs,
      timeoutMs,
      maxResponseBytes: maxBytes[answer.form],
      ...(splitter ? { sink: splitter } : {}),
      ...(crossing ? { crossing } : {}),
    });
    const meaning = interpret(result, { now: clock.now(), mayBeMissing, answer, splitter });
    if (rate && meaning.kind === "deferred" && meaning.limited) rate.pause(meaning.retryAfterMs ?? 1000);
    return meaning;
  }

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
      // A caller that records crossings decides itself whether to retry.
      if (most <= 1 || given.crossing) return send(mayBeMissing, request, sent, given);
      let crossed = false;
      const watched = { ...given, crossing: () => void (crossed = true) };
      const about = { reads: method === "GET", crossed: () => crossed };
      const attempt = () => send(mayBeMissing, request, sent, watched);
      return tryUpTo(most, attempt, about, clock, given.signal ?? never);
    },
    setConnections: (count) => connections.resize(count),
    close: () => connections.close(),
  };
}

type RequestHeaders = { readonly [name: string]: string };

/** Returns the headers of a request for the credential that it needs (External API 5) and the type of
 *  its body. Undefined when that credential is not configured. */
function headersUnder(options: ClientOptions) {
  const headers = (name: string, key: string | undefined) =>
    key ? { [name]: key, accept: "application/json" } : undefined;
  const plain = {
    agent: headers("agent-secret-key", options.agentKey),
    organization: headers("organization-secret-key", options.organizationKey),
  };
  return (key: "agent" | "organization", type: string | undefined): RequestHeaders | undefined => {
    const without = plain[key];
    return without && type ? { ...without, "content-type": type } : without;
  };
}

type QueryParameters = { readonly [name: string]: string | number | undefined };

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

/** Maximum delay in milliseconds that a Retry-After header can impose before the next attempt. */
const maxRetryAfterMs = 15 * 60_000;

/** Status codes of a proxy, or of a platform during a deployment. They are temporary, and do not concern
 *  the request. */
const passing = new Set([405, 407, 408, 421, 425]);

interface Expectation<T> {
  /** Wall-clock milliseconds, for a Retry-After given as a date. */
  readonly now: number;
  /** The request names an object that may not exist. */
  readonly mayBeMissing: boolean;
  readonly answer: BodyContent<T>;
  /** Set for content of the form `list`. */
  readonly splitter?: ListSplitter | undefined;
}

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

type Answered = Exchange & { kind: "answered" };

/** Interprets the exchange for the caller. Every reason is one short line without addresses or telephone
 *  numbers. */
function interpret<T>(result: Exchange, expected: Expectation<T>): CallResult<T> {
  const meaning = result.kind === "failed" ? interpretSilence(result) : interpretAnswer(result, expected);
  return meaning.kind === "ok" ? meaning : { ...meaning, reason: brief(meaning.reason) };
}

function interpretSilence({ crossed, reason }: Exchange & { kind: "failed" }): CallResult<never> {
  return { kind: crossed ? "unknown" : "deferred", reason };
}

function interpretAnswer<T>(result: Answered, expected: Expectation<T>): CallResult<T> {
  const { status } = result;
  if (status >= 200 && status < 300) return interpretSuccess(result, expected);
  const failure = parseJson(result.body);
  const said = failureReason(discreetly(failure));
  const reason = said ? `HTTP ${status}: ${said}` : `HTTP ${status}`;
  if (status === 401 || status === 403) return { kind: "unauthorized", reason };
  if (status === 404) {
    // A proxy in front of the platform also answers 404, for paths that it does not know at the moment.
    const kind = expected.mayBeMissing && isNamed(failure, notFound) ? "missing" : "deferred";
    return { kind, reason };
  }
  if (status === 429)
    return { kind: "deferred", reason, limited: true, ...retryAfter(result.retryAfter, expected.now) };
  if (status === 503 && isNamed(failure, modelUnavailable))
    return { kind: "deferred", reason, ...retryAfter(result.retryAfter, expected.now) };
  if (status >= 500) return { kind: "unknown", reason };
  if (status < 400 || passing.has(status)) return { kind: "deferred", reason };
  const details = failureDetails(failure);
  return { kind: "refused", status, reason, ...(details ? { details } : {}) };
}

/** The platform has performed the operation. When the response cannot be parsed, only a later read can
 *  determine its effect. */
function interpretSuccess<T>(result: Answered, { answer, splitter }: Expectation<T>): CallResult<T> {
  if (answer.form === "nothing") return { kind: "ok", value: answer.value };
  if (result.broken !== undefined)
    return {
      kind: "unknown",
      reason: `HTTP ${result.status}, answer cut off: ${result.broken}`,
      ...(result.tooLarge ? { tooLarge: true } : {}),
    };
  if (answer.form === "bytes") return { kind: "ok", value: answer.read(result.body) };
  const body = answer.form === "list" ? (splitter?.end() ?? undefined) : parseJson(result.body);
  if (body === undefined) return { kind: "unknown", reason: `HTTP ${result.status}, answer is not JSON` };
  const reading = answer.form === "list" ? answer.read(body as SplitList) : answer.read(body);
  if (!reading.ok)
    return {
      kind: "unknown",
      reason: `HTTP ${result.status}, answer unreadable: ${reading.reason}`,
    };
  return { kind: "ok", value: reading.value };
}

/** Returns undefined when the body is not JSON; JSON itself has no undefined. */
function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** Returns the fields of an error body with personal data removed from each. */
function discreetly(failure: unknown): unknown {
  if (typeof failure !== "object" || failure === null) return failure;
  const fields = Object.entries(failure).map(([name, value]) => [
    name,
    typeof value === "string" ? discreet(value) : value,
  ]);
  return Object.fromEntries(fields);
}

/** Recognizes the interface's own 404 (External API 7). */
function isNamed(failure: unknown, known: Failure): boolean {
  return (failure as { name?: unknown } | null | undefined)?.name === known.name;
}

/** Parses Retry-After (RFC 9110 section 10.2.3): seconds or a date. Other values and past dates are
 *  ignored; too large values are capped. */
function retryAfter(header: string | undefined, now: number): { retryAfterMs?: number } {
  const text = header?.trim();
  if (!text) return {};
  const ms = Math.round(/^[-+]?\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now);
  return ms > 0 ? { retryAfterMs: Math.min(ms, maxRetryAfterMs) } : {};
}

const longest = 200;
/** Characters that are searched for personal data before the cut, so that the cut leaves no partial
 *  address. */
const looked = 1000;

/** Returns the text as one line of limited length. */
function brief(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .slice(0, longest)
    .trim();
}

/** Removes addresses and telephone numbers from a text of the platform, also when they are part of a
 *  URL. In doubt it removes more. */
function discreet(text: string): string {
  return text
    .slice(0, looked)
    .replace(/<?[^\s<>@]*(?:@|%40)[^\s<>]*>?/gi, "<address>")
    .replace(/(?:\+|%2B)?\(?\d(?:[\s()./-]{0,3}\d){6,}/gi, "<number>");
}
