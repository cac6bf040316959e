// Selects the connection over which a text is sent.

import type { Mode, Session } from "./session.ts";

/** Returns the receiving connection while it is open. Without one (another node has it, or it is being
 *  opened), it opens a separate connection, which only sends: messages received on it would not be
 *  processed. */
export interface SendLines {
  /** Registers a receiving connection that has been bound. */
  offer(line: Session): void;
  /** Rejects when no connection can be opened, and when the signal aborts. */
  get(signal: AbortSignal): Promise<Session>;
  /** Closes the separate connection. */
  close(signal: AbortSignal): Promise<void>;
}

/** Opens no connection before the first request. */
export function createSendLines(
  open: (mode: Mode, signal: AbortSignal) => Promise<Session>,
  timeoutMs: number,
): SendLines {
  let offered: Session | null = null;
  let own: Promise<Session> | null = null;

  async function close(signal: AbortSignal): Promise<void> {
    const leaving = own;
    own = null;
    await leaving?.then((line) => line.close(signal)).catch(() => undefined);
  }

  /** Opens one connection for all waiting callers. It is dropped when it fails to open, and when it
   *  ends. */
  function opening(): Promise<Session> {
    const line = open("bind_transmitter", AbortSignal.timeout(timeoutMs));
    const forget = () => {
      if (own === line) own = null;
    };
    line.then(({ over }) => over.addEventListener("abort", forget, { once: true }), forget);
    return line;
  }

  return {
    offer(line) {
      offered = line;
      void close(AbortSignal.timeout(timeoutMs));
    },
    async get(signal) {
      if (offered !== null && !offered.over.aborted) return offered;
      own ??= opening();
      return await withSignal(own, signal);
    },
    close,
  };
}

async function withSignal<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const stopped = Promise.withResolvers<never>();
  const stop = () => stopped.reject(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, stopped.promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
