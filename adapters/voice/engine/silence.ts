// Handles a silent caller: asks `silence.asks` times whether the caller is there, then ends the call.

import type { Clock } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { Speaker } from "./speaking.ts";

export interface SilenceParts {
  readonly clock: Clock;
  readonly config: Pick<VoiceConfig, "silence">;
  readonly speaker: Speaker;
  /** Returns the phrase for the first, second ... question. */
  readonly question: (asked: number) => string;
  /** Returns true after a goodbye: a silent caller is then not asked. */
  readonly over: () => boolean;
  /** Ends the call: the caller did not respond, or the conversation is over. */
  readonly leave: () => Promise<void>;
  readonly failed: (error: unknown) => void;
}

export interface Silence {
  /** Starts the timer; it runs from the end of our speech. */
  watch(): void;
  /** Cancels the timer. */
  rest(): void;
  /** Resets the counter, because the caller was active. */
  heard(): void;
  /** Handles a silence event from the provider. */
  noticed(): Promise<void>;
}

export function silence(parts: SilenceParts): Silence {
  const { clock, config, speaker } = parts;
  let asked = 0;
  let current: AbortController | null = null;

  const rest = () => {
    current?.abort("over");
    current = null;
  };
  const ask = async () => {
    if (parts.over() || asked >= config.silence.asks) return parts.leave();
    await speaker.say(parts.question(asked++), true);
  };
  const look = async (signal: AbortSignal) => {
    for (;;) {
      await speaker.finished(signal);
      await clock.sleep(config.silence.after, signal);
      if (signal.aborted) return;
      if (speaker.busy) continue; // new speech started during the wait
      const last = parts.over() || asked >= config.silence.asks;
      await ask();
      if (last) return;
    }
  };
  return {
    watch() {
      rest();
      current = new AbortController();
      look(current.signal).catch(parts.failed);
    },
    rest,
    heard() {
      asked = 0;
    },
    noticed: ask,
  };
}
