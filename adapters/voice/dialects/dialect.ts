// What a dialect is: how one provider's frames become the events of a call, and our commands its frames. A dialect knows
// no turns, timers or phrases: those are the engine's, the same for all.

import type { Attempt, Channel, HttpRoute, RoutePath, SendOutcome } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { Speech } from "../draft.ts";

/** Makes the dialect of one channel. No I/O, no timers. */
export type DialectMaker = (front: Front) => Dialect;

export interface Dialect {
  readonly name: string;
  readonly can: Capabilities;
  /** Null for a dialect that lives of HTTP requests alone. */
  readonly socket: SocketSide | null;
  /** How calls start, end and are handed over by HTTP; empty where all of that goes over the socket. */
  readonly routes: readonly HttpRoute[];
  /** Where an answer can be put for a call that has no socket; undefined when the call is not here. */
  readonly ear?: Ear;
  /** The channel ends. */
  close?(): void;
}

/** Finds who speaks an answer in a call, if its line ends here. */
export type Ear = (
  call: string,
) => { answer(draft: Speech, attempt: Attempt): Promise<SendOutcome> } | undefined;

export interface Capabilities {
  /** The answer that starts the call has the greeting spoken; else the engine says it first. */
  readonly greets: boolean;
  /** Understands `stop`: what is being spoken ends at once. Without it the provider stops by itself when interrupted. */
  readonly stops: boolean;
  /** Reports `playback`, so that nobody has to guess how long speaking takes. */
  readonly reportsPlayback: boolean;
  /** Reports a silent caller (`silence`) by itself; the engine then measures none. */
  readonly reportsSilence: boolean;
  /** A turn is only reported when our speech has ended, by itself or interrupted. Elsewhere the caller may speak under it. */
  readonly turnsEndSpeech?: true;
  /** How a call reaches a human: `callback`: the provider asks us over HTTP what to do once we ended the session; `frame`:
   *  the `transfer` command does it, and the call is over for us; `dial`: the `transfer` command rings, and `dialed` tells what
   *  came of it; `none`: not at all. */
  readonly transfer: "callback" | "frame" | "dial" | "none";
}

export interface SocketSide {
  /** `/relay`, or `/llm/*` where the URL names the call; several where a provider builds its URL in several ways. */
  readonly paths: readonly RoutePath[];
  readonly protocol?: string;
  /** Default 64 KiB. */
  readonly maxFrameBytes?: number;
  /** Before the upgrade; a Response refuses it. The URL is the public one. */
  authorize(request: Request): Promise<Response | null>;
  /** One for each socket: it may remember (the newest response id, an open acknowledgement). */
  connect(request: Request): Translator;
}

export interface Translator {
  /** Frames that leave as soon as the socket is open, before anything is read (Retell's config). */
  readonly opening?: readonly string[];
  /** One text frame -> what happened, in order, and what is answered before anything else (acknowledgements, pongs). Frames of
   *  unknown type give nothing. Throws on what is no frame at all: the socket is closed with 1007. */
  read(frame: string): Reading;
  /** One command -> the frames that carry it; none where the dialect has no word for it. */
  write(command: Command): readonly string[];
  /** A frame that has to be sent at regular times (Retell's ping_pong). */
  readonly beat?: { readonly everyMs: number; frame(): string };
}

export interface Reading {
  readonly events: readonly CallEvent[];
  readonly answers?: readonly string[];
}

/** What happened in a call. */
export type CallEvent =
  | StartEvent
  /** The caller finished an utterance. `language` as the provider reports it (`en-US`, `en`), or null. */
  | { readonly kind: "turn"; readonly text: string; readonly language: string | null }
  /** The caller is speaking; the text is not final (or not known: ""). */
  | { readonly kind: "partial"; readonly text: string }
  /** One or several keys, in order: `0`-`9`, `*`, `#`. */
  | { readonly kind: "digits"; readonly digits: string }
  /** The caller cut us short. `heard`: what was spoken of our words until then; null when unknown. */
  | { readonly kind: "interrupted"; readonly heard: string | null }
  /** We are heard now, or no longer. */
  | { readonly kind: "playback"; readonly speaking: boolean }
  /** The provider says that the caller has been silent for long (only with `reportsSilence`). */
  | { readonly kind: "silence" }
  /** What came of a `transfer` (only with `transfer: "dial"`). `answered`: a human had the call, and the call is over;
   *  `unanswered`: the caller is with us again; `gone`: nobody answered, and the caller hung up. */
  | { readonly kind: "dialed"; readonly outcome: "answered" | "unanswered" | "gone" }
  /** The provider complains; the call goes on. `text` is for the log: a constant or a code, never the caller's words. */
  | { readonly kind: "problem"; readonly text: string }
  /** The call is over: hung up, failed. No other event follows. `reason` is short and stable (`hung-up`, `no-answer`). */
  | { readonly kind: "end"; readonly reason: string };

/** The first event of a socket. A second one on the same socket means that the connection was resumed. */
export interface StartEvent {
  readonly kind: "start";
  /** The provider's name of the call: the session's id. */
  readonly call: string;
  /** The person: the caller, or whom we called. E.164, `sip:...`; null when withheld. */
  readonly person: string | null;
  /** Our number or address. */
  readonly ours: string | null;
  readonly language: string | null;
  /** The id of this opening, new for every connection (`[A-Za-z0-9_-]+`, at most 64). The same ticket twice is a replay. Null: the
   *  caller of the socket could not show that it belongs to this call; it is closed with 1008. */
  readonly ticket: string | null;
  /** The provider says that this goes on with an earlier connection: no greeting. What is stored says so too. */
  readonly resumed: boolean;
}

/** What the engine wants. */
export type Command =
  /** Speak. Pieces follow each other without a pause and include their own spaces; `last` closes the talk cycle, and an empty
   *  text with `last` closes one that was begun. `text` is speakable already. */
  | {
      readonly kind: "say";
      readonly text: string;
      readonly last: boolean;
      readonly language: string | null;
    }
  /** Be silent now. */
  | { readonly kind: "stop" }
  /** From now on this language is spoken and heard (BCP 47). */
  | { readonly kind: "language"; readonly language: string }
  /** End the call, after what was said is spoken. */
  | { readonly kind: "end" }
  /** Give the call to a human. `data` is JSON text below 4 KB without personal words; `to` is a number or `sip:` address, null when
   *  the configuration names none. */
  | { readonly kind: "transfer"; readonly data: string; readonly to: string | null };

/** What the adapter offers to the HTTP side of a dialect. */
export interface Front {
  readonly channel: Channel;
  readonly config: VoiceConfig;
  /** Stores that the call is over; repeated calls change nothing. Does nothing for a call that was never opened. */
  closed(call: string, reason: string): Promise<void>;
  /** The words that begin a call in that language: the configured greeting, else the agent's introduction, else null. */
  greeting(language: string): string | null;
}
