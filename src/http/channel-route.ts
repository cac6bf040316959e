// Serves one webhook: finds the channel's route, limits the body, and passes a request with the public URL
// to the handler, independent of the Host header. It works on node's own request and response, because
// webhooks are the hot path of the listener. The usual members of the `Request` are read from what was received; a complete
// one with its streams and signals, most of the cost of a webhook, is made only when a handler uses another member.

import type { IncomingMessage, ServerResponse } from "node:http";
import { type ChannelId, channelId, type HttpRoute, type Log, type Route } from "bridgehead/contract";

const standardBodyBytes = 64 * 1024;

export interface RouteOptions {
  readonly publicUrl: string;
  readonly log: Log;
  readonly largeBodies: LargeBodies;
  routes(channel: ChannelId): readonly Route[] | null;
}

/** The memory for what exceeds `standardBodyBytes` in the bodies that are being received, in bytes. They are shared by all
 *  requests: a signature covers the whole body, so a request is not authenticated before it is complete. */
export interface LargeBodies {
  readonly most: number;
  taken: number;
}

/** The beginning of a path, for the log: anyone can send a long one. Without what follows the second segment behind a channel,
 *  and without the token of an escalation link: both may grant access. */
export const shownPath = (path: string): string =>
  path.slice(0, 200).replace(/^(\/escalations\/|\/channels\/[^/]*\/[^/]*\/).+/s, "$1...");

/** The target of a request under /channels/; null for every other one. */
export function channelTarget({ url = "" }: IncomingMessage): URL | null {
  if (!url.startsWith("/channels/") && !/^https?:/i.test(url)) return null;
  const target = URL.parse(url, "http://x");
  return target?.pathname.startsWith("/channels/") ? target : null;
}

/** Returns the response to a request under /channels/<id>/: 404, 405 and 413 of its own, or that of the
 *  handler; a handler that throws yields 503, and so does a body without memory for it. Never rejects. */
export async function serveRoute(
  incoming: IncomingMessage,
  { pathname, search }: Pick<URL, "pathname" | "search">,
  options: RouteOptions,
): Promise<Response> {
  const { publicUrl, log } = options;
  const [, , id = "", ...rest] = pathname.split("/");
  const path = `/${rest.join("/")}`;
  const candidates = (options.routes(channelId(id)) ?? []).filter(
    (route) => route.path === path && route.kind === "http",
  ) as HttpRoute[];
  if (candidates.length === 0) return plain(404, "not found");
  const { method = "", rawHeaders } = incoming;
  const route = candidates.find((one) => one.method === method);
  if (route === undefined) {
    return plain(405, "method not allowed", { allow: candidates.map((one) => one.method).join(", ") });
  }
  try {
    const body = await bodyOf(incoming, route.maxBodyBytes ?? standardBodyBytes, options.largeBodies);
    if (body === "too large") return plain(413, body, { connection: "close" });
    if (body === "no memory") return plain(503, "unavailable", { connection: "close", "retry-after": "10" });
    const url = `${publicUrl.replace(/\/$/, "")}${pathname}${search}`;
    const signal = () => goneSignal(incoming);
    const response = await route.handle(inboundRequest({ url, method, rawHeaders, body, signal }));
    // An adapter without types may return nothing.
    const { status, headers } = Object(response) as Partial<Response>;
    if (typeof status !== "number" || typeof headers?.getSetCookie !== "function")
      throw new Error("handle of the adapter returned no Response");
    return response;
  } catch (error) {
    // A client that disconnected within its body gets no response, and its request had no effect.
    if (incoming.destroyed && !incoming.complete) return plain(400, "incomplete");
    log.error({ channel: id, path, err: error }, "webhook failed");
    return plain(503, "unavailable", { "retry-after": "10" });
  }
}

/** Reads the whole body, as long as it is within the limit and there is memory for it. Rejects when the client disconnects. */
function bodyOf(
  incoming: IncomingMessage,
  limit: number,
  large: LargeBodies,
): Promise<Uint8Array<ArrayBuffer> | "too large" | "no memory"> {
  if (Number(incoming.headers["content-length"] ?? 0) > limit) return Promise.resolve("too large");
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let taken = 0;
    const receive = (chunk: Buffer) => {
      size += chunk.byteLength;
      const more = Math.max(0, size - standardBodyBytes) - taken;
      if (size <= limit && large.taken + more <= large.most) {
        chunks.push(chunk);
        taken += more;
        large.taken += more;
        return;
      }
      release();
      chunks.length = 0;
      incoming.pause();
      resolve(size > limit ? "too large" : "no memory");
    };
    // Node.js emits no "close" for a request that was answered before the end of its body.
    const release = () => {
      incoming.off("data", receive);
      large.taken -= taken;
      taken = 0;
    };
    incoming.on("data", receive);
    incoming.once("end", () => {
      release();
      resolve(new Uint8Array(Buffer.concat(chunks)));
    });
    incoming.once("error", reject);
    incoming.once("close", () => {
      release();
      reject(new Error("reading a webhook: the client disconnected"));
    });
  });
}

/** Aborts when the client disconnects before the response is complete. */
function goneSignal(incoming: IncomingMessage): AbortSignal {
  const gone = new AbortController();
  if (incoming.socket.destroyed) gone.abort();
  else incoming.socket.once("close", () => gone.abort());
  return gone.signal;
}

/** In bytes: more than the largest attachment. */
const longestResponse = 32 * 1024 * 1024;

/** Reads a body, until its client has gone. Null as soon as it exceeds the limit. */
async function collect(
  body: AsyncIterable<Uint8Array>,
  limit: number,
  client?: ServerResponse,
): Promise<Buffer<ArrayBuffer> | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.byteLength;
    if (size > limit) return null;
    if (client?.destroyed) break;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Writes the response, whole and with its length. */
export async function writeResponse(outgoing: ServerResponse, response: Response): Promise<void> {
  for (const [name, value] of response.headers)
    outgoing.setHeader(name, name === "set-cookie" ? response.headers.getSetCookie() : value);
  const body = response.body === null ? undefined : await collect(response.body, longestResponse, outgoing);
  // A stream without an end would fill the memory.
  if (body === null) throw new Error(`the body of a response has more than ${longestResponse} bytes`);
  if (body !== undefined) outgoing.setHeader("content-length", body.byteLength);
  outgoing.writeHead(response.status, response.statusText || undefined).end(body);
}

export interface Received {
  /** The public URL of the request. */
  readonly url: string;
  readonly method: string;
  /** Names and values in turn, as `IncomingMessage.rawHeaders`. */
  readonly rawHeaders: readonly string[];
  readonly body: Uint8Array<ArrayBuffer>;
  /** Called at the first use of the request's signal. Returns a signal that aborts when the client disconnects. */
  readonly signal: () => AbortSignal;
}

/** Returns the request. Its body can be read once, like that of any `Request`. Throws a TypeError at the
 *  first use when a header is malformed. */
export function inboundRequest(received: Received): Request {
  return new InboundRequest(received) as unknown as Request;
}

/** The members that webhooks use. All others are those of the complete request. */
class InboundRequest {
  readonly #received: Received;
  #headers: Headers | undefined;
  #complete: Request | undefined;
  #used = false;

  constructor(received: Received) {
    this.#received = received;
  }

  get url(): string {
    return this.#received.url;
  }

  get method(): string {
    return this.#received.method;
  }

  get headers(): Headers {
    return (this.#headers ??= headersOf(this.#received.rawHeaders));
  }

  get bodyUsed(): boolean {
    return this.#complete?.bodyUsed ?? this.#used;
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#take().slice().buffer;
  }

  async text(): Promise<string> {
    return decoder.decode(this.#take());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }

  /** Returns the body, once. */
  #take(): Uint8Array<ArrayBuffer> {
    if (this.bodyUsed || this.#complete?.body?.locked) throw new TypeError("the body was read already");
    this.#used = true;
    return this.#received.body;
  }

  complete(): Request {
    if (this.#complete) return this.#complete;
    const { url, method, body, signal } = this.#received;
    const hasBody = method !== "GET" && method !== "HEAD";
    this.#complete = new Request(url, {
      method,
      headers: this.headers,
      signal: signal(),
      ...(hasBody ? { body } : {}),
    });
    // It rejects a second reading like any request.
    if (this.#used && hasBody) void this.#complete.arrayBuffer();
    return this.#complete;
  }
}

const decoder = new TextDecoder();

/** Delegates the members of `Request` that are not declared above. Hono's server exchanges the global class for a class
 *  derived from it, so all prototypes are looked at. */
for (let from: object = Request.prototype; from !== Object.prototype; from = Object.getPrototypeOf(from)) {
  for (const [name, { value: method }] of Object.entries(Object.getOwnPropertyDescriptors(from))) {
    if (name === "constructor" || Object.hasOwn(InboundRequest.prototype, name)) continue;
    Object.defineProperty(InboundRequest.prototype, name, {
      configurable: true,
      get(this: InboundRequest) {
        const complete = this.complete();
        const value = Reflect.get(complete, name) as unknown;
        return typeof method === "function" ? (value as () => unknown).bind(complete) : value;
      },
    });
  }
}
// `instanceof Request` holds for it.
Object.setPrototypeOf(InboundRequest.prototype, Request.prototype);

function headersOf(raw: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < raw.length; at += 2) headers.append(raw[at] ?? "", raw[at + 1] ?? "");
  return headers;
}

/** Returns the whole body, or null as soon as it exceeds the limit. */
export async function readBody(request: Request, limit: number): Promise<Uint8Array<ArrayBuffer> | null> {
  if (Number(request.headers.get("content-length") ?? 0) > limit) return null;
  if (request.body === null) return new Uint8Array();
  const body = await collect(request.body as AsyncIterable<Uint8Array>, limit);
  return body && new Uint8Array(body);
}

/** True for the error of a request whose client has disconnected within its body, so that no response can reach it. */
export const isClientGone = (error: Error): boolean =>
  error.message === "aborted" && (error as NodeJS.ErrnoException).code === "ECONNRESET";

/** Creates a response with one line of text. */
export const plain = (status: number, text: string, headers: Record<string, string> = {}): Response =>
  new Response(`${text}\n`, { status, headers: { "content-type": "text/plain; charset=utf-8", ...headers } });
