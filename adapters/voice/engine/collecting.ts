// What the caller says, put together: utterances in quick succession are one message.

import type { Clock } from "bridgehead/contract";

export interface CollectingParts {
  readonly clock: Clock;
  /** How long is waited for more, in milliseconds. */
  readonly wait: number;
  /** One message of the caller. */
  readonly said: (text: string) => Promise<void>;
  readonly failed: (error: unknown) => void;
}

export interface Collecting {
  /** Something was said that was not handed on yet. */
  readonly pending: boolean;
  /** An utterance, cleaned. False when there is nothing in it. */
  add(text: string): boolean;
  /** Hands on at once what there is. */
  flush(): Promise<void>;
}

/** A caller's message is at most this long, in characters. */
const longest = 2048;
/** A window may be prolonged, but not for ever: this many times its length. */
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
