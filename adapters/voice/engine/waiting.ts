// Waits for the reply to a question: speaks fillers in rotation, and gives up after a timeout.

import type { Clock } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { Speaker } from "./speaking.ts";

export interface WaitingParts {
  readonly clock: Clock;
  readonly config: Pick<VoiceConfig, "fillers" | "give_up">;
  readonly speaker: Speaker;
  readonly fillers: () => readonly string[];
  /** Called when no reply arrives before the timeout. */
  readonly giveUp: () => Promise<void>;
  readonly failed: (error: unknown) => void;
}

export interface Waiting {
  /** Starts the wait for a new question and cancels the previous wait. */
  begin(): void;
  /** Cancels the wait: the reply has arrived, or is no longer needed. */
  end(): void;
}

export function waiting(parts: WaitingParts): Waiting {
  let current: AbortController | null = null;
  // The counter continues over all questions of a call, so that consecutive waits use different fillers.
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
    // The cycle stays open: the reply follows in the same cycle and never interrupts a filler.
    if (!speaker.busy) await speaker.say(filler(), false);
  }
}
