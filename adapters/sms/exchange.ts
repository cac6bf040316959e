// One HTTP exchange with a provider's interface. Node's own client is used because it shows the instant before the first
// byte of the request: an error up to there is certain, one after it is not.

import { Agent, type IncomingHttpHeaders, type IncomingMessage, request as plain } from "node:http";
import { request as encrypted, Agent as TlsAgent } from "node:https";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Ends the exchange with an error. */
  readonly signal: AbortSignal;
  /** Called when the line stands and the first byte is about to leave; what it throws ends the exchange unsent. */
  readonly crossing?: (() => void) | undefined;
}

export interface ExchangeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Lines {
  /** Resolves with any status; rejects when there is no whole answer. Redirects are answers like any other. */
  exchange(request: ExchangeRequest): Promise<ExchangeAnswer>;
  /** Ends idle lines. */
  close(): void;
}

/** A line that idled longer may be closed by the other side just as we write, and that would be an unknown outcome. */
const idleMs = 4000;
const maxAnswerBytes = 8_000_000;

/** Lines to one provider, kept for the next exchange. Opens nothing by itself. `ca`: PEM text of a private authority. */
export function createLines(
  options: { readonly ca?: string | undefined; readonly most?: number } = {},
): Lines {
  const kept = { keepAlive: true, timeout: idleMs, maxSockets: options.most ?? 20 };
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
          whenOpen(socket, safe, () => {
            try {
              request.crossing?.();
              out.end(body);
            } catch (error) {
              out.destroy(error instanceof Error ? error : new Error(String(error)));
            }
          }),
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
