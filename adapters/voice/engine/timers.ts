// The timers of a call: fillers while the agent prepares a reply, questions to a silent caller, debounce of utterances, and
// the end of a row of DTMF digits. Each has at most one wait; a new one cancels it.

import type { Clock } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { VoiceTiming } from "../timing.ts";
import type { Speaker } from "./speaking.ts";

/** What the timers of one call share. */
export interface TimerParts {
  readonly clock: Clock;
  readonly config: VoiceConfig;
  readonly timing: Pick<VoiceTiming, "estimate" | "longestSpeech">;
  readonly speaker: Speaker;
  /** Reports a background error that ends the connection. */
  readonly failed: (error: unknown) => void;
}

/** Returns the milliseconds until it runs again; null when it is over. */
type TimedWork = () => Promise<number | null>;

/** A wait that the next one replaces. Most waits of a call end long before their time, at every turn. So a wait that is
 *  replaced by a later one, or cancelled, leaves its sleep as it is: the sleep looks again at its end. */
class Timer {
  readonly #parts: TimerParts;
  #work: TimedWork | null = null;
  #due = 0;
  #sleep: { readonly until: number; readonly abort: AbortController } | null = null;

  constructor(parts: TimerParts) {
    this.#parts = parts;
  }

  get waits(): boolean {
    return this.#work !== null;
  }

  /** Runs the work after `ms` milliseconds. */
  after(ms: number, work: TimedWork): void {
    this.#work = work;
    this.#due = this.#parts.clock.monotonic() + ms;
    if (this.#sleep !== null && this.#sleep.until <= this.#due) return;
    this.#wake();
    this.#run().catch(this.#parts.failed);
  }

  cancel(): void {
    this.#work = null;
  }

  /** Ends the sleep, too. Call at the end of the call. */
  end(): void {
    this.cancel();
    this.#wake();
  }

  #wake(): void {
    this.#sleep?.abort.abort("over"); // the reason avoids an Error with a stack trace for each abort
    this.#sleep = null;
  }

  async #run(): Promise<void> {
    const { clock } = this.#parts;
    while (this.#work !== null) {
      const left = this.#due - clock.monotonic();
      const sleep = { until: this.#due, abort: new AbortController() };
      this.#sleep = sleep;
      await clock.sleep(Math.max(0, left), sleep.abort.signal);
      // A newer wait has its own sleep.
      if (this.#sleep !== sleep) return;
      this.#sleep = null;
      const work = this.#work;
      if (work === null || this.#due > clock.monotonic()) continue;
      const due = this.#due;
      const again = await work();
      // The work may have cancelled or replaced itself.
      if (this.#sleep !== null || this.#work !== work || this.#due !== due) return;
      if (again === null) this.#work = null;
      else this.#due = clock.monotonic() + again;
    }
  }
}

/** Waits for the reply to a question: speaks fillers in rotation, and gives up after a timeout. */
export class ReplyWait {
  readonly #parts: TimerParts;
  readonly #fillers: () => readonly string[];
  readonly #giveUp: () => void;
  readonly #timer: Timer;
  /** Continues over all questions of a call, so that consecutive waits use different fillers. */
  #spokenFillers = 0;

  /** `giveUp` is called when no reply arrives before the timeout. */
  constructor(parts: TimerParts, fillers: () => readonly string[], giveUp: () => void) {
    this.#parts = parts;
    this.#fillers = fillers;
    this.#giveUp = giveUp;
    this.#timer = new Timer(parts);
  }

  /** Starts the wait for a reply and cancels the previous wait. `elapsed`: how long another process has waited, in
   *  milliseconds. */
  begin(elapsed = 0): void {
    const { clock, config, speaker, timing } = this.#parts;
    const { first, second, every } = config.fillers;
    const limit = config.give_up.after;
    const began = clock.monotonic() - elapsed;
    const left = (due: number) => Math.max(0, Math.min(due, limit) - (clock.monotonic() - began));
    const following = (due: number) => due + (due < second ? second - first : every);
    let due = first;
    while (due < Math.min(elapsed, limit)) due = following(due);
    this.#timer.after(left(due), async () => {
      if (clock.monotonic() - began >= limit) {
        this.#giveUp();
        return null;
      }
      // Our speech, such as the greeting after a lost connection, is still played: the filler follows it.
      if (speaker.busy) due += timing.estimate;
      else {
        // The cycle stays open: the reply follows in the same cycle and never interrupts a filler.
        await speaker.say(this.#filler(), false);
        due = following(due);
      }
      return left(due);
    });
  }

  /** Cancels the wait: the reply has arrived, or is no longer needed. */
  rest(): void {
    this.#timer.cancel();
  }

  /** Call at the end of the call. */
  end(): void {
    this.#timer.end();
  }

  #filler(): string {
    const all = this.#fillers();
    return all[this.#spokenFillers++ % all.length] ?? "";
  }
}

/** Handles a silent caller: asks `silence.asks` times whether the caller is there, then ends the call. */
export class Silence {
  readonly #parts: TimerParts;
  readonly #question: (asked: number) => string;
  readonly #isOver: () => boolean;
  readonly #leave: () => void;
  readonly #timer: Timer;
  /** When it is watched since, in milliseconds of the monotonic clock. */
  #since = 0;
  /** The caller speaks until then, in milliseconds of the monotonic clock. Also a time in the past. */
  #speechEndsAt = 0;
  #asked = 0;

  /** `question` returns the phrase for the first, second ... question. `isOver`: after a goodbye a silent caller is not
   *  asked. `leave` ends the call. */
  constructor(parts: TimerParts, question: (asked: number) => string, isOver: () => boolean, leave: () => void) {
    this.#parts = parts;
    this.#question = question;
    this.#isOver = isOver;
    this.#leave = leave;
    this.#timer = new Timer(parts);
  }

  /** Starts the timer; it runs from the end of our speech. */
  watch(): void {
    this.#since = this.#parts.clock.monotonic();
    this.#timer.after(this.#left, () => this.#look());
  }

  /** Handles a playback event of the provider: our speech ends at another time than estimated. */
  playback(speaking: boolean): void {
    const { clock, speaker } = this.#parts;
    if (speaker.busy) this.#since = clock.monotonic();
    speaker.playback(speaking);
    this.#reschedule();
  }

  /** The caller has started or stopped speaking. Silence begins at the stop. */
  callerSpeaks(speaking: boolean): void {
    const { clock, timing } = this.#parts;
    const now = clock.monotonic();
    this.#speechEndsAt = speaking ? now + timing.longestSpeech : Math.min(this.#speechEndsAt, now);
    this.#reschedule();
  }

  rest(): void {
    this.#timer.cancel();
  }

  /** Call at the end of the call. */
  end(): void {
    this.#timer.end();
  }

  /** Resets the counter, because the caller was active. */
  reset(): void {
    this.#asked = 0;
  }

  /** Handles a silence event from the provider. */
  async noticed(): Promise<void> {
    if (this.#isLast) return this.#leave();
    await this.#parts.speaker.say(this.#question(this.#asked++), true);
  }

  get #isLast(): boolean {
    return this.#isOver() || this.#asked >= this.#parts.config.silence.asks;
  }

  /** Milliseconds until the caller has been silent for long enough. */
  get #left(): number {
    const { clock, config, speaker } = this.#parts;
    return Math.max(this.#since, this.#speechEndsAt, speaker.endsAt) + config.silence.after - clock.monotonic();
  }

  #reschedule(): void {
    if (this.#timer.waits) this.#timer.after(this.#left, () => this.#look());
  }

  async #look(): Promise<number | null> {
    // New speech started during the wait.
    if (this.#left > 0) return this.#left;
    const last = this.#isLast;
    await this.noticed();
    this.#since = this.#parts.clock.monotonic();
    return last ? null : this.#left;
  }
}

/** Maximum length of a caller's message, in characters. */
const longest = 2048;
/** End of a longer message, which is cut. */
const cutMark = " [...]";
/** Maximum extension of the debounce time, as a multiple of it. */
const prolonged = 4;

/** Debounces the caller's utterances: those in quick succession become one message. */
export class Utterances {
  readonly #parts: TimerParts;
  readonly #wait: number;
  readonly #onMessage: (text: string) => Promise<void>;
  readonly #timer: Timer;
  #texts: string[] = [];
  #since = 0;

  /** `wait`: the debounce time in milliseconds. `said` is called with one complete message. */
  constructor(parts: TimerParts, wait: number, said: (text: string) => Promise<void>) {
    this.#parts = parts;
    this.#wait = wait;
    this.#onMessage = said;
    this.#timer = new Timer(parts);
  }

  /** True while the buffer contains utterances. */
  get pending(): boolean {
    return this.#texts.length > 0;
  }

  /** Buffers an utterance after normalization. Returns false when it contains no letter or digit. Without a debounce
   *  time the caller of this method flushes. */
  add(text: string): boolean {
    const clean = text
      .replace(/\p{Cc}+/gu, " ")
      .trim()
      .slice(0, longest + 1);
    if (!/[\p{L}\p{N}]/u.test(clean)) return false;
    const now = this.#parts.clock.monotonic();
    if (!this.pending) this.#since = now;
    this.#texts.push(clean);
    const left = this.#since + prolonged * this.#wait - now;
    if (this.#wait > 0)
      this.#timer.after(Math.max(0, Math.min(this.#wait, left)), async () => {
        await this.flush();
        return null;
      });
    return true;
  }

  /** Call at the end of the call. Sends the buffered text. */
  end(): Promise<void> {
    this.#timer.end();
    return this.flush();
  }

  /** Sends the buffered text immediately. */
  async flush(): Promise<void> {
    this.#timer.cancel();
    const said = this.#texts.join(" ");
    const text = said.length > longest ? said.slice(0, longest - cutMark.length).toWellFormed() + cutMark : said;
    this.#texts = [];
    if (text !== "") await this.#onMessage(text);
  }
}

const longestRow = 64;

/** Collects DTMF digits. They may be a card number, so they are never logged. A sequence ends with `#` or a timeout. The
 *  key for a human counts only as the whole sequence, so that numbers may contain it. When `as_message` is off, that key
 *  takes effect immediately. */
export class Keypad {
  readonly #parts: TimerParts;
  readonly #canTransfer: boolean;
  readonly #human: () => void;
  readonly #entered: (keys: string) => Promise<void>;
  readonly #timer: Timer;
  #row = "";

  /** `entered` is called with a complete sequence, without its final `#`. */
  constructor(parts: TimerParts, canTransfer: boolean, human: () => void, entered: (keys: string) => Promise<void>) {
    this.#parts = parts;
    this.#canTransfer = canTransfer;
    this.#human = human;
    this.#entered = entered;
    this.#timer = new Timer(parts);
  }

  press(keys: string): void {
    for (const key of keys.replace(/[^0-9*#]/g, "")) this.#one(key);
  }

  /** Discards digits that were not entered yet. */
  rest(): void {
    this.#timer.cancel();
    this.#row = "";
  }

  /** Call at the end of the connection. Returns the digits of the message that was not complete; "" for none. */
  end(): string {
    const row = this.#row;
    this.rest();
    this.#timer.end();
    return this.#parts.config.digits.as_message && !this.#isHuman(row) ? row : "";
  }

  #one(key: string): void {
    const { digits } = this.#parts.config;
    const ends = key === "#" && !this.#isHuman(key);
    if (!ends && this.#row.length < longestRow) this.#row += key;
    const human = this.#isHuman(this.#row) && (!digits.as_message || key === "#");
    if (ends || human) this.#enter().catch(this.#parts.failed);
    else
      this.#timer.after(digits.pause, async () => {
        await this.#enter();
        return null;
      });
  }

  async #enter(): Promise<void> {
    const keys = this.#row;
    this.rest();
    if (this.#isHuman(keys)) return this.#human();
    if (keys !== "" && this.#parts.config.digits.as_message) await this.#entered(keys);
  }

  #isHuman(keys: string): boolean {
    const { human } = this.#parts.config.digits;
    return this.#canTransfer && human !== "" && keys === human;
  }
}
