// A caller who says nothing: asked a few times, then the call ends.

import type { Clock } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { Speaker } from "./speaking.ts";

export interface SilenceParts {
  readonly clock: Clock;
  readonly config: Pick<VoiceConfig, "silence">;
  readonly speaker: Speaker;
  /** What is asked the first, second ... time. */
  readonly question: (asked: number) => string;
  /** True when nothing is left to say: then a silent caller is not asked. */
  readonly over: () => boolean;
  /** Nobody is there, or nothing is left to say. */
  readonly leave: () => Promise<void>;
  readonly failed: (error: unknown) => void;
}

export interface Silence {
  /** From now on (when we have finished speaking) it is the caller's turn. */
  watch(): void;
  /** It is not. */
  rest(): void;
  /** The caller gave a sign of life. */
  heard(): void;
  /** The provider measured a silence. */
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
      if (speaker.busy) continue; // something was said meanwhile
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
