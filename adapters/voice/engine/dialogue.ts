// The dialogue state of a call, the same for all dialects. Decides which sentences of a reply are spoken and which are
// kept, how much was played, which utterances are questions, and when the call ends. Uses no sockets, timers or
// database.

import { isAcknowledgement, isBackchannel, isClosing, isGoodbye, limit } from "../speech/index.ts";

export interface Answer {
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
  /** True while its last sentence is played. */
  readonly lastSentence: boolean;
  /** True while the agent's reply to a question is pending. */
  readonly pending: boolean;
}

/** The response to an utterance: speak `pieces`, end the call, or send the utterance to the agent. */
export type Reaction =
  | { readonly kind: "speak"; readonly pieces: readonly string[] }
  | { readonly kind: "leave" }
  | { readonly kind: "ask"; readonly heard: string | null };

export interface Dialogue {
  /** Records speech of the channel itself, such as a greeting. */
  says(pieces: readonly string[]): void;
  /** Records the question whether the caller is still there. An earlier offer stays valid. */
  asksPresence(): void;
  /** Handles the agent's reply and returns the pieces to speak now. The rest is kept until the caller requests it or
   *  asks something else. */
  answers(answer: Answer): readonly string[];
  /** True when the reply ended with a goodbye and the caller said goodbye before it. The call ends after the reply. */
  readonly over: boolean;
  /** True when our last speech was a goodbye, independent of the caller's. */
  readonly closing: boolean;
  /** Handles a barge-in. `heard`: the text played until then; null when unknown. */
  interrupted(heard: string | null): void;
  /** Returns true for an utterance without meaning in this moment, which is not even buffered. */
  ignores(text: string, moment: Moment): boolean;
  /** Handles a complete utterance that was not ignored. */
  hears(text: string): Reaction;
  /** Called when the agent gets a message without an utterance (DTMF). Returns the played part of the previous
   *  reply; null for all of it. */
  asks(): string | null;
}

/** Maximum length in characters of the played text in the note to the agent. The end of the text is kept. */
const longestHeard = 200;

export function dialogue(): Dialogue {
  /** The pieces of our current or last speech, one for each sentence. */
  let current: readonly string[] = [];
  /** True when `current` is the agent's reply. The next message to the agent then reports how much of it was played. */
  let answering = false;
  let presence = false;
  /** Sentences of the reply that are not spoken yet, and the settings for offering them. */
  let kept: readonly string[] = [];
  let most = 1;
  let offer: string | null = null;
  /** Number of sentences of `current` that were played completely before a barge-in; null for all. */
  let spoken: number | null = null;
  /** The played part of the last reply, kept until the agent replies again. */
  let note: string | null = null;
  let closing = false;
  let callerLeaves = false;

  const say = (pieces: readonly string[]) => {
    current = pieces;
    spoken = null;
    return pieces;
  };
  const portion = (all: readonly string[]): readonly string[] => {
    const { now, rest } = limit(all, most);
    kept = offer === null ? [] : rest;
    closing = rest.length === 0 && isGoodbye(now.at(-1) ?? "");
    return say(kept.length === 0 || offer === null ? now : [...now, offer]);
  };
  const unheard = () => (spoken === null ? [] : current.slice(spoken).filter((piece) => piece !== offer));
  const asked = (): string | null => {
    const heard =
      note ?? (answering && kept.length > 0 ? `${quoted(current)} (the rest was not spoken)` : null);
    note = heard;
    say([]);
    [answering, kept, closing, presence] = [false, [], false, false];
    return heard;
  };

  return {
    get over() {
      return closing && callerLeaves;
    },
    get closing() {
      return closing;
    },
    says(pieces) {
      say(pieces);
      [answering, kept, closing, presence] = [false, [], false, false];
    },
    asksPresence() {
      presence = true;
    },
    answers(answer) {
      ({ most, offer } = answer);
      [answering, note, presence] = [true, null, false];
      return portion(answer.sentences);
    },
    interrupted(heard) {
      const whole = heard === null ? 0 : wholeIn(heard, current);
      spoken = whole < current.length ? whole : null;
      if (!answering || spoken === null) return;
      const words = heard === null || heard.trim() === "" ? "nothing" : quoted([heard]);
      note = `${words} (interrupted)`;
    },
    ignores(text, { speaking, lastSentence, pending }) {
      if (pending || (presence && kept.length === 0)) return isAcknowledgement(text);
      if (!speaking)
        return spoken === null && kept.length === 0 && isBackchannel(text) && !isQuestion(current);
      if (lastSentence && isQuestion(current)) return isBackchannel(text) && kept.length === 0;
      return isAcknowledgement(text);
    },
    hears(text) {
      presence = false;
      const agrees = isAcknowledgement(text);
      if (closing && (agrees || isClosing(text))) return { kind: "leave" };
      const left = unheard();
      // After a barge-in with a back-channel, speech resumes where playback stopped. A question that was cut off counts
      // as answered.
      const answered = left.length === 1 && isQuestion(left) && !isBackchannel(text);
      if (agrees && !answered && left.length + kept.length > 0) {
        note = null;
        return { kind: "speak", pieces: answering ? portion([...left, ...kept]) : say(left) };
      }
      callerLeaves = isClosing(text);
      return { kind: "ask", heard: asked() };
    },
    asks() {
      callerLeaves = false;
      return asked();
    },
  };
}

const isQuestion = (pieces: readonly string[]): boolean => /[?？]["”»)]*\s*$/u.test(pieces.at(-1) ?? "");

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
