// One HTTP request to a provider's API through Node's own client, which exposes the moment before the first byte is
// sent. An error before that moment means "not sent"; after it the outcome is unknown.

import { type IncomingMessage, request as plain } from "node:http";
import { request as encrypted } from "node:https";

export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  /** `user:password` for Basic authentication. */
  readonly login: string;
  readonly form?: URLSearchParams;
  readonly signal: AbortSignal;
  /** Awaited when the connection is established, before the first byte is sent. If it rejects, the request fails
   *  unsent. */
  readonly crossing?: () => Promise<void>;
}

export interface ExchangeAnswer {
  readonly status: number;
  /** Retry-After of the response, in seconds. */
  readonly retryAfter: number | null;
  /** The parsed JSON body, or null when the body is not JSON. */
  readonly body: unknown;
}

const timeoutMs = 30_000;
const largest = 4_000_000;

/** Resolves with any status; redirects are returned and not followed. Rejects when no complete response arrives. */
export function exchange({
  method,
  url,
  login,
  form,
  signal,
  crossing,
}: ExchangeRequest): Promise<ExchangeAnswer> {
  const safe = url.protocol === "https:";
  const body = form?.toString();
  const headers = {
    authorization: `Basic ${Buffer.from(login).toString("base64")}`,
    accept: "application/json",
    ...(body === undefined
      ? {}
      : {
          "content-type": "application/x-www-form-urlencoded",
          "content-length": String(Buffer.byteLength(body)),
        }),
  };
  return new Promise((resolve, reject) => {
    // Each request opens its own connection. An idle connection may close during the write, which would be an unknown
    // outcome.
    const out = (safe ? encrypted : plain)(url, {
      method,
      headers,
      agent: false,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    out.once("error", reject);
    out.once("response", (response) => void readAnswer(response).then(resolve, reject));
    out.once("socket", (socket) =>
      socket.once(
        safe ? "secureConnect" : "connect",
        () =>
          void (crossing?.() ?? Promise.resolve()).then(
            () => out.end(body),
            (error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))),
          ),
      ),
    );
  });
}

async function readAnswer(response: IncomingMessage): Promise<ExchangeAnswer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > largest) throw new Error("reading an answer: it is too large");
    chunks.push(chunk);
  }
  const seconds = Number(response.headers["retry-after"]);
  return {
    status: response.statusCode ?? 0,
    retryAfter: Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 3600) : null,
    body: parsed(Buffer.concat(chunks).toString()),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // a proxy sent this response; the status is sufficient
  }
}
