// Routes are declared as data. The core manages the port, TLS, limits, body size, access log and draining.
// It mounts a channel's routes under /channels/<id>.

/** A path such as `/inbound`. A socket route may also use `/llm/*` or `/llm/*` + `/*`. Each `*` matches one non-empty
 *  segment, which the handler reads from the request's URL. An exact path takes precedence over one with `*`. */
export type RoutePath = `/${string}`;
export type Route = HttpRoute | SocketRoute;

export interface HttpRoute {
  readonly kind: "http";
  readonly method: "GET" | "POST";
  readonly path: RoutePath;
  /** Maximum size of a request body in bytes. The core answers a larger body with 413 without calling
   *  the handler. Default 64 KiB. */
  readonly maxBodyBytes?: number;
  /** Handles a request. The body is raw and not read yet. The response is sent when its body is complete: it
   *  is no stream of events, and has at most 32 MiB. A thrown error becomes a 503 response, and the provider retries. */
  handle(request: Request): Promise<Response>;
}

export interface SocketRoute {
  readonly kind: "socket";
  readonly path: RoutePath;
  /** Maximum size of a frame in bytes. A larger frame closes the socket with 1009. Default 64 KiB. */
  readonly maxFrameBytes?: number;
  /** The subprotocol of this route (`ws.jambonz.org`). A client that does not offer it is refused with 400. */
  readonly protocol?: string;
  /** Called before the upgrade; a returned Response refuses it. The request's URL is the public one,
   *  with the scheme `wss` (`ws` when the public URL is http). */
  authorize(request: Request): Promise<Response | null>;
  /** Serves the socket until it is closed. A throw closes it with 1011. The core sends pings, and closes
   *  a socket that does not respond. */
  serve(socket: Socket, request: Request): Promise<void>;
}

/** An open WebSocket. Iteration ends when the socket closes for any reason. Applies back-pressure: an
 *  unread socket pauses its peer. */
export interface Socket extends AsyncIterable<string | Uint8Array> {
  /** Resolves when the bytes were written; rejects when the socket is closed. */
  send(data: string | Uint8Array): Promise<void>;
  close(code?: number, reason?: string): void;
  /** Aborts when the socket is closed. */
  readonly signal: AbortSignal;
  /** Aborts when the daemon is shutting down: finish the current reply. A close with 1012 follows. */
  readonly draining: AbortSignal;
}
