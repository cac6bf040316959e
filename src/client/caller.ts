// Performs one operation under a key: rate limit, headers, deadline, retries, and parsing of the response.

import type { Clock } from "bridgehead/contract";
import PQueue from "p-queue";
// Imports only the pool: all of undici would take a third of an idle daemon's own memory.
import Pool from "undici/lib/dispatcher/pool.js";
import { once } from "../wire/record.ts";
import { exchange } from "./exchange.ts";
import { type Content, interpret } from "./interpret.ts";
import { type AnyLine, addressOf } from "./line.ts";
import { ListSplitter } from "./list-splitter.ts";
import type { CallOptions, ClientOptions } from "./options.ts";
import type { ListReader, Reader } from "./reading.ts";
import { type CallResult, stopped } from "./result.ts";
import { tryUpTo } from "./tries.ts";

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

/** One call of an operation. */
interface Request<T> {
  /** Values for the parameters in braces of the path. */
  readonly names?: { readonly [name: string]: string };
  readonly query?: { readonly [name: string]: string | number | undefined } | undefined;
  readonly body?: object | undefined;
  readonly form?: Form;
  readonly answer: Content<T>;
}
/** A body that is not JSON. */
interface Form {
  readonly type: string;
  readonly bytes: Uint8Array;
}

export interface Caller {
  readonly call: <T>(
    line: AnyLine,
    request: Request<T>,
    options: CallOptions | undefined,
  ) => Promise<CallResult<T>>;
  /** The response is JSON, parsed by `reader`. Each dropped field is reported once. */
  readonly json: <T>(reader: Reader<T>) => Content<T>;
  /** The response is a JSON list in the first of the named fields. Its items are parsed one at a time. */
  readonly list: <T>(names: readonly string[], reader: ListReader<T>) => Content<T>;
  /** Changes the maximum number of concurrent requests; further requests are queued. */
  setConnections(count: number): void;
  close(): Promise<void>;
}

/** Creates a caller. Opens no connection before the first call. Throws when `url` is not an address. */
export function createCaller(
  options: ClientOptions & { readonly url: string; readonly clock: Clock },
): Caller {
  const { clock, rate } = options;
  const base = new URL(options.url);
  const prefix = base.pathname.replace(/\/+$/, "");
  const connectionWaitMs = options.connectionWaitMs ?? 10_000;
  const most = options.tries ?? 3;
  const poolOf = (size: number) =>
    new Pool(base.origin, {
      connections: size,
      // One request per connection: a connection error would fail all requests that share the connection.
      allowH2: false,
      connect: { timeout: connectionWaitMs },
      // Disabled: `exchange` has its own deadline for the whole response.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  const size = options.connections ?? defaultConnections;
  const connections = { pool: poolOf(size), queue: new PQueue({ concurrency: size }) };
  const retired = new Set<Pool>();
  const dropped = once(options.dropped ?? (() => {}));
  const headersOf = headersUnder(options);

  async function send<T>(
    { method, mayBeMissing }: AnyLine,
    { answer }: Request<T>,
    sent: { readonly path: string; readonly headers: Headers; readonly body?: string | Uint8Array },
    { signal = never, crossing, timeoutMs = options.timeoutMs }: CallOptions,
  ): Promise<CallResult<T>> {
    if (rate && !(await rate.turn(signal))) return { kind: "deferred", reason: stopped };
    const splitter = answer.form === "list" ? new ListSplitter(...answer.names) : undefined;
    const result = await exchange(connections, {
      method,
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
    async call(line, request, given = {}) {
      const path = addressOf(line.path, request.names, request.query);
      if (path === null) return { kind: "refused", status: 400, reason: "the path's id is empty or dots" };
      const type = request.form?.type ?? (request.body ? "application/json" : undefined);
      const headers = headersOf(line.key, type);
      if (!headers) return { kind: "unauthorized", reason: `no ${line.key} key was given` };
      const body = request.form?.bytes ?? (request.body ? JSON.stringify(request.body) : undefined);
      const sent = { path: prefix + path, headers, ...(body === undefined ? {} : { body }) };
      // A caller that records crossings decides itself whether to retry.
      if (most <= 1 || given.crossing) return send(line, request, sent, given);
      let crossed = false;
      const watched = { ...given, crossing: () => void (crossed = true) };
      const about = { reads: line.method === "GET", crossed: () => crossed };
      const attempt = () => send(line, request, sent, watched);
      return tryUpTo(most, attempt, about, clock, given.signal ?? never);
    },
    setConnections(count) {
      if (count === connections.queue.concurrency) return;
      const former = connections.pool;
      connections.pool = poolOf(count);
      connections.queue.concurrency = count;
      retired.add(former);
      void former.close().finally(() => retired.delete(former)); // its requests in progress complete first
    },
    async close() {
      await Promise.all([connections.pool, ...retired].map((pool) => pool.destroy()));
    },
  };
}

type Headers = { readonly [name: string]: string };

/** Returns the headers of a request for the credential that it needs (External API 5) and the type of
 *  its body. Undefined when that credential is not configured. */
function headersUnder(options: ClientOptions) {
  const headers = (name: string, key: string | undefined) =>
    key ? { [name]: key, accept: "application/json" } : undefined;
  const plain = {
    agent: headers("agent-secret-key", options.agentKey),
    organization: headers("organization-secret-key", options.organizationKey),
  };
  return (key: "agent" | "organization", type: string | undefined): Headers | undefined => {
    const without = plain[key];
    return without && type ? { ...without, "content-type": type } : without;
  };
}
