// What an endpoint says, put together.

import type { Dialect, Piece } from "./dialect.ts";
import { readEvents } from "./events.ts";
import { parsed } from "./json.ts";

export type Heard =
  | { readonly kind: "answered"; readonly text: string; readonly tokens: number }
  /** `again`: not a word was said, and the next time may go better. */
  | { readonly kind: "failed"; readonly reason: string; readonly again: boolean };

const maxLength = 1024 * 1024;

export interface Hearing {
  /** More of a stream. */
  readonly events: (chunk: Uint8Array) => void;
  /** More of a whole answer. */
  readonly whole: (chunk: Uint8Array) => void;
  /** Nothing more is expected. */
  over(): boolean;
  /** The answer's words are all there. */
  complete(): boolean;
  /** What there is when the line has ended; `otherwise` is why, when that was too soon. */
  outcome(otherwise: string): Heard;
}

/** Collects what an endpoint says. */
export function createHearing(dialect: Dialect): Hearing {
  const decoder = new TextDecoder();
  let json: string | null = null;
  let text = "";
  let tokens = 0;
  let complete = false;
  let over = false;
  let failure: Heard | null = null;
  const fail = (reason: string, again: boolean) => {
    // What comes after the last word changes nothing about it.
    if (!complete) failure = { kind: "failed", reason, again: again && text === "" };
    over = true;
  };
  const take = (piece: Piece | null) => {
    if (piece === null) return;
    if (piece.broken !== undefined) return fail(piece.broken, piece.again ?? false);
    text = piece.all ?? text + (piece.text ?? "");
    tokens = piece.tokens ?? tokens;
    if (text.length > maxLength) return fail(`its answer exceeds ${maxLength} characters`, false);
    complete ||= piece.whole ?? false;
  };
  const events = readEvents((data) => {
    if (over) return;
    if (data.trim() === "[DONE]") {
      complete = true;
      over = true;
      return;
    }
    const body = parsed(data);
    if (body === undefined) fail("it said something unreadable", true);
    else take(dialect.read(body));
  });
  return {
    events: (chunk) => events.feed(decoder.decode(chunk, { stream: true })),
    whole(chunk) {
      json = (json ?? "") + decoder.decode(chunk, { stream: true });
    },
    over: () => over,
    complete: () => complete,
    outcome(otherwise) {
      const body = json === null ? undefined : parsed(json);
      if (body !== undefined) {
        take(dialect.read(body));
        complete = true;
      }
      if (failure) return failure;
      if (!complete) return { kind: "failed", reason: otherwise, again: text === "" };
      const answer = text.trim();
      if (answer === "") return { kind: "failed", reason: "its answer has no text", again: false };
      return { kind: "answered", text: answer, tokens: Math.round(tokens) };
    },
  };
}
