// The platform's HTTP server: how much time and room a client has, and the interface's own error form for what is refused
// before any operation sees it.

import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import type { Clock } from "bridgehead/contract";
import { badRequest, type Failure, internalError, notFound } from "../wire/failure.ts";

/** Milliseconds and counts that keep a slow or endless client from holding the server. */
export interface ServerLimits {
  /** Until the last header has arrived. */
  readonly headersMs: number;
  /** Until the whole request has arrived. */
  readonly requestMs: number;
  readonly connections: number;
}

/** A document of the largest size arrives in time over 1.5 Mbit/s. */
const standard: ServerLimits = { headersMs: 10_000, requestMs: 120_000, connections: 2_000 };

/** How long what a client still sends is thrown away after it was answered early. */
const lingerMs = 2_000;

type Fetch = (request: Request, env: HttpBindings) => Response | Promise<Response>;
type Exchange = { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse };

/** A server that does not listen yet. */
export function createHttpServer(fetch: Fetch, clock: Clock, given: Partial<ServerLimits> = {}): Server {
  const limits = { ...standard, ...given };
  const newest = new WeakMap<Duplex, Exchange>();
  const serve = getRequestListener(
    async (request, env) => {
      const response = await fetch(request, env as HttpBindings);
      // What is left of the request stands where the next one would begin.
      if (!(env as HttpBindings).incoming.complete) response.headers.set("connection", "close");
      return response;
    },
    {
      errorHandler: (error) => {
        // An address or a Host that is none.
        const failure =
          error instanceof Error && error.name === "RequestError" ? refusal(400) : internalError;
        return Response.json(failure, { status: failure.status });
      },
    },
  );
  const server = createServer(
    {
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      // Longer than clients keep theirs: a connection that ends as the next request leaves makes its outcome unknown.
      keepAliveTimeout: 65_000,
      // Without one it is refused like any other that is none, in our own form.
      requireHostHeader: false,
      connectionsCheckingInterval: Math.min(1_000, limits.headersMs),
    },
    (incoming, outgoing) => {
      newest.set(incoming.socket, { incoming, outgoing });
      void serve(incoming, outgoing);
    },
  );
  server.maxConnections = limits.connections;
  server.on("connection", (socket: Socket) =>
    closeGently(socket, clock, () => newest.get(socket)?.incoming.complete === false),
  );
  server.on("checkExpectation", (_incoming, outgoing: ServerResponse) => {
    const body = JSON.stringify(refusal(417));
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    outgoing.writeHead(417, { ...headers, connection: "close" }).end(body);
  });
  server.on("connect", (_incoming, socket: Duplex) => say(socket, notFound));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
    const last = newest.get(socket);
    // It was answered before all of it was there: a second answer would be taken for the next request's.
    const answered = last?.incoming.complete === false && last.outgoing.headersSent;
    if (answered || !socket.writable) socket.destroy();
    else say(socket, refusal(statuses[error.code ?? ""] ?? 400));
  });
  return server;
}

/** What Node calls the ends of a client's patience or room; everything else is not HTTP. */
const statuses: { readonly [code: string]: number } = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  HPE_HEADER_OVERFLOW: 431,
};

function refusal(status: number): Failure {
  const message = STATUS_CODES[status]?.toLowerCase() ?? "bad request";
  return { ...badRequest([{ path: "", message }]), status };
}

/** Answers on a connection that has no exchange, and ends it. */
function say(socket: Duplex, failure: Failure): void {
  const body = JSON.stringify(failure);
  const head = [
    `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status] ?? ""}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}

/** Closing while something arrives resets the connection, and the client may lose the answer before it has read it. So
 *  our side is ended first, and theirs read on for a while. */
function closeGently(socket: Socket, clock: Clock, isArriving: () => boolean): void {
  const close = socket.destroySoon.bind(socket);
  let lingering = false;
  socket.destroySoon = () => {
    if (lingering) return;
    if (!isArriving()) return close();
    lingering = true;
    socket.end();
    const closed = new AbortController();
    socket.once("close", () => closed.abort());
    void clock.sleep(lingerMs, closed.signal).then(() => socket.destroy());
  };
}
