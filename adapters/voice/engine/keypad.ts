// Collects DTMF digits of a call. They may be a card number, so they are never logged.

import type { Clock } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";

export interface KeypadParts {
  readonly clock: Clock;
  readonly config: Pick<VoiceConfig, "digits">;
  /** True when the configured key can transfer the call to a human. */
  readonly canHandOver: boolean;
  readonly human: () => Promise<void>;
  /** Called with a complete sequence, without its final `#`. */
  readonly entered: (keys: string) => Promise<void>;
  readonly failed: (error: unknown) => void;
}

export interface Keypad {
  press(keys: string): void;
  /** Discards digits that were not entered yet. */
  rest(): void;
}

const longest = 64;

/** A sequence ends with `#` or a timeout. The key for a human counts only as the whole sequence, so that numbers may
 *  contain it. When `as_message` is off, that key takes effect immediately. */
export function keypad({ clock, config, canHandOver, human, entered, failed }: KeypadParts): Keypad {
  const settings = config.digits;
  let row = "";
  let pause: AbortController | null = null;

  const rest = () => {
    pause?.abort("over");
    pause = null;
    row = "";
  };
  const isHuman = (keys: string) => canHandOver && settings.human !== "" && keys === settings.human;
  const end = async () => {
    const keys = row;
    rest();
    if (isHuman(keys)) return human();
    if (keys !== "" && settings.as_message) await entered(keys);
  };
  const wait = async (signal: AbortSignal) => {
    await clock.sleep(settings.pause, signal);
    if (!signal.aborted) await end();
  };
  const one = (key: string) => {
    if (key === "#" && !isHuman(key)) return void end().catch(failed);
    if (row.length < longest) row += key;
    if (isHuman(row) && (!settings.as_message || key === "#")) return void end().catch(failed);
    pause?.abort("over");
    pause = new AbortController();
    wait(pause.signal).catch(failed);
  };
  return {
    press(keys) {
      for (const key of keys.replace(/[^0-9*#]/g, "")) one(key);
    },
    rest,
  };
}
