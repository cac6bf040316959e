// HTTP requests of adapters whose effect must be known: an error before the first byte proves that nothing was sent, after
// it the outcome is unknown. It uses Node's own client, which exposes that instant.

import { Agent, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as plain } from "node:http";
import { request as encrypted, Agent as TlsAgent } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import type { TLSSocket } from "node:tls";

export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** A form with files: the bytes of `new Response(form)`, with its `content-type`. */
  readonly body?: string | Uint8Array;
  /** Aborts the request with an error. */
  readonly signal: AbortSignal;
  /** Awaited when a connection is available, immediately before the first byte is sent. If it rejects, the
   *  request fails unsent. */
  readonly crossing?: (() => Promise<void>) | undefined;
  /** Connects to one of these addresses, tried in this order. Default: those that the name in the URL resolves to. */
  readonly addresses?: readonly { readonly address: string; readonly family: 4 | 6 }[];
  /** For requests whose status counts without the body: a body that is longer (in bytes) or incomplete is returned as
   *  an empty text. Default: the request fails when the body is incomplete or has more than 8 MB. */
  readonly bodyAtMost?: number;
}

export interface ExchangeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The parsed body; null when it is no JSON, as the page of a proxy. */
  readonly json: unknown;
}

export interface HttpConnectionOptions {
  /** PEM text of a private authority. */
  readonly ca?: string | undefined;
  /** Maximum number of connections. Further requests wait for one. */
  readonly connections: number;
  /** True: each request opens a connection of its own, so that none can be closed just as the request is written. */
  readonly once?: true;
}

/** Idle timeout in milliseconds. The server may close a connection that was idle longer just as we
 *  write, which would be an unknown outcome. */
const idleMs = 4000;
const maxAnswerBytes = 8_000_000;

/** The connections to one server. Opens none before the first request. */
export class HttpConnections {
  readonly #agents: { readonly "http:": Agent; readonly "https:": TlsAgent };
  readonly #once: boolean;

  constructor({ ca, connections, once }: HttpConnectionOptions) {
    this.#once = once === true;
    const kept = { keepAlive: !this.#once, timeout: idleMs, maxSockets: connections };
    this.#agents = {
      "http:": new Agent(kept),
      "https:": new TlsAgent({ ...kept, ...(ca === undefined ? {} : { ca }) }),
    };
  }

  /** Resolves with any status; rejects when the response is incomplete. Redirects are returned like any other
   *  response. */
  exchange(request: ExchangeRequest): Promise<ExchangeAnswer> {
    const { url, method, headers, body, signal, crossing, addresses, bodyAtMost } = request;
    return new Promise((resolve, reject) => {
      const safe = url.protocol === "https:";
      const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
      const out = (safe ? encrypted : plain)(url, {
        method,
        headers: { ...headers, ...length },
        signal,
        agent: this.#agents[safe ? "https:" : "http:"],
        ...(addresses === undefined ? {} : { lookup: lookupIn(addresses) }),
      });
      // Without keepAlive Node's agent still hands the connection of a finished request to one that waits, when their
      // number is limited and the peer does not object. This request says `connection: close` and closes it.
      if (this.#once) out.shouldKeepAlive = false;
      out.once("error", reject);
      out.once("response", (response) => {
        out.off("error", reject);
        void readAnswer(out, response, bodyAtMost).then(resolve, reject);
      });
      // A request that failed in the meantime is destroyed: `end` then sends nothing.
      const send = () =>
        void (crossing?.() ?? Promise.resolve()).then(
          () => out.end(body),
          (error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))),
        );
      out.once("socket", (socket) => whenOpen(socket, safe, send));
    });
  }

  /** Closes idle connections. */
  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }
}

/** Returns the addresses for every name. */
const lookupIn =
  (addresses: NonNullable<ExchangeRequest["addresses"]>): LookupFunction =>
  (_host, { all }, found) =>
    all ? found(null, [...addresses]) : found(null, addresses[0]?.address ?? "", addresses[0]?.family);

function whenOpen(socket: Socket, safe: boolean, then: () => void): void {
  const opening =
    socket.connecting || (safe && (socket as TLSSocket & { secureConnecting?: boolean }).secureConnecting);
  if (opening) socket.once(safe ? "secureConnect" : "connect", then);
  else then();
}

/** Removes a byte order mark, which `JSON.parse` rejects. */
const utf8 = new TextDecoder();

/** Listens to events: iterating over a response costs several times as much. */
function readAnswer(out: ClientRequest, response: IncomingMessage, bodyAtMost?: number): Promise<ExchangeAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const answer = (body: string) => {
      const { statusCode: status = 0, headers } = response;
      resolve({ status, headers, body, json: parsedJson(body) });
    };
    const fail = (error: Error) => (bodyAtMost === undefined ? reject(error) : answer(""));
    response.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size <= (bodyAtMost ?? maxAnswerBytes)) return chunks.push(chunk);
      fail(new Error("reading an answer: it is too large"));
      return response.destroy();
    });
    out.on("error", fail);
    response.once("error", fail);
    response.once("close", () => fail(new Error("reading an answer: it ended early")));
    response.once("end", () => answer(utf8.decode(Buffer.concat(chunks))));
  });
}

/** Returns the value of a JSON text; null when the text is no JSON, or nested deeper than the parser supports. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Returns by how many milliseconds the clock of the server was ahead of `now` when it responded (RFC 9110, section 6.6.1); 0
 *  for a response without a date. For comparing our times with those that a provider has recorded. */
export function aheadOf({ headers }: Pick<ExchangeAnswer, "headers">, now: number): number {
  const ahead = Date.parse(headers.date ?? "") - now;
  return Number.isNaN(ahead) ? 0 : ahead;
}

/** Returns Retry-After of a response (RFC 9110, section 10.2.3) in milliseconds, at most `longest`; null without a valid
 *  one. A date counts only when `now` is given, and one in the past is 0. */
export function retryAfterOf(
  { headers }: { readonly headers: { readonly "retry-after"?: string | readonly string[] | undefined } },
  { now = Number.NaN, longest = 3_600_000 }: { readonly now?: number; readonly longest?: number } = {},
): number | null {
  const value = [headers["retry-after"]].flat()[0]?.trim() ?? "";
  const ms = Math.round(/^\d+(\.\d+)?$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now);
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 0), longest);
}
