// A dialect translates one provider's frames or requests into call events, and commands into frames or responses. It has
// no turns, timers or phrases: the engine implements them once for all dialects. A new dialect is one file with a
// `Dialect`, given to `voiceAdapter`.

import type { HttpRoute, RoutePath } from "bridgehead/contract";
import type * as z from "zod";
import type { VoiceConfig } from "../config.ts";
import type { VoiceChannel } from "../engine/record.ts";

/** A provider of calls that the configuration can name. */
export interface Dialect<Block extends z.ZodType = z.ZodType> {
  /** The value of the key `dialect`. */
  readonly name: string;
  /** The carrier that owns the numbers, when several dialects share one. Default: the dialect's name. */
  readonly carrier?: string;
  /** The dialect's own configuration keys: a block under its name, which is then required. */
  readonly block?: Block;
  /** Common keys that this dialect requires. */
  readonly needs?: readonly (keyof VoiceConfig)[];
  /** Keys that most dialects reject because they would have no effect. */
  readonly supports?: readonly RelayKey[];
  readonly can: Capabilities;
  /** Creates the dialect of one channel. Does no I/O and starts no timers. */
  create(channel: VoiceChannel, block: z.output<Block>): Connection;
}

/** Configuration keys that map to an attribute of Twilio's ConversationRelay. */
export type RelayKey = "interrupt_sensitivity" | "ignore_backchannel" | "transcription_language";

/** Checks a dialect against the type of its block. */
export function defineDialect<Block extends z.ZodType>(dialect: Dialect<Block>): Dialect {
  return dialect;
}

/** How the provider connects to one channel. A call uses the socket, or requests; with both, requests are the fallback
 *  of a socket that cannot be reached. */
export interface Connection {
  readonly socket?: SocketSide;
  readonly requests?: RequestSide;
  /** HTTP routes for call start, end and transfer. None when the provider does all of this over the socket. */
  readonly routes?: readonly HttpRoute[];
}

export interface Capabilities {
  /** True when the response that starts the call contains the greeting. Otherwise the engine speaks the greeting
   *  first. */
  readonly greets: boolean;
  /** True when `stop` ends the current speech at once. Otherwise the provider stops speech on barge-in. */
  readonly stops: boolean;
  /** True when the provider reports a silent caller (`silence`). The engine then runs no silence timer. */
  readonly reportsSilence: boolean;
  /** True when a turn is only reported after our speech has finished or was interrupted. Otherwise the caller may
   *  speak during it. */
  readonly turnsEndSpeech?: true;
  /** True when one event contains the complete utterance. Otherwise utterances in quick succession are one message. */
  readonly wholeTurns?: true;
  /** How a call is transferred to a human. `callback`: after we end the session, the provider requests instructions
   *  over HTTP. `frame`: the `transfer` command transfers the call, which then ends for us. `dial`: the `transfer`
   *  command rings the targets, and the `dialed` event reports the result. `none`: transfer is not supported. */
  readonly transfer: "callback" | "frame" | "dial" | "none";
}

/** The side of a dialect without a socket (Twilio's Gather). The provider requests instructions, plays them, and posts
 *  what the caller said with its next request. The engine holds a request while the agent prepares a reply. */
export interface RequestSide {
  readonly path: RoutePath;
  readonly can: Capabilities;
  /** Verifies and parses a request. Null: verification failed, and the response is 403. */
  read(request: Request): Promise<CallRequest | null>;
  /** Renders the instructions. Their next request must return `state`. */
  write(instructions: SpeechInstructions): Response;
}

export interface CallRequest {
  readonly call: string;
  readonly person: string | null;
  readonly ours: string | null;
  /** Returned by the provider as written. Null: the call begins. Any process can handle the next request, so it must
   *  be signed. */
  readonly state: RequestState | null;
  /** The greeting of a call that begins; null: the configured one. */
  readonly greeting: string | null;
  /** What the caller did since the last instructions; null: the request continues to wait for a reply. */
  readonly event: CallEvent | null;
}

export interface RequestState {
  /** The number of the caller's next message. */
  readonly next: number;
  /** When the pending question was asked, in milliseconds; null when it is the caller's turn. */
  readonly askedAt: number | null;
}

export interface SpeechInstructions {
  readonly call: string;
  /** Speech, one text for each sentence. */
  readonly pieces: readonly string[];
  /** What follows the speech. `listen`: recognize the caller's answer. `wait`: request again at once. `transfer`: to a
   *  human, as stored. `end`: hang up. */
  readonly step: "listen" | "wait" | "transfer" | "end";
  /** Data of a transfer, as in its command. */
  readonly data: string | null;
  readonly state: RequestState;
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
  read(frame: string): DialectReading;
  /** Returns the frames for one command; none when the dialect does not support the command. */
  write(command: DialectCommand): readonly string[];
  /** A frame to send at regular intervals (Retell's ping_pong). */
  readonly beat?: { readonly everyMs: number; frame(): string };
}

export interface DialectReading {
  readonly events: readonly CallEvent[];
  readonly answers?: readonly string[];
}

export type CallEvent =
  | StartEvent
  /** The caller finished an utterance. `language` is the value that the provider reports (`en-US`, `en`), or null. */
  | { readonly kind: "turn"; readonly text: string; readonly language: string | null }
  /** The caller is speaking. The text is not final, or "" when unknown. */
  | { readonly kind: "partial"; readonly text: string }
  /** The caller has started or stopped speaking. A turn also reports the stop. The caller is not silent in between. Sent
   *  only when the provider reports both. */
  | { readonly kind: "speaking"; readonly speaking: boolean }
  /** One or several DTMF digits, in order: `0`-`9`, `*`, `#`. */
  | { readonly kind: "digits"; readonly digits: string }
  /** The caller interrupted our speech (barge-in). `heard`: the part that was spoken until then; null when unknown.
   *  An estimate is not stored. */
  | { readonly kind: "interrupted"; readonly heard: string | null; readonly estimated?: true }
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
  /** The id of this opening, new for every connection (`[A-Za-z0-9_-]+`, at most 64 characters). A repeated ticket is a
   *  replay. On null the client did not prove that its socket belongs to this call; the socket is closed with 1008. */
  readonly ticket: string | null;
  /** The provider reports that this connection resumes an earlier one: no greeting. The stored session shows a
   *  resume as well. */
  readonly resumed: boolean;
}

export type DialectCommand =
  /** Speak. Pieces are played without a pause between them and include their own spaces. `last` closes the talk
   *  cycle; an empty text with `last` closes an open cycle. `text` is already speakable. */
  | { readonly kind: "say"; readonly text: string; readonly last: boolean; readonly language: string | null }
  /** Stop speaking at once. */
  | { readonly kind: "stop" }
  /** Switch speech synthesis and recognition to this language (BCP 47). */
  | { readonly kind: "language"; readonly language: string }
  /** End the call after queued speech was spoken. */
  | { readonly kind: "end" }
  /** Transfer the call to a human. `data` is JSON text below 4 KB without conversation text. `to` is a number or
   *  `sip:` address; null when the configuration has none. */
  | { readonly kind: "transfer"; readonly data: string; readonly to: string | null };
