// Which line a text goes out over.

import type { Mode, Session } from "./session.ts";

/** The line that receives, while it stands. Where none does (another node has it, or it is being opened), one of their
 *  own, which only sends: what it received nobody would read. */
export interface SendLines {
  /** A line that receives has been bound. */
  offer(line: Session): void;
  /** Rejects when no line can be had, and when the signal aborts. */
  get(signal: AbortSignal): Promise<Session>;
  /** Ends the line of its own. */
  close(signal: AbortSignal): Promise<void>;
}

/** Opens nothing until asked. */
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

  /** One line for all who wait; forgotten when it cannot be opened, and when it ends. */
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
