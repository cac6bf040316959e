// Our voice in one call: what was sent to be spoken, and for how long it is going to be heard.

import type { Clock } from "bridgehead/contract";
import type { Command } from "../dialects/dialect.ts";

/** The engine says how fast people speak; the provider may know better. */
export interface SpeakerParts {
  readonly clock: Clock;
  /** Characters in a second. */
  readonly rate: number;
  /** The language of what is said, when the provider has to be told. */
  readonly language: () => string | null;
  readonly write: (command: Command) => Promise<void>;
}

export interface Speaker {
  /** True while something we sent is probably still being spoken. */
  readonly busy: boolean;
  /** True while the last piece is probably being spoken, or nothing is. */
  readonly inLastPiece: boolean;
  /** How many pieces have left so far. */
  readonly left: number;
  /** Sends a piece. With `last` the talk cycle is closed, else the next piece goes on in it. */
  say(text: string, last: boolean): Promise<void>;
  /** Sends pieces in one cycle, ending at once when the caller interrupts. */
  speak(pieces: readonly string[]): Promise<"whole" | "cut">;
  /** Closes a cycle that is still open, so that its words do not wait for more. */
  close(): Promise<void>;
  /** Somebody else (the start's greeting) is saying this. */
  assume(text: string): void;
  /** The caller cut us short. */
  interrupted(): Promise<void>;
  /** The provider says that we are heard, or no longer. */
  playback(speaking: boolean): void;
  /** Resolves when all that was said has been spoken, or the signal aborts. */
  finished(signal: AbortSignal): Promise<void>;
}

/** Speech synthesis begins a moment after the text came. */
const leadMs = 300;
/** By so much the estimate of the end may be wrong. */
const estimateMs = 1000;
/** A provider that says "speaking" is believed for twice the time we reckon, and this. */
const doubtMs = 5000;

export function speaker({ clock, rate, language, write }: SpeakerParts): Speaker {
  let endsAt = 0;
  let believedUntil = 0;
  let speaking = false;
  let open = false;
  /** How long the last piece takes, in milliseconds. */
  let lastMs = 0;
  let cuts = 0;
  let left = 0;
  let changed = new AbortController();

  const moved = () => {
    changed.abort("over"); // with a reason, as everywhere in a call: without one an error with a stack is made each time
    changed = new AbortController();
  };
  const lengthen = (text: string) => {
    const now = clock.monotonic();
    const lasts = (text.length / rate) * 1000;
    lastMs = lasts;
    endsAt = Math.max(now + leadMs, endsAt) + lasts;
    believedUntil = Math.max(now, believedUntil) + 2 * lasts + doubtMs;
    moved();
  };
  const remaining = () => {
    const now = clock.monotonic();
    return (speaking && now < believedUntil ? believedUntil : endsAt) - now;
  };
  const say = async (text: string, last: boolean) => {
    open = !last;
    lengthen(text);
    await write({ kind: "say", text: last ? text : `${text} `, last, language: language() });
    left++;
  };
  const close = async () => {
    if (!open) return;
    open = false;
    await write({ kind: "say", text: "", last: true, language: language() });
  };

  return {
    get busy() {
      return remaining() > 0;
    },
    get inLastPiece() {
      return endsAt - clock.monotonic() <= lastMs + estimateMs;
    },
    get left() {
      return left;
    },
    say,
    async speak(pieces) {
      const before = cuts;
      for (const [index, piece] of pieces.entries()) {
        if (cuts !== before) return "cut";
        await say(piece, index === pieces.length - 1);
      }
      return cuts === before ? "whole" : "cut";
    },
    close,
    assume: lengthen,
    async interrupted() {
      cuts++;
      endsAt = 0;
      speaking = false;
      moved();
      await close();
    },
    playback(now) {
      speaking = now;
      // The report of an end may cross words that we have just sent: they get a moment to be reported.
      if (!now) endsAt = Math.min(endsAt, clock.monotonic() + leadMs);
      moved();
    },
    async finished(signal) {
      for (let ms = remaining(); ms > 0 && !signal.aborted; ms = remaining()) {
        await clock.sleep(ms, AbortSignal.any([signal, changed.signal]));
      }
    },
  };
}
