// Assembles the response of a model endpoint from its chunks.

import type { Dialect, Piece } from "./dialect.ts";
import { readEvents } from "./events.ts";
import { parsed } from "./json.ts";

export type Heard =
  | { readonly kind: "answered"; readonly text: string; readonly tokens: number }
  /** `again` is true when no text was received and a retry may succeed. */
  | { readonly kind: "failed"; readonly reason: string; readonly again: boolean };

const maxLength = 1024 * 1024;

export interface Hearing {
  /** Handles a chunk of a streamed response. */
  readonly events: (chunk: Uint8Array) => void;
  /** Handles a chunk of a response that is not streamed. */
  readonly whole: (chunk: Uint8Array) => void;
  /** True when no further data is expected. */
  over(): boolean;
  /** True when the complete text of the answer has arrived. */
  complete(): boolean;
  /** Returns the result after the connection has ended. `otherwise` is the reason to report if it ended
   *  too early. */
  outcome(otherwise: string): Heard;
}

/** Creates an assembler for one response. */
export function createHearing(dialect: Dialect): Hearing {
  const decoder = new TextDecoder();
  let json: string | null = null;
  let text = "";
  let tokens = 0;
  let complete = false;
  let over = false;
  let failure: Heard | null = null;
  const fail = (reason: string, again: boolean) => {
    // An error after the answer is complete does not change the result.
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
