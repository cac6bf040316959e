// One HTTP exchange with a provider's interface, by Node's own client: it shows the instant before the first byte of the
// request. An error up to there is certain, one after it is not.

import { type IncomingMessage, request as plain } from "node:http";
import { request as encrypted } from "node:https";

export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  /** user:password */
  readonly login: string;
  readonly form?: URLSearchParams;
  readonly signal: AbortSignal;
  /** Called when the line stands and the first byte is about to leave; what it throws ends the exchange unsent. */
  readonly crossing?: () => void;
}

export interface ExchangeAnswer {
  readonly status: number;
  /** Seconds, as the answer said. */
  readonly retryAfter: number | null;
  /** JSON, or null when it was none. */
  readonly body: unknown;
}

const timeoutMs = 30_000;
const largest = 4_000_000;

/** Resolves with any status; rejects when there is no whole answer. Redirects are answers like any other. */
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
    // A line of its own for each: one that idled may be closed just as we write, which would be an unknown outcome.
    const out = (safe ? encrypted : plain)(url, {
      method,
      headers,
      agent: false,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    out.once("error", reject);
    out.once("response", (response) => void readAnswer(response).then(resolve, reject));
    out.once("socket", (socket) =>
      socket.once(safe ? "secureConnect" : "connect", () => {
        try {
          crossing?.();
          out.end(body);
        } catch (error) {
          out.destroy(error instanceof Error ? error : new Error(String(error)));
        }
      }),
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
    return null; // something before the interface answered; the status says what there is to know
  }
}
