// The dialogue state of a call, the same for all dialects. Decides which sentences of a reply are spoken and which are
// kept, how much was played, which utterances are questions, and when the call ends. Uses no sockets, timers or
// database.

import { limit } from "../speech/speakable.ts";
import { isAcknowledgement, isBackchannel, isClosing, isGoodbye, isPresenceCheck } from "../speech/utterances.ts";

export interface SpokenAnswer {
  readonly sentences: readonly string[];
  /** Number of sentences to speak before the rest is offered. */
  readonly most: number;
  /** Phrase that announces the rest and asks whether to continue; null when the rest is not offered. */
  readonly offer: string | null;
}

/** The state of the call when an utterance arrives. */
export interface Moment {
  /** True while our speech is played. */
  readonly speaking: boolean;
  /** True while the agent's reply to a question is pending. */
  readonly pending: boolean;
}

/** The response to an utterance: speak `pieces`, end the call, or send the utterance to the agent. */
export type Reaction =
  | { readonly kind: "speak"; readonly pieces: readonly string[] }
  | { readonly kind: "leave" }
  | { readonly kind: "ask"; readonly heard: string | null };

/** Maximum length in characters of the played text in the note to the agent. The end of the text is kept. */
const longestHeard = 200;

export class Dialogue {
  /** The pieces of our current or last speech, one for each sentence. */
  #current: readonly string[] = [];
  /** True when `#current` is the agent's reply. The next message to the agent then reports how much of it was played. */
  #answering = false;
  #presence = false;
  /** Sentences of the reply that are not spoken yet, and the settings for offering them. */
  #kept: readonly string[] = [];
  #most = 1;
  #offer: string | null = null;
  /** Number of sentences of `#current` that were played completely before a barge-in; null for all. */
  #spoken: number | null = null;
  /** Number of sentences at the end of `#current` that were probably not played completely when the utterance began. */
  #ahead = 0;
  /** The played part of the last reply, kept until the agent replies again. */
  #note: string | null = null;
  /** True when the last sentence of `#current` is a goodbye, whether it was played or not. */
  #closing = false;
  #callerLeaves = false;

  /** True when the reply ended with a goodbye and the caller said goodbye before it. The call ends after the reply. */
  get over(): boolean {
    return this.closing && this.#callerLeaves;
  }

  /** True when our last speech was a goodbye, independent of the caller's. False when a barge-in cut it off before its
   *  last sentence. */
  get closing(): boolean {
    return this.#closing && this.#unplayed().length <= 1;
  }

  /** Records speech of the channel itself, such as a greeting. */
  record(pieces: readonly string[]): void {
    this.#setCurrent(pieces);
    this.#answering = this.#closing = this.#presence = false;
    this.#kept = [];
  }

  /** Records the question whether the caller is still there. An earlier offer stays valid. */
  recordPresenceQuestion(): void {
    this.#presence = true;
  }

  /** Handles the agent's reply and returns the pieces to speak now. The rest is kept until the caller requests it or
   *  asks something else. */
  answers({ sentences, most, offer }: SpokenAnswer): readonly string[] {
    this.#most = most;
    this.#offer = offer;
    this.#answering = true;
    this.#note = null;
    this.#presence = false;
    return this.#portion(sentences);
  }

  /** Handles a barge-in. `heard`: the text played until then; null when unknown. */
  interrupted(heard: string | null): void {
    const whole = heard === null ? 0 : wholeIn(heard, this.#current);
    this.#spoken = whole < this.#current.length ? whole : null;
    if (!this.#answering || this.#spoken === null) return;
    const words = heard === null || heard.trim() === "" ? "nothing" : quoted([heard]);
    this.#note = `${words} (interrupted)`;
  }

  /** The agent's reply was not spoken, because the caller has begun to say something newer. */
  unspoken(): void {
    this.#note = "nothing (interrupted)";
  }

  /** Called before the first utterance after our speech. `unplayed`: how many of the pieces sent were probably not played
   *  completely, including the one that is played. */
  utteranceBegins(unplayed: number): void {
    this.#ahead = this.#presence ? 0 : unplayed;
  }

  /** Returns true for an utterance without meaning in this moment, such as a back-channel. It is not buffered, is no
   *  question, and interrupts none. */
  ignores(text: string, { speaking, pending }: Moment): boolean {
    const keeps = this.#kept.length > 0;
    if (pending && isPresenceCheck(text)) return true;
    if (pending || (this.#presence && !keeps)) return isAcknowledgement(text);
    if (!speaking) return this.#spoken === null && !keeps && isBackchannel(text) && !isQuestion(this.#current);
    if (this.#ahead <= 1 && isQuestion(this.#current)) return isBackchannel(text) && !keeps;
    return this.#heardQuestion ? isBackchannel(text) : isAcknowledgement(text);
  }

  /** Returns whether the call ends after our speech, when the caller responds with an utterance that is ignored. An
   *  acknowledgement of an earlier sentence does not respond to the goodbye. */
  get endsAfterSpeech(): boolean {
    return this.over || (this.closing && this.#ahead <= 1);
  }

  /** Handles a complete utterance that was not ignored. */
  handleUtterance(text: string): Reaction {
    this.#presence = false;
    const agrees = isAcknowledgement(text);
    const left = this.#unplayed();
    // After a barge-in with a back-channel, speech resumes where playback stopped. A question counts as answered when it
    // was the last sentence heard, or the last one of the reply and cut off.
    const answered = !isBackchannel(text) && (this.#heardQuestion || (left.length === 1 && isQuestion(left)));
    if (this.closing && ((agrees && !answered) || isClosing(text))) return { kind: "leave" };
    if (agrees && !answered && left.length + this.#kept.length > 0) {
      this.#note = null;
      const pieces = this.#answering ? this.#portion([...left, ...this.#kept]) : this.#setCurrent(left);
      return { kind: "speak", pieces };
    }
    this.#callerLeaves = isClosing(text);
    return { kind: "ask", heard: this.#asked() };
  }

  /** Called when the agent gets a message without an utterance (DTMF). Returns the played part of the previous reply;
   *  null for all of it. */
  finishReply(): string | null {
    this.#callerLeaves = false;
    return this.#asked();
  }

  /** True when the last sentence that was played completely is a question, other than the offer to continue (`#offer`). */
  get #heardQuestion(): boolean {
    const heard = this.#current.slice(0, this.#spoken ?? Math.max(0, this.#current.length - this.#ahead));
    return isQuestion(heard) && heard.at(-1) !== this.#offer;
  }

  #setCurrent(pieces: readonly string[]): readonly string[] {
    this.#current = pieces;
    this.#spoken = null;
    this.#ahead = 0;
    return pieces;
  }

  #portion(all: readonly string[]): readonly string[] {
    const { now, rest } = limit(all, this.#most);
    this.#kept = this.#offer === null ? [] : rest;
    this.#closing = rest.length === 0 && isGoodbye(now.at(-1) ?? "");
    return this.#setCurrent(this.#kept.length === 0 || this.#offer === null ? now : [...now, this.#offer]);
  }

  #unplayed(): readonly string[] {
    if (this.#spoken === null) return [];
    return this.#current.slice(this.#spoken).filter((piece) => piece !== this.#offer);
  }

  #asked(): string | null {
    const partly = this.#answering && this.#kept.length > 0;
    const heard = this.#note ?? (partly ? `${quoted(this.#current)} (the rest was not spoken)` : null);
    this.record([]);
    this.#note = heard;
    return heard;
  }
}

const isQuestion = (pieces: readonly string[]): boolean => /[?？؟]["”»)]*\s*$/u.test(pieces.at(-1) ?? "");

/** Returns the text in quotes on one line. Longer text is truncated at its start. */
function quoted(pieces: readonly string[]): string {
  const text = pieces
    .join(" ")
    .replace(/[\s"]+/gu, " ")
    .trim();
  return text.length <= longestHeard ? `"${text}"` : `"…${text.slice(-longestHeard).toWellFormed()}"`;
}

const lettersOf = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

/** Returns how many leading pieces occur in the played text. Other text may have been played before them. */
function wholeIn(heard: string, pieces: readonly string[]): number {
  const letters = lettersOf(heard);
  let from = 0;
  for (const [index, piece] of pieces.entries()) {
    const wanted = lettersOf(piece);
    const at = letters.indexOf(wanted, from);
    if (at < 0) return index;
    from = at + wanted.length;
  }
  return pieces.length;
}
