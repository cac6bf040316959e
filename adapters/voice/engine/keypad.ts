// Keys pressed in a call. They may be a card's number: nothing here is ever logged.

import type { Clock } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";

export interface KeypadParts {
  readonly clock: Clock;
  readonly config: Pick<VoiceConfig, "digits">;
  /** Whether the key for a human means anything. */
  readonly canHandOver: boolean;
  readonly human: () => Promise<void>;
  /** A whole row of keys, without the `#` that ended it. */
  readonly entered: (keys: string) => Promise<void>;
  readonly failed: (error: unknown) => void;
}

export interface Keypad {
  press(keys: string): void;
  /** Forgets what was pressed and not entered. */
  rest(): void;
}

const longest = 64;

/** A row ends with `#` or a pause. The key for a human counts when it is the whole row, so that numbers may contain it; where no
 *  rows are wanted it counts at once. */
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
