// Routes are data. The core owns port, TLS, limits, body size, access log and drain; it mounts a channel's routes
// under /channels/<id>.

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
  /** Before the upgrade; a Response refuses it. */
  authorize(request: Request): Promise<Response | null>;
  /** Lives as long as the socket. */
  serve(socket: Socket, request: Request): Promise<void>;
}

export interface Socket extends AsyncIterable<string | Uint8Array> {
  /** Resolves when the bytes have left. */
  send(data: string | Uint8Array): Promise<void>;
  close(code?: number, reason?: string): void;
  readonly signal: AbortSignal;
}
