// Performs one HTTP request to a provider's API. It uses Node's own client, which exposes the moment before
// the first byte of the request is sent. An error before that moment proves that nothing was sent; after it
// the outcome is unknown.

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
}

export interface Lines {
  /** Resolves with any status; rejects when the response is incomplete. Redirects are returned like any
   *  other response. */
  exchange(request: ExchangeRequest): Promise<ExchangeAnswer>;
  /** Closes idle connections. */
  close(): void;
}

/** Idle timeout in milliseconds. The server may close a connection that was idle longer just as we
 *  write, which would be an unknown outcome. */
const idleMs = 4000;
const maxAnswerBytes = 8_000_000;
/** Maximum number of connections to one provider. Further requests wait for one. */
export const httpConnections = 32;

/** Keeps connections to one provider for later requests. Opens no connection before the first request.
 *  `ca`: PEM text of a private authority. */
export function createLines(options: { readonly ca?: string | undefined } = {}): Lines {
  const kept = { keepAlive: true, timeout: idleMs, maxSockets: httpConnections };
  const agents = {
    "http:": new Agent(kept),
    "https:": new TlsAgent({ ...kept, ...(options.ca === undefined ? {} : { ca: options.ca }) }),
  };
  return {
    exchange: (request) =>
      new Promise((resolve, reject) => {
        const { url, method, headers, body, signal } = request;
        const safe = url.protocol === "https:";
        const length = body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) };
        const out = (safe ? encrypted : plain)(url, {
          method,
          headers: { ...headers, ...length },
          signal,
          agent: agents[safe ? "https:" : "http:"],
        });
        out.once("error", reject);
        out.once("response", (response) => void readAnswer(response).then(resolve, reject));
        out.once("socket", (socket) =>
          // A request that failed meanwhile is destroyed: `end` then sends nothing.
          whenOpen(
            socket,
            safe,
            () =>
              void (request.crossing?.() ?? Promise.resolve()).then(
                () => out.end(body),
                (error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))),
              ),
          ),
        );
      }),
    close() {
      for (const agent of Object.values(agents)) agent.destroy();
    },
  };
}

function whenOpen(socket: Socket, safe: boolean, then: () => void): void {
  const opening =
    socket.connecting || (safe && (socket as TLSSocket & { secureConnecting?: boolean }).secureConnecting);
  if (opening) socket.once(safe ? "secureConnect" : "connect", then);
  else then();
}

async function readAnswer(response: IncomingMessage): Promise<ExchangeAnswer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxAnswerBytes) throw new Error("reading an answer: it is too large");
    chunks.push(chunk);
  }
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: Buffer.concat(chunks).toString(),
  };
}
