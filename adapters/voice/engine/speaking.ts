// The speaker of one call: sends text to the provider and estimates how long its playback takes.

import type { Clock } from "bridgehead/contract";
import type { Command } from "../dialects/dialect.ts";

/** The engine estimates playback from the speaking rate. Playback events from the provider correct the estimate. */
export interface SpeakerParts {
  readonly clock: Clock;
  /** Characters per second. */
  readonly rate: number;
  /** Returns the language of the text, when the message to the provider needs it; else null. */
  readonly language: () => string | null;
  readonly write: (command: Command) => Promise<void>;
}

export interface Speaker {
  /** True while sent text is probably still being played. */
  readonly busy: boolean;
  /** True while the last piece is probably being played, or nothing is. */
  readonly inLastPiece: boolean;
  /** Number of pieces sent so far. */
  readonly left: number;
  /** Sends a piece. `last` closes the talk cycle; otherwise the next piece continues it. */
  say(text: string, last: boolean): Promise<void>;
  /** Sends pieces in one cycle. Returns "cut" as soon as the caller interrupts. */
  speak(pieces: readonly string[]): Promise<"whole" | "cut">;
  /** Closes an open cycle, so that the provider does not wait for more text. */
  close(): Promise<void>;
  /** Accounts for text that another component plays (the greeting in the start response). */
  assume(text: string): void;
  /** Handles a barge-in. */
  interrupted(): Promise<void>;
  /** Handles a playback event: our speech has started or stopped. */
  playback(speaking: boolean): void;
  /** Resolves when all text has been played, or the signal aborts. */
  finished(signal: AbortSignal): Promise<void>;
}

/** Delay in milliseconds between sending text and the start of its playback. */
const leadMs = 300;
/** Tolerance in milliseconds of the estimated end. */
const estimateMs = 1000;
/** Timeout of a "speaking" event from the provider: twice the estimated playback time plus this many milliseconds. */
const doubtMs = 5000;

export function speaker({ clock, rate, language, write }: SpeakerParts): Speaker {
  let endsAt = 0;
  let believedUntil = 0;
  let speaking = false;
  let open = false;
  /** Playback time of the last piece, in milliseconds. */
  let lastMs = 0;
  let cuts = 0;
  let left = 0;
  let changed = new AbortController();

  const moved = () => {
    changed.abort("over"); // the reason avoids an Error with a stack trace for each abort
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
      // The stop event may cross text that was just sent. The provider gets a moment to report the start of that text.
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
