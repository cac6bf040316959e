// The frames of one socket that its adapter has not read yet: bounded, in order.

import type { WebSocket } from "ws";

type Frame = string | Uint8Array;

/** How many bytes and frames wait for the adapter before reading pauses. */
export interface UnreadBounds {
  readonly unreadBytes: number;
  readonly unreadFrames: number;
}

/** Above the bounds the connection is not read on, so the sender has to wait. */
export function unread(ws: WebSocket, { unreadBytes, unreadFrames }: UnreadBounds) {
  let frames: { readonly frame: Frame; readonly size: number }[] = [];
  let size = 0;
  let ended = false;
  let pauses = 0;
  const readers: ((result: IteratorResult<Frame, undefined>) => void)[] = [];
  const relax = (): void => {
    if (ws.isPaused && frames.length <= unreadFrames / 2 && size <= unreadBytes / 2) ws.resume();
  };
  return {
    /** How often reading was paused so far, the present pause included. */
    paused: () => ({ now: ws.isPaused, times: pauses }),
    push(frame: Frame, bytes: number): void {
      if (ended) return;
      const reader = readers.shift();
      if (reader) return reader({ done: false, value: frame });
      frames.push({ frame, size: bytes });
      size += bytes;
      if (!ws.isPaused && (frames.length >= unreadFrames || size >= unreadBytes)) {
        pauses += 1;
        ws.pause();
      }
    },
    next(): Promise<IteratorResult<Frame, undefined>> {
      const first = frames.shift();
      if (first) {
        size -= first.size;
        if (!ended) relax();
        return Promise.resolve({ done: false, value: first.frame });
      }
      if (ended) return Promise.resolve({ done: true, value: undefined });
      return new Promise((resolve) => readers.push(resolve));
    },
    /** Nothing is added any more; what is there may still be read. */
    end(): void {
      ended = true;
      for (const reader of readers.splice(0)) reader({ done: true, value: undefined });
      // The peer's answer to our close must be read, whoever lagged.
      if (ws.isPaused) ws.resume();
    },
    drop(): void {
      frames = [];
      size = 0;
    },
  };
}
