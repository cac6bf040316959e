// An in-memory socket: the one that the core passes to `serve`, with its remote end controlled by a test.

import type { Socket, SocketRoute } from "../routes.ts";
import { attempt } from "./patience.ts";

export type Frame = string | Uint8Array;

export interface TestSocket {
  /** The socket to pass to `serve`. */
  readonly socket: Socket;
  /** The frames that the adapter sent, in order. */
  readonly sent: readonly Frame[];
  /** The close code and reason, from either side (1006 for a lost connection). Null while the socket is open. */
  readonly closed: { readonly code: number; readonly reason: string } | null;
  /** Sends one frame from the remote end. Ignored after the close. */
  say(frame: Frame): void;
  /** Closes the socket from the remote end. The default 1006 is a lost connection without a close frame. */
  cut(code?: number): void;
  /** Signals that the daemon is shutting down. */
  drain(): void;
}

/** Creates an open socket. It never blocks: `send` resolves at once, or rejects when the socket is closed. */
export function testSocket(): TestSocket {
  const gone = new AbortController();
  const draining = new AbortController();
  const sent: Frame[] = [];
  const unread: Frame[] = [];
  const readers: ((result: IteratorResult<Frame, undefined>) => void)[] = [];
  let closed: TestSocket["closed"] = null;
  const end = (code: number, reason: string) => {
    if (closed) return;
    closed = { code, reason };
    for (const reader of readers.splice(0)) reader({ done: true, value: undefined });
    gone.abort();
  };
  const next = (): Promise<IteratorResult<Frame, undefined>> => {
    const frame = unread.shift();
    if (frame !== undefined) return Promise.resolve({ done: false, value: frame });
    if (closed) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => readers.push(resolve));
  };
  return {
    socket: {
      signal: gone.signal,
      draining: draining.signal,
      async send(data) {
        if (closed) throw new Error("sending: the socket is closed");
        sent.push(data);
      },
      close(code = 1000, reason = "") {
        unread.length = 0;
        end(code, reason);
      },
      [Symbol.asyncIterator]: () => ({ next }),
    },
    sent,
    get closed() {
      return closed;
    },
    say(frame) {
      if (closed) return;
      const reader = readers.shift();
      if (reader) reader({ done: false, value: frame });
      else unread.push(frame);
    },
    cut: (code = 1006) => end(code, ""),
    drain: () => draining.abort(),
  };
}

export interface Serving extends TestSocket {
  /** Resolves when `serve` has returned and the socket is closed, with the thrown error or null. */
  readonly done: Promise<{ readonly error: unknown } | null>;
}

/** Serves a new socket with `route`, and closes it like the core: 1000 when `serve` returns, 1011 when it throws. */
export function serveTest(route: SocketRoute, request: Request): Serving {
  const far = testSocket();
  const done = attempt(() => route.serve(far.socket, request)).then(
    () => {
      far.socket.close(1000);
      return null;
    },
    (error: unknown) => {
      far.socket.close(1011);
      return { error };
    },
  );
  return Object.defineProperties({ done } as Serving, Object.getOwnPropertyDescriptors(far));
}
