// Routes are data. The core owns port, TLS, limits, body size, access log and drain; it mounts a channel's routes
// under /channels/<id>.

/** `/inbound`; of a socket also `/llm/*` or `/llm/*` + `/*`: each `*` is any one segment that is not empty, found in the
 *  request's URL. An exact path wins over one with `*`. */
export type RoutePath = `/${string}`;
export type Route = HttpRoute | SocketRoute;

export interface HttpRoute {
  readonly kind: "http";
  readonly method: "GET" | "POST";
  readonly path: RoutePath;
  /** A larger body is answered 413 before the handler sees it. Default 64 KiB. */
  readonly maxBodyBytes?: number;
  /** Body unread and raw; a thrown error becomes 503 (the provider tries again). */
  handle(request: Request): Promise<Response>;
}

export interface SocketRoute {
  readonly kind: "socket";
  readonly path: RoutePath;
  /** A larger frame closes the socket with 1009. Default 64 KiB. */
  readonly maxFrameBytes?: number;
  /** The subprotocol this route speaks (`ws.jambonz.org`); a client that does not offer it is refused with 400. */
  readonly protocol?: string;
  /** Before the upgrade; a Response refuses it. The request's URL is the public one, with the scheme `wss` (`ws`
   *  where the public URL is http). */
  authorize(request: Request): Promise<Response | null>;
  /** Lives as long as the socket; a throw closes it with 1011. The core pings, and cuts a socket that does not answer. */
  serve(socket: Socket, request: Request): Promise<void>;
}

/** Iterating ends when the socket does, however it ends. Whoever does not read on slows the sender down. */
export interface Socket extends AsyncIterable<string | Uint8Array> {
  /** Resolves when the bytes have left; rejects when the socket is closed. */
  send(data: string | Uint8Array): Promise<void>;
  close(code?: number, reason?: string): void;
  /** Aborts when the socket is closed. */
  readonly signal: AbortSignal;
  /** Aborts when the daemon is going down: finish what is being said; a close with 1012 follows. */
  readonly draining: AbortSignal;
}
