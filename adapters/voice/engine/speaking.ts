// The speaker of one call: sends text to the provider and estimates how long its playback takes.

import type { Clock } from "bridgehead/contract";
import type { DialectCommand } from "../dialects/dialect.ts";
import type { VoiceTiming } from "../timing.ts";

/** Characters that stand for a syllable or a word. Each takes about as long as three letters. */
const syllables = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}]/gu;

/** Returns the length of a text in letters, for estimates of how long it is spoken. */
export const spokenLength = (text: string): number => text.length + 2 * (text.match(syllables)?.length ?? 0);

/** The engine estimates playback from the speaking rate. Playback events from the provider correct the estimate. */
export interface SpeakerParts {
  readonly clock: Clock;
  readonly timing: Pick<VoiceTiming, "lead" | "estimate" | "doubt">;
  /** Letters per second (`spokenLength`). Null: the next event arrives after playback, so nothing is estimated. */
  readonly rate: number | null;
  /** Returns the language of the text, when the message to the provider needs it; else null. */
  readonly language: () => string | null;
  readonly write: (command: DialectCommand) => Promise<void>;
}

export class Speaker {
  readonly #parts: SpeakerParts;
  #endsAt = 0;
  #believedUntil = 0;
  #speaking = false;
  #open = false;
  /** When each piece of the current speech has probably been played, in milliseconds of the monotonic clock. */
  #ends: number[] = [];
  #cuts = 0;
  #left = 0;
  /** End the sleeps of `finished`, because playback ends earlier than estimated. */
  readonly #sleeps = new Set<AbortController>();

  constructor(parts: SpeakerParts) {
    this.#parts = parts;
  }

  /** True while sent text is probably still being played. */
  get busy(): boolean {
    return this.#remaining > 0;
  }

  /** When all text has probably been played, in milliseconds of the monotonic clock; also a time in the past. */
  get endsAt(): number {
    const isBelieved = this.#speaking && this.#parts.clock.monotonic() < this.#believedUntil;
    return isBelieved ? this.#believedUntil : this.#endsAt;
  }

  /** Number of pieces that are probably not played completely: at least the one that is played. */
  get unplayed(): number {
    if (!this.busy) return 0;
    const { clock, timing } = this.#parts;
    const now = clock.monotonic();
    return Math.max(1, this.#ends.filter((end) => end - now > timing.estimate).length);
  }

  /** Number of pieces sent so far. */
  get left(): number {
    return this.#left;
  }

  /** Sends a piece. `last` closes the talk cycle; otherwise the next piece continues it. */
  async say(text: string, last: boolean): Promise<void> {
    this.#open = !last;
    this.assume(text);
    const language = this.#parts.language();
    await this.#parts.write({ kind: "say", text: last ? text : `${text} `, last, language });
    this.#left++;
  }

  /** Sends pieces in one cycle. Returns "cut" as soon as the caller interrupts. */
  async speak(pieces: readonly string[]): Promise<"whole" | "cut"> {
    const before = this.#cuts;
    for (const [index, piece] of pieces.entries()) {
      if (this.#cuts !== before) return "cut";
      await this.say(piece, index === pieces.length - 1);
    }
    return this.#cuts === before ? "whole" : "cut";
  }

  /** Closes an open cycle, so that the provider does not wait for more text. */
  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#parts.write({ kind: "say", text: "", last: true, language: this.#parts.language() });
  }

  /** Accounts for text that another component plays (the greeting in the start response). */
  assume(text: string): void {
    const { clock, rate, timing } = this.#parts;
    if (rate === null) return;
    const now = clock.monotonic();
    const lasts = (spokenLength(text) / rate) * 1000;
    this.#endsAt = Math.max(now + timing.lead, this.#endsAt) + lasts;
    this.#ends = [...this.#ends.filter((end) => end > now), this.#endsAt];
    this.#believedUntil = Math.max(now, this.#believedUntil) + 2 * lasts + timing.doubt;
  }

  /** Handles a barge-in. */
  async interrupted(): Promise<void> {
    this.#cuts++;
    this.#endsAt = 0;
    this.#ends = [];
    this.#speaking = false;
    this.#shortened();
    await this.close();
  }

  /** Handles a playback event: our speech has started or stopped. */
  playback(speaking: boolean): void {
    this.#speaking = speaking;
    // The stop event may cross text that was just sent. The provider gets a moment to report the start of that text.
    if (speaking) return;
    this.#ends = [];
    const { clock, timing } = this.#parts;
    this.#endsAt = Math.min(this.#endsAt, clock.monotonic() + timing.lead);
    this.#shortened();
  }

  /** Resolves when all text has been played, or the signal aborts. Two may wait at once. */
  async finished(signal: AbortSignal): Promise<void> {
    for (let ms = this.#remaining; ms > 0 && !signal.aborted; ms = this.#remaining) {
      // Not AbortSignal.any: that costs more than all else of a turn's timers.
      const sleep = new AbortController();
      const wake = () => sleep.abort("over");
      this.#sleeps.add(sleep);
      signal.addEventListener("abort", wake, { once: true });
      await this.#parts.clock.sleep(ms, sleep.signal);
      signal.removeEventListener("abort", wake);
      this.#sleeps.delete(sleep);
    }
  }

  get #remaining(): number {
    return this.endsAt - this.#parts.clock.monotonic();
  }

  #shortened(): void {
    for (const sleep of this.#sleeps) sleep.abort("over");
  }
}
