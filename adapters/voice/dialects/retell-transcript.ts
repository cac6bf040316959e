// What is new in a transcript that comes whole each time, and whether the caller let us finish.

import type { CallEvent } from "./dialect.ts";

type Fields = Readonly<Record<string, unknown>>;

interface Utterance {
  readonly role: string;
  readonly content: string;
}

/** One piece of ours, as it was said. */
interface Piece {
  readonly text: string;
  readonly last: boolean;
}

export interface Hearing {
  /** The caller speaks, or pressed keys. */
  updated(frame: Fields): readonly CallEvent[];
  /** A response is wanted. `words`: what the caller said since the last time; "" for noise; null for nothing new. */
  asked(frame: Fields): { readonly events: readonly CallEvent[]; readonly words: string | null };
  /** We say something. */
  said(text: string, last: boolean): void;
  /** What we said since the caller's last words, when nobody has heard any of it; else null. */
  unheard(): readonly Piece[] | null;
}

/** Retell's words for a noise. */
const noise = /\(unintelligible audio\)|\(inaudible speech\)/gi;

export function hearing(): Hearing {
  /** The caller's utterance that was handed on last: where it stands in the transcript, and its words then. */
  let taken = { at: -1, words: "" };
  let pieces: Piece[] = [];
  let heard = "";
  /** How much of the caller's last utterance has been reported as being spoken. */
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
  /** The caller speaks again although we have not finished. */
  const cut = (all: readonly Utterance[], from: number): readonly CallEvent[] => {
    const ours = pieces.map(({ text }) => text).join("");
    heard = all
      .slice(taken.at + 1, from)
      .filter(({ role }) => role === "agent")
      .map(({ content }) => content)
      .join(" ");
    // The transcript has our words as they were spoken: figures and punctuation may differ a little.
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
      // The caller went on: what was said before has been handed on before.
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

/** Where the caller's last words begin: after the last of ours. */
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

/** The transcript, without what neither side said. */
function utterances(frame: Fields): readonly Utterance[] {
  return listOf(frame["transcript"]).flatMap(({ role, content }) =>
    (role === "agent" || role === "user") && typeof content === "string" ? [{ role, content }] : [],
  );
}

const listOf = (value: unknown): readonly Fields[] =>
  Array.isArray(value) ? value.filter((one): one is Fields => typeof one === "object" && one !== null) : [];
