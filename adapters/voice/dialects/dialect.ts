// A dialect translates one provider's frames into call events, and commands into frames. It has no turns, timers or
// phrases: the engine implements them once for all dialects.

import type { Attempt, Channel, HttpRoute, RoutePath, SendOutcome } from "bridgehead/contract";
import type { VoiceConfig } from "../config.ts";
import type { Speech } from "../draft.ts";

/** Creates the dialect of one channel. Does no I/O and starts no timers. */
export type DialectMaker = (front: Front) => Dialect;

export interface Dialect {
  readonly name: string;
  readonly can: Capabilities;
  /** Null for a dialect that uses HTTP requests only. */
  readonly socket: SocketSide | null;
  /** HTTP routes for call start, end and transfer. Empty when the provider does all of this over the socket. */
  readonly routes: readonly HttpRoute[];
  /** Finds the receiver of replies for a call without a socket. Returns undefined when the call is not in this
   *  process. */
  readonly ear?: Ear;
  /** Called when the channel stops. */
  close?(): void;
}

/** Finds the object that speaks replies in a call, when that call is connected to this process. */
export type Ear = (
  call: string,
) => { answer(draft: Speech, attempt: Attempt): Promise<SendOutcome> } | undefined;

export interface Capabilities {
  /** True when the response that starts the call contains the greeting. Otherwise the engine speaks the greeting
   *  first. */
  readonly greets: boolean;
  /** True when `stop` ends the current speech at once. Otherwise the provider stops speech on barge-in. */
  readonly stops: boolean;
  /** True when the provider reports `playback`. Otherwise the engine estimates the duration of speech. */
  readonly reportsPlayback: boolean;
  /** True when the provider reports a silent caller (`silence`). The engine then runs no silence timer. */
  readonly reportsSilence: boolean;
  /** True when a turn is only reported after our speech has finished or was interrupted. Otherwise the caller may
   *  speak during it. */
  readonly turnsEndSpeech?: true;
  /** How a call is transferred to a human. `callback`: after we end the session, the provider requests instructions
   *  over HTTP. `frame`: the `transfer` command transfers the call, which then ends for us. `dial`: the `transfer`
   *  command rings the targets, and the `dialed` event reports the result. `none`: transfer is not supported. */
  readonly transfer: "callback" | "frame" | "dial" | "none";
}

export interface SocketSide {
  /** For example `/relay`, or `/llm/*` when the URL contains the call id. Several when a provider builds its URL in
   *  several ways. */
  readonly paths: readonly RoutePath[];
  readonly protocol?: string;
  /** Default: 64 KiB. */
  readonly maxFrameBytes?: number;
  /** Called before the upgrade. A returned Response rejects the request. The request's URL is the public URL. */
  authorize(request: Request): Promise<Response | null>;
  /** Creates one translator for each socket. It may keep state such as the newest response id or a pending
   *  acknowledgement. */
  connect(request: Request): Translator;
}

export interface Translator {
  /** Frames sent when the socket opens, before anything is read (Retell's config). */
  readonly opening?: readonly string[];
  /** Parses one text frame. Returns its events in order, and the frames to send first (acknowledgements, pongs).
   *  Frames of unknown type return nothing. Throws an error on an invalid frame: the socket is closed with 1007. */
  read(frame: string): Reading;
  /** Returns the frames for one command; none when the dialect does not support the command. */
  write(command: Command): readonly string[];
  /** A frame to send at regular intervals (Retell's ping_pong). */
  readonly beat?: { readonly everyMs: number; frame(): string };
}

export interface Reading {
  readonly events: readonly CallEvent[];
  readonly answers?: readonly string[];
}

/** An event in a call. */
export type CallEvent =
  | StartEvent
  /** The caller finished an utterance. `language` is the value that the provider reports (`en-US`, `en`), or null. */
  | { readonly kind: "turn"; readonly text: string; readonly language: string | null }
  /** The caller is speaking. The text is not final, or "" when unknown. */
  | { readonly kind: "partial"; readonly text: string }
  /** One or several DTMF digits, in order: `0`-`9`, `*`, `#`. */
  | { readonly kind: "digits"; readonly digits: string }
  /** The caller interrupted our speech (barge-in). `heard`: the part that was spoken until then; null when unknown. */
  | { readonly kind: "interrupted"; readonly heard: string | null }
  /** Playback of our speech has started or stopped. */
  | { readonly kind: "playback"; readonly speaking: boolean }
  /** The provider reports a long silence of the caller (only with `reportsSilence`). */
  | { readonly kind: "silence" }
  /** The result of a `transfer` (only with `transfer: "dial"`). `answered`: a human took the call, and the call has
   *  ended. `unanswered`: the caller is connected to us again. `gone`: the transfer was not answered, and the caller
   *  hung up. */
  | { readonly kind: "dialed"; readonly outcome: "answered" | "unanswered" | "gone" }
  /** The provider reports an error; the call continues. `text` is for the log: a constant or a code, never the
   *  caller's speech. */
  | { readonly kind: "problem"; readonly text: string }
  /** The call has ended: hang-up or failure. No other event follows. `reason` is short and stable (`hung-up`,
   *  `no-answer`). */
  | { readonly kind: "end"; readonly reason: string };

/** The first event of a socket. A second one on the same socket reports a resumed connection. */
export interface StartEvent {
  readonly kind: "start";
  /** The provider's call id, which is also the session id. */
  readonly call: string;
  /** The remote party: the caller, or the callee of an outbound call. E.164 or `sip:...`; null when withheld. */
  readonly person: string | null;
  /** The channel's own number or address. */
  readonly ours: string | null;
  readonly language: string | null;
  /** The id of this opening, new for every connection (`[A-Za-z0-9_-]+`, at most 64 characters). A repeated ticket
   *  is a replay. On null the client did not prove that its socket belongs to this call; the socket is closed with
   *  1008. */
  readonly ticket: string | null;
  /** The provider reports that this connection resumes an earlier one: no greeting. The stored session shows a
   *  resume as well. */
  readonly resumed: boolean;
}

/** Commands from the engine to the dialect. */
export type Command =
  /** Speak. Pieces are played without a pause between them and include their own spaces. `last` closes the talk
   *  cycle; an empty text with `last` closes an open cycle. `text` is already speakable. */
  | {
      readonly kind: "say";
      readonly text: string;
      readonly last: boolean;
      readonly language: string | null;
    }
  /** Stop speaking at once. */
  | { readonly kind: "stop" }
  /** Switch speech synthesis and recognition to this language (BCP 47). */
  | { readonly kind: "language"; readonly language: string }
  /** End the call after queued speech was spoken. */
  | { readonly kind: "end" }
  /** Transfer the call to a human. `data` is JSON text below 4 KB without conversation text. `to` is a number or
   *  `sip:` address; null when the configuration has none. */
  | { readonly kind: "transfer"; readonly data: string; readonly to: string | null };

/** The adapter's functions for the HTTP side of a dialect. */
export interface Front {
  readonly channel: Channel;
  readonly config: VoiceConfig;
  /** Stores that the call has ended. Repeated invocations have no effect, and neither does one for a call that was
   *  never opened. */
  closed(call: string, reason: string): Promise<void>;
  /** Returns the greeting for a language: the configured one, else the agent's introduction, else null. */
  greeting(language: string): string | null;
}
