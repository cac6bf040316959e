// Bounded queue of the frames of one socket that its adapter has not read yet.

import type { WebSocket } from "ws";

type Frame = string | Uint8Array;

/** Limits of queued bytes and frames before reading pauses. */
export interface UnreadBounds {
  readonly unreadBytes: number;
  readonly unreadFrames: number;
}

/** Applies back-pressure: above the limits the connection is not read, so the sender has to wait. */
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
    /** Number of pauses so far, including the current one. */
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
    /** Stops accepting frames. Queued frames can still be read. */
    end(): void {
      ended = true;
      for (const reader of readers.splice(0)) reader({ done: true, value: undefined });
      // Resumes reading, because the peer's close frame must be read in any case.
      if (ws.isPaused) ws.resume();
    },
    drop(): void {
      frames = [];
      size = 0;
    },
  };
}
