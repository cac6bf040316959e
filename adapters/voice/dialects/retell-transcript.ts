// Finds the new text in Retell's transcript, which every frame repeats in full, and detects barge-in.

import type { CallEvent } from "./dialect.ts";

type Fields = Readonly<Record<string, unknown>>;

interface Utterance {
  readonly role: string;
  readonly content: string;
}

/** One piece of our speech, as sent. */
interface Piece {
  readonly text: string;
  readonly last: boolean;
}

export interface Hearing {
  /** Handles an update frame: the caller speaks or pressed keys. */
  updated(frame: Fields): readonly CallEvent[];
  /** Handles a response request. `words`: the caller's new text since the last request; "" for noise; null for no
   *  new text. */
  asked(frame: Fields): { readonly events: readonly CallEvent[]; readonly words: string | null };
  /** Records a piece of our speech. */
  said(text: string, last: boolean): void;
  /** Returns our speech since the caller's last utterance when none of it was played; else null. */
  unheard(): readonly Piece[] | null;
}

/** Retell's placeholders for noise. */
const noise = /\(unintelligible audio\)|\(inaudible speech\)/gi;

export function hearing(): Hearing {
  /** The caller's utterance that was returned last: its index in the transcript, and its text then. */
  let taken = { at: -1, words: "" };
  let pieces: Piece[] = [];
  let heard = "";
  /** The part of the caller's last utterance that was already reported as partial text. */
  let growing = "";
  let keys = 0;

  const pressed = (frame: Fields): readonly CallEvent[] => {
    const all = listOf(frame["transcript_with_tool_calls"]).filter((one) => one["role"] === "dtmf");
    const digits = all
      .slice(keys)
      .map(({ digit, content }) =>
        typeof digit === "string" ? digit : typeof content === "string" ? content : "",
      )
      .join("")
      .replace(/[^0-9*#]/g, "");
    keys = Math.max(keys, all.length);
    return digits === "" ? [] : [{ kind: "digits", digits }];
  };
  /** Returns an interruption event when the caller spoke before our speech finished. */
  const cut = (all: readonly Utterance[], from: number): readonly CallEvent[] => {
    const ours = pieces.map(({ text }) => text).join("");
    heard = all
      .slice(taken.at + 1, from)
      .filter(({ role }) => role === "agent")
      .map(({ content }) => content)
      .join(" ");
    // The transcript contains our text as spoken: figures and punctuation may differ slightly.
    if (ours === "" || plain(heard).length >= plain(ours).length * 0.9) return [];
    return [{ kind: "interrupted", heard }];
  };
  return {
    updated(frame) {
      const all = utterances(frame);
      const from = trailing(all);
      const words = wordsOf(all.slice(from));
      if (from === all.length || words === "" || words === growing) return pressed(frame);
      growing = words;
      return [...pressed(frame), { kind: "partial", text: words }];
    },
    asked(frame) {
      const all = utterances(frame);
      const from = trailing(all);
      const keysPressed = pressed(frame);
      if (from === all.length) return { events: keysPressed, words: null };
      const words = wordsOf(all.slice(from));
      const before = taken;
      // The caller continued the same utterance. Its earlier part was already returned.
      const goesOn = from === before.at && before.words !== "" && words.startsWith(before.words);
      const fresh = (goesOn ? words.slice(before.words.length) : words).trim();
      if (from === before.at && !/[\p{L}\p{N}]/u.test(fresh)) {
        heard = "";
        return { events: keysPressed, words: null };
      }
      const events = [...keysPressed, ...cut(all, from)];
      taken = { at: from, words };
      pieces = [];
      growing = words;
      return { events, words: fresh };
    },
    said(text, last) {
      pieces.push({ text, last });
    },
    unheard: () => (pieces.length > 0 && heard === "" ? pieces : null),
  };
}

/** Returns the index of the caller's last utterances: after the last one of the agent. */
function trailing(all: readonly Utterance[]): number {
  return all.findLastIndex(({ role }) => role === "agent") + 1;
}

const wordsOf = (all: readonly Utterance[]): string =>
  all
    .map(({ content }) => content.replace(noise, " "))
    .join(" ")
    .replace(/\s+/g, " ")
    .trim();

const plain = (text: string): string => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");

/** Returns the transcript entries of the agent and the caller, without others such as tool calls. */
function utterances(frame: Fields): readonly Utterance[] {
  return listOf(frame["transcript"]).flatMap(({ role, content }) =>
    (role === "agent" || role === "user") && typeof content === "string" ? [{ role, content }] : [],
  );
}

const listOf = (value: unknown): readonly Fields[] =>
  Array.isArray(value) ? value.filter((one): one is Fields => typeof one === "object" && one !== null) : [];
