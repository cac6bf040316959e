// Shared by all routes: the authenticated caller, request parsing, and error responses in the format of the API.

import type { HttpBindings } from "@hono/node-server";
import type { Clock } from "bridgehead/contract";
import type { Context, MiddlewareHandler } from "hono";
import * as z from "zod";
import {
  badRequest,
  type Failure,
  type FailureDetail,
  forbidden,
  notFound,
  pageOf,
  pageQuery,
  tooLarge,
  tooManyRequests,
} from "../../wire/record.ts";
import type { AgentDefinition } from "../agents/definition.ts";
import type { Roster } from "../agents/roster.ts";
import { savedAs } from "../files/message-files.ts";
import type { ListPage } from "../store/lists.ts";

/** The authenticated caller, set by the gate: the agent of an agent's key, or all agents of an organization's key. */
type AuthenticatedCaller = { agent: AgentDefinition; agents: readonly AgentDefinition[]; key: string };
/** `base` is the public URL of the platform without a trailing slash; returned URLs start with it. */
export type RouteEnv = { Bindings: HttpBindings; Variables: AuthenticatedCaller & { base: string } };
export type RouteContext = Context<RouteEnv>;

export function fail(c: Context, failure: Failure, headers: { [name: string]: string } = {}): Response {
  return c.json(failure, failure.status as 400, headers);
}

/** Maximum number of details in an error response; a body can contain thousands of errors. */
const detailsAtMost = 20;

/** Thrown by a route to answer with an error response. */
export class RequestRefused extends Error {
  readonly failure: Failure;
  readonly headers: { readonly [name: string]: string };

  constructor(failure: Failure, headers: { readonly [name: string]: string } = {}) {
    super(failure.message);
    this.failure = failure;
    this.headers = headers;
  }
}

/** The 400 response with these details. */
export const refused = (details: readonly FailureDetail[]): RequestRefused => new RequestRefused(badRequest(details));

/** Throws the 400 response when there are problems. */
export function refuseAny(problems: readonly FailureDetail[]): void {
  if (problems.length > 0) throw refused(problems);
}

/** Maximum size of an uploaded file. */
export const maxFileBytes = 20 * 1024 * 1024;

/** Answers with the bytes of a file. Their type keeps a browser from rendering it as a page of this origin. */
export const download = (c: Context, name: string, bytes: Uint8Array): Response =>
  c.body(new Uint8Array(bytes), 200, {
    "content-type": "application/octet-stream",
    "content-disposition": savedAs(name),
    "x-content-type-options": "nosniff",
  });

/** Returns the value, or throws the 404 response when it is missing. */
export function found<T>(value: T | undefined): T {
  if (value === undefined) throw new RequestRefused(notFound);
  return value;
}

/** Parses the JSON body with `schema`, or throws the 400 response with all errors. An empty body counts as `{}`. */
export async function readBody<S extends z.ZodType>(c: RouteContext, schema: S): Promise<z.output<S>> {
  const encoding = c.req.header("content-encoding") ?? "identity";
  if (encoding.toLowerCase() !== "identity") throw unreadable("a body is read as it is, without a content-encoding");
  return check(schema, readJson(new Uint8Array(await c.req.arrayBuffer())));
}

const unreadable = (message: string): RequestRefused => refused([{ path: "", message }]);

/** Returns the request's query parameters by `schema`, or throws the 400 response. */
export const readQuery = <S extends z.ZodType>(c: RouteContext, schema: S): z.output<S> => check(schema, c.req.query());

/** Query parameters of lists that have one order. */
export const listQuery = pageQuery.extend({ orderBy: z.enum(["createdAt"]).default("createdAt") });

type ListRequest = Pick<z.output<typeof pageQuery>, "page" | "pageSize" | "orderDirection">;

/** Answers with the page of a list that the query selects. */
export function listPage<Row>(
  c: RouteContext,
  { page, pageSize, orderDirection }: ListRequest,
  read: (direction: "ASC" | "DESC", limit: number, offset: number) => ListPage<Row>,
  shown: (row: Row) => unknown,
): Response {
  const { rows, total } = read(orderDirection, pageSize, (page - 1) * pageSize);
  return c.json(pageOf(rows.map(shown), page, pageSize, total));
}

function check<S extends z.ZodType>(schema: S, input: unknown): z.output<S> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const { issues } = result.error;
  const details = issues.slice(0, detailsAtMost).map(({ path, message }) => ({ path: path.join("."), message }));
  const more = issues.length - details.length;
  throw refused(more === 0 ? details : [...details, { path: "", message: `and ${more} more` }]);
}

// Parses a body's bytes as JSON (RFC 8259): UTF-8, with or without a byte order mark.

/** Maximum nesting depth. A deeper value could be parsed, but serializing it would exhaust the stack. */
const deepest = 100;
/** Maximum number of values. Reporting a problem with each of a million values would delay all other requests. */
const mostValues = 20_000;

const surrogate = /\\u[dD][89a-fA-F]/;

/** An empty body is `{}`. Lone surrogates, which only an escape can write, become U+FFFD, because no
 *  database stores them. */
function readJson(bytes: Uint8Array): unknown {
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes) || "{}";
  } catch {
    throw unreadable("not UTF-8");
  }
  try {
    value = JSON.parse(text);
  } catch {
    throw unreadable("not JSON");
  }
  const reason = excessOf(value);
  if (reason !== null) throw unreadable(reason);
  const wellFormed = (_key: string, part: unknown) => (typeof part === "string" ? part.toWellFormed() : part);
  return surrogate.test(text) ? JSON.parse(text, wellFormed) : value;
}

/** Iterates by level, because recursion over a too deep value would exhaust the stack. */
function excessOf(value: unknown): string | null {
  let level = [value];
  let count = 0;
  for (let depth = 0; depth <= deepest; depth += 1) {
    count += level.length;
    if (count > mostValues) return "too many values";
    level = level.flatMap((each) => (each !== null && typeof each === "object" ? Object.values(each) : []));
    if (level.length === 0) return null;
  }
  return "nested too deeply";
}

// Limits the size of request bodies.

/** Responds 413 to larger bodies: immediately if Content-Length exceeds the limit, otherwise as soon as
 *  the body does. */
export function bounded(maxBytes: number): MiddlewareHandler {
  return async (c, next) => {
    const announced = c.req.header("content-length");
    if (announced !== undefined) return Number(announced) > maxBytes ? fail(c, tooLarge) : next();
    if (c.req.header("transfer-encoding") === undefined || !c.req.raw.body) return next();
    const body = await collect(c.req.raw.body, maxBytes);
    if (body === null) return fail(c, tooLarge);
    c.req.raw = new Request(c.req.raw, { method: c.req.method, body });
    return next();
  };
}

async function collect(stream: ReadableStream<Uint8Array>, maxBytes: number): Promise<Buffer<ArrayBuffer> | null> {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return Buffer.concat(chunks);
    size += value.length;
    if (size > maxBytes) break;
    chunks.push(value);
  }
  // Drains the rest of the body; otherwise the client would not read the response.
  reader.releaseLock();
  void stream.pipeTo(new WritableStream()).catch(() => undefined);
  return null;
}

// Middleware for every operation: authenticates the key and enforces the organization's rate limit.

/** Operations with an agent in their path require the organization's key (External API 4.2, rule 3). */
const ofOrganization = /^\/external\/agents\/(?!webhooks\/)[^/]+\/(users|platform-users)$/;

/** A request with an invalid key consumes no rate, because it belongs to no organization. */
export function gate(roster: Roster, limiter: Limiter, clock: Clock): MiddlewareHandler<RouteEnv> {
  /** Returns the id of the organization; null when the key is invalid here. */
  function caller(c: Context<RouteEnv>): string | null {
    const organizations = ofOrganization.test(c.req.path);
    const key = c.req.header(organizations ? "organization-secret-key" : "agent-secret-key");
    if (!key) return null;
    const agent = organizations ? undefined : roster.byKey(key);
    const own = organizations ? roster.ofOrganizationKey(key) : [];
    const [first] = agent ? [agent] : own;
    if (!first) return null;
    if (agent) c.set("agent", agent);
    c.set("agents", own);
    c.set("key", key);
    return first.organization.id;
  }

  return async (c, next) => {
    const organization = caller(c);
    if (organization === null) return fail(c, forbidden);
    const admission = limiter.admit(organization, clock.monotonic());
    if (!admission.admitted) {
      const seconds = Math.max(1, Math.ceil(admission.waitMs / 1000));
      return fail(c, tooManyRequests, { "retry-after": String(seconds) });
    }
    return next();
  };
}

// Rate limiter with a sliding log, exact at any instant. A fixed window admits twice the limit across its boundary.

export interface RequestRate {
  readonly requests: number;
  readonly perSeconds: number;
}

/** Admits at most `requests` per key in any interval of `perSeconds`, both ends included. */
export class Limiter {
  readonly #requests: number;
  readonly #windowMs: number;
  /** Ring buffer of the last `requests` admissions per key. The next slot to write holds the oldest time. */
  readonly #logs = new Map<string, { times: Float64Array; next: number }>();

  constructor({ requests, perSeconds }: RequestRate) {
    this.#requests = requests;
    this.#windowMs = perSeconds * 1000;
  }

  /** Admits a request at `now` (monotonic milliseconds), or returns the milliseconds until the next free slot. */
  admit(key: string, now: number): { readonly admitted: true } | { readonly admitted: false; readonly waitMs: number } {
    let log = this.#logs.get(key);
    if (!log) this.#logs.set(key, (log = { times: new Float64Array(this.#requests).fill(-Infinity), next: 0 }));
    const oldest = log.times[log.next] ?? -Infinity;
    const waitMs = oldest + this.#windowMs - now;
    if (waitMs >= 0) return { admitted: false, waitMs };
    log.times[log.next] = now;
    log.next = (log.next + 1) % this.#requests;
    return { admitted: true };
  }
}
