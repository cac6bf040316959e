// The course of a call, the same for all dialects: what of an answer is spoken and what is kept, what the caller heard of it, which
// utterances are questions, and when the call is over. Knows sentences only: no sockets, no timers, no store.

import { isAcknowledgement, isBackchannel, isClosing, isGoodbye, limit } from "../speech/index.ts";

export interface Answer {
  readonly sentences: readonly string[];
  /** How many are spoken before the rest is offered. */
  readonly most: number;
  /** Announces the rest and asks whether to go on; null where the rest is not offered. */
  readonly offer: string | null;
}

/** What the caller's utterance meets. */
export interface Moment {
  /** Something of ours is being spoken. */
  readonly speaking: boolean;
  /** The last sentence of it is being spoken. */
  readonly lastSentence: boolean;
  /** A question is with the agent. */
  readonly pending: boolean;
}

/** What follows from an utterance: `pieces` are spoken; the call ends; the agent is asked. */
export type Reaction =
  | { readonly kind: "speak"; readonly pieces: readonly string[] }
  | { readonly kind: "leave" }
  | { readonly kind: "ask"; readonly heard: string | null };

export interface Dialogue {
  /** We say this on our own account, such as a greeting. */
  says(pieces: readonly string[]): void;
  /** We ask whether the caller is still there. What was offered before stays on offer. */
  asksPresence(): void;
  /** The agent's answer. The pieces to speak now; the others are kept until the caller asks for them or for something else. */
  answers(answer: Answer): readonly string[];
  /** True when the answer ended with a goodbye and the caller had said one before: the call ends after it. */
  readonly over: boolean;
  /** True when our last words were a goodbye, whatever the caller said. */
  readonly closing: boolean;
  /** The caller cut us short. `heard`: what was spoken until then; null when unknown. */
  interrupted(heard: string | null): void;
  /** True when the utterance means nothing in this moment: it is not even collected. */
  ignores(text: string, moment: Moment): boolean;
  /** A whole utterance that was not ignored. */
  hears(text: string): Reaction;
  /** The agent is asked without an utterance (keys). What the caller heard of the answer before, or null for all of it. */
  asks(): string | null;
}

/** Characters of what the caller heard that the agent is told: the end of it. */
const longestHeard = 200;

export function dialogue(): Dialogue {
  /** What we say or said last, sentence by sentence. */
  let current: readonly string[] = [];
  /** `current` is the agent's answer: the agent is told how much of it was heard. */
  let answering = false;
  let presence = false;
  /** Sentences of the answer that are not spoken yet, and how they are offered. */
  let kept: readonly string[] = [];
  let most = 1;
  let offer: string | null = null;
  /** How many sentences of `current` were spoken to their end before the caller cut us short; null: all of them. */
  let spoken: number | null = null;
  /** What the caller heard of the last answer, until the agent answers again. */
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
      // Cut short by a back-channel: it goes on where the caller stopped hearing. A cut question has been answered.
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

/** In quotes, on one line; of a longer text the end. */
function quoted(pieces: readonly string[]): string {
  const text = pieces
    .join(" ")
    .replace(/[\s"]+/gu, " ")
    .trim();
  return text.length <= longestHeard ? `"${text}"` : `"…${text.slice(-longestHeard).toWellFormed()}"`;
}

const lettersOf = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");

/** How many of the pieces, from the first, occur in what was heard. Something else may have been spoken before them. */
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
