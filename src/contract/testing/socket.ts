// A socket without a network: what the core would give `serve`, and its far end in the hands of a test.

import type { Socket, SocketRoute } from "../routes.ts";
import { attempt } from "./patience.ts";

export type Frame = string | Uint8Array;

export interface TestSocket {
  /** For `serve`. */
  readonly socket: Socket;
  /** What the adapter sent, in order. */
  readonly sent: readonly Frame[];
  /** How the socket was closed, by whichever side (a cut: 1006); null while it is open. */
  readonly closed: { readonly code: number; readonly reason: string } | null;
  /** The far end sends one frame; nothing after the close. */
  say(frame: Frame): void;
  /** The far end closes, or is gone without a word (1006, the default). */
  cut(code?: number): void;
  /** The daemon is going down. */
  drain(): void;
}

/** Makes an open one. Nothing of it waits: `send` resolves at once, or rejects when the socket is closed. */
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
  /** Resolves when `serve` has ended and the socket is closed: what it threw, or null. */
  readonly done: Promise<{ readonly error: unknown } | null>;
}

/** A fresh socket served by `route`, closed as the core closes it: 1000 when `serve` returns, 1011 when it throws. */
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
