// The platform's HTTP server. It enforces timeouts and size limits, and uses the interface's error format
// for requests that are refused before they reach an operation.

import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import type { Clock } from "bridgehead/contract";
import { badRequest, type Failure, internalError, notFound } from "../wire/record.ts";

/** Limits in milliseconds and counts that protect the server from slow or endless requests. */
export interface ServerLimits {
  /** Timeout until the last header has arrived. */
  readonly headersMs: number;
  /** Timeout until the whole request has arrived. */
  readonly requestMs: number;
  readonly connections: number;
}

/** A document of the maximum size arrives before the timeout over 1.5 Mbit/s. */
const standard: ServerLimits = { headersMs: 10_000, requestMs: 120_000, connections: 2_000 };

/** Milliseconds for which further input is read and discarded after an early response. */
const lingerMs = 2_000;

type RequestHandler = (request: Request, env: HttpBindings) => Response | Promise<Response>;
type SocketExchange = { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse };

/** Creates a server that is not listening yet. */
export function createHttpServer(fetch: RequestHandler, clock: Clock, given: Partial<ServerLimits> = {}): Server {
  const limits = { ...standard, ...given };
  const newest = new WeakMap<Duplex, SocketExchange>();
  const serve = getRequestListener(
    async (request, env) => {
      const response = await fetch(request, env as HttpBindings);
      // The rest of the request would otherwise be read as the next request.
      if (!(env as HttpBindings).incoming.complete) response.headers.set("connection", "close");
      return response;
    },
    {
      errorHandler: (error) => {
        // The URL or the Host header is invalid.
        const failure = error instanceof Error && error.name === "RequestError" ? refusal(400) : internalError;
        return Response.json(failure, { status: failure.status });
      },
    },
  );
  const server = createServer(
    {
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      // Longer than the keep-alive timeout of clients. If the server closed a connection while the next
      // request is sent, its outcome would be unknown.
      keepAliveTimeout: 65_000,
      // A request without Host is refused like one with an invalid Host, in the platform's own error format.
      requireHostHeader: false,
      connectionsCheckingInterval: Math.min(1_000, limits.headersMs),
    },
    (incoming, outgoing) => {
      newest.set(incoming.socket, { incoming, outgoing });
      // HTTP/1.0, as in the checks of load balancers, needs none.
      if (incoming.httpVersion === "1.0") incoming.headers.host ??= "localhost";
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
  server.on("connect", (_incoming, socket: Duplex) => respond(socket, notFound));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Duplex) => {
    const last = newest.get(socket);
    // The response was sent before the request was complete. The client would take a second response for
    // that of its next request.
    const answered = last?.incoming.complete === false && last.outgoing.headersSent;
    if (answered || !socket.writable) socket.destroy();
    else respond(socket, refusal(statuses[error.code ?? ""] ?? 400));
  });
  return server;
}

/** Node's error codes for timeouts and exceeded limits. Any other code means that the input is not HTTP. */
const statuses: { readonly [code: string]: number } = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  HPE_HEADER_OVERFLOW: 431,
};

function refusal(status: number): Failure {
  const message = STATUS_CODES[status]?.toLowerCase() ?? "bad request";
  return { ...badRequest([{ path: "", message }]), status };
}

/** Sends a response on a connection without an exchange, and closes it. */
function respond(socket: Duplex, failure: Failure): void {
  const body = JSON.stringify(failure);
  const head = [
    `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status] ?? ""}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`, () => socket.destroy());
}

/** Closes a connection that is still receiving. An immediate close would reset it, and the client may lose the response
 *  before it has read it. The sending side is therefore ended first, and input is read for a while. */
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
