// The time between a question and its answer: fillers, each another than the one before, and in the end giving up.

import type { Clock } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { Speaker } from "./speaking.ts";

export interface WaitingParts {
  readonly clock: Clock;
  readonly config: Pick<VoiceConfig, "fillers" | "give_up">;
  readonly speaker: Speaker;
  readonly fillers: () => readonly string[];
  /** No answer came in time. */
  readonly giveUp: () => Promise<void>;
  readonly failed: (error: unknown) => void;
}

export interface Waiting {
  /** A question is under way; a former one is forgotten. */
  begin(): void;
  /** The answer is here, or nobody wants it any more. */
  end(): void;
}

export function waiting(parts: WaitingParts): Waiting {
  let current: AbortController | null = null;
  // Goes on over the questions of a call, so that no two waits sound the same.
  let said = 0;
  const filler = () => {
    const all = parts.fillers();
    return all[said++ % all.length] ?? "";
  };
  const end = () => {
    current?.abort("over");
    current = null;
  };
  return {
    begin() {
      end();
      current = new AbortController();
      wait(parts, filler, current.signal).catch(parts.failed);
    },
    end,
  };
}

async function wait(parts: WaitingParts, filler: () => string, signal: AbortSignal): Promise<void> {
  const { clock, speaker } = parts;
  const { first, second, every } = parts.config.fillers;
  const limit = parts.config.give_up.after;
  const began = clock.monotonic();
  const passed = () => clock.monotonic() - began;
  for (let due = first; ; due = due < second ? second : due + every) {
    await clock.sleep(Math.max(0, Math.min(due, limit) - passed()), signal);
    if (signal.aborted) return;
    if (passed() >= limit) return parts.giveUp();
    // The cycle stays open: the answer follows in it and never breaks into the middle of a filler.
    if (!speaker.busy) await speaker.say(filler(), false);
  }
}
