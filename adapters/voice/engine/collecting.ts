// Debounces the caller's utterances: those in quick succession become one message.

import type { Clock } from "bridgehead/contract";

export interface CollectingParts {
  readonly clock: Clock;
  /** Debounce time in milliseconds. */
  readonly wait: number;
  /** Called with one complete message of the caller. */
  readonly said: (text: string) => Promise<void>;
  readonly failed: (error: unknown) => void;
}

export interface Collecting {
  /** True while the buffer contains utterances. */
  readonly pending: boolean;
  /** Buffers an utterance after normalization. Returns false when it contains no letter or digit. */
  add(text: string): boolean;
  /** Sends the buffered text immediately. */
  flush(): Promise<void>;
}

/** Maximum length of a caller's message, in characters. */
const longest = 2048;
/** Maximum extension of the debounce time, as a multiple of it. */
const prolonged = 4;

export function collecting({ clock, wait, said, failed }: CollectingParts): Collecting {
  let parts: string[] = [];
  let since = 0;
  let timer: AbortController | null = null;

  const flush = async () => {
    timer?.abort("over");
    timer = null;
    const text = parts.join(" ").slice(0, longest);
    parts = [];
    if (text !== "") await said(text);
  };
  const later = async (ms: number, signal: AbortSignal) => {
    await clock.sleep(ms, signal);
    if (!signal.aborted) await flush();
  };
  return {
    get pending() {
      return parts.length > 0;
    },
    add(text) {
      const clean = text
        .replace(/\p{Cc}+/gu, " ")
        .trim()
        .slice(0, longest);
      if (!/[\p{L}\p{N}]/u.test(clean)) return false;
      if (parts.length === 0) since = clock.monotonic();
      parts.push(clean);
      timer?.abort("over");
      timer = null;
      if (wait === 0) {
        flush().catch(failed);
        return true;
      }
      timer = new AbortController();
      const left = since + prolonged * wait - clock.monotonic();
      later(Math.max(0, Math.min(wait, left)), timer.signal).catch(failed);
      return true;
    },
    flush,
  };
}
