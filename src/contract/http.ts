// HTTP requests of adapters whose effect must be known: an error before the first byte proves that nothing was sent, after
// it the outcome is unknown. It uses Node's own client, which exposes that instant.

import { Agent, type IncomingHttpHeaders, type IncomingMessage, request as plain } from "node:http";
import { request as encrypted, Agent as TlsAgent } from "node:https";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Aborts the request with an error. */
  readonly signal: AbortSignal;
  /** Awaited when a connection is available, immediately before the first byte is sent. If it rejects, the
   *  request fails unsent. */
  readonly crossing?: (() => Promise<void>) | undefined;
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
  exchange({ url, method, headers, body, signal, crossing }: ExchangeRequest): Promise<ExchangeAnswer> {
    return new Promise((resolve, reject) => {
      const safe = url.protocol === "https:";
      const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
      const out = (safe ? encrypted : plain)(url, {
        method,
        headers: { ...headers, ...length },
        signal,
        agent: this.#agents[safe ? "https:" : "http:"],
      });
      // Without keepAlive Node's agent still hands the connection of a finished request to one that waits, when their
      // number is limited and the peer does not object. This request says `connection: close` and closes it.
      if (this.#once) out.shouldKeepAlive = false;
      out.once("error", reject);
      out.once("response", (response) => void readAnswer(response).then(resolve, reject));
      // A request that failed meanwhile is destroyed: `end` then sends nothing.
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

function whenOpen(socket: Socket, safe: boolean, then: () => void): void {
  const opening =
    socket.connecting || (safe && (socket as TLSSocket & { secureConnecting?: boolean }).secureConnecting);
  if (opening) socket.once(safe ? "secureConnect" : "connect", then);
  else then();
}

/** Listens to events: iterating over a response costs several times as much. */
function readAnswer(response: IncomingMessage): Promise<ExchangeAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    response.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxAnswerBytes) response.destroy(new Error("reading an answer: it is too large"));
      else chunks.push(chunk);
    });
    response.once("error", reject);
    response.once("close", () => reject(new Error("reading an answer: it ended early")));
    response.once("end", () => {
      const body = Buffer.concat(chunks).toString();
      const { statusCode: status = 0, headers } = response;
      resolve({ status, headers, body, json: parsedJson(body) });
    });
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

/** Returns Retry-After of a response in milliseconds, at most one hour; null without one. Dates are ignored. */
export function retryAfterOf({ headers }: Pick<ExchangeAnswer, "headers">): number | null {
  const value = headers["retry-after"]?.trim() ?? "";
  const seconds = value === "" ? Number.NaN : Number(value);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 3600) * 1000 : null;
}
