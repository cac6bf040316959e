// jambonz (docs.jambonz.org, WebSocket API) connects to us for each call, sends `session:new` and `verb:hook` requests,
// and executes the verbs in the response. A background gather (`bargeIn`) listens during the whole call; barge-in stops
// our speech and drops the queue behind it. Each piece of speech is a queued `say` verb. (The streaming commands
// `tts:tokens` and `tts:clear` work with some of the speech vendors only.) During a transfer the connection stays open,
// and the hook of `dial` reports the result. Voicemail is not supported: jambonz has no verb that records over this
// socket (`listen` needs its own server). Responders get a missed-call message instead.

import { sameText } from "bridgehead/contract";
import * as z from "zod";
import { secret, type VoiceConfig } from "../config.ts";
import {
  type CallEvent,
  type DialectCommand,
  type DialectReading,
  defineDialect,
  type SocketSide,
  type Translator,
} from "./dialect.ts";

/** Message types that need an acknowledgement with their id within 5 s. Without it jambonz treats the socket as
 *  failed. */
const asking = new Set(
  "session:new session:reconnect session:redirect session:adulting verb:hook dial:confirm".split(" "),
);
/** Maps final call statuses, answered or not, to end reasons. */
const over: ReadonlyMap<unknown, string> = new Map([
  ["completed", "hung-up"],
  ["failed", "failed"],
  ["busy", "busy"],
  ["no-answer", "no-answer"],
]);

export const jambonz = defineDialect({
  name: "jambonz",
  block: z
    .strictObject({
      user: z.string().min(1).describe("Which user name does jambonz send?"),
      password: secret("What is the password?"),
    })
    .describe("jambonz: how are requests of jambonz authenticated?"),
  can: { greets: false, stops: true, reportsSilence: false, transfer: "dial" },
  create({ config }, { user, password }) {
    const right = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
    const socket: SocketSide = {
      paths: ["/relay"],
      protocol: "ws.jambonz.org",
      async authorize(request) {
        if (sameText(right, request.headers.get("authorization") ?? "")) return null;
        return new Response("who are you?\n", {
          status: 401,
          headers: { "www-authenticate": 'Basic realm="bridgehead"' },
        });
      },
      connect: () => new JambonzTranslator(jambonzVerbs(config)),
    };
    return { socket };
  },
});

/** The translator of one connection. It tracks which pieces of speech are still queued. */
class JambonzTranslator implements Translator {
  readonly #verbs: ReturnType<typeof jambonzVerbs>;
  #said = 0;
  /** Text of unfinished `say` verbs by verb id, in order. */
  readonly #waiting = new Map<string, string>();
  /** Text of this talk cycle that was played completely. */
  #played: string[] = [];
  #speaking = false;
  /** True while transfer targets ring or have the call. */
  #dialing = false;
  #answered = false;

  constructor(verbs: ReturnType<typeof jambonzVerbs>) {
    this.#verbs = verbs;
  }

  read(frame: string): DialectReading {
    const message = readMessage(frame);
    const events = this.#events(message);
    if (!asking.has(message.type)) return { events };
    // An empty response to `session:new` would end the call for lack of verbs. A `session:reconnect` may replace a
    // `session:new` without response, so it gets the same verbs. In other cases jambonz ignores the data of an
    // acknowledgement.
    const begins = message.type === "session:new" || message.type === "session:reconnect";
    const data = begins ? { data: this.#verbs.beginning } : this.#following(message);
    return { events, answers: [JSON.stringify({ type: "ack", msgid: message.msgid, ...data })] };
  }

  write(command: DialectCommand): readonly string[] {
    if (command.kind === "stop") {
      this.#forget();
      return [redirect(false, this.#verbs.nothing)];
    }
    if (command.kind === "transfer") [this.#dialing, this.#answered] = [true, false];
    if (command.kind !== "say") return [redirect(true, ...this.#verbs.of(command))];
    const text = command.text.trim();
    if (text === "") return [];
    if (this.#waiting.size === 0) this.#played = [];
    const id = `say-${++this.#said}`;
    this.#waiting.set(id, text);
    return [redirect(true, this.#verbs.say(id, text, command.language))];
  }

  #events(message: JambonzMessage): readonly CallEvent[] {
    switch (message.type) {
      case "session:new":
      case "session:reconnect":
        return [started(message)];
      case "verb:hook":
        return this.#hook(message);
      case "verb:status":
        return this.#status(message.data);
      case "call:status":
        return this.#ended(message);
      case "jambonz:error":
        return [{ kind: "problem", text: "jambonz:error" }];
      default:
        return [];
    }
  }

  #hook({ hook: name, data }: JambonzMessage): readonly CallEvent[] {
    if (name === hooks.partial) {
      const text = transcriptIn(data);
      return text === null ? [] : [{ kind: "partial", text: text.words }];
    }
    if (name === hooks.dialed) {
      if (taken(data)) return this.#dialed("answered");
      return this.#dialed(over.has(data["call_status"]) ? "gone" : "unanswered");
    }
    if (name !== hooks.turn) return [];
    // jambonz collects digits until # or a timeout, and omits the # from its message.
    if (typeof data["digits"] === "string" && data["digits"] !== "")
      return [...this.#cut(), { kind: "digits", digits: `${data["digits"]}#` }];
    const spoken = transcriptIn(data);
    if (spoken === null) return data["reason"] === "error" ? [{ kind: "problem", text: "speech recognition" }] : [];
    return [...this.#cut(), { kind: "turn", text: spoken.words, language: spoken.language }];
  }

  /** Handles the progress of a verb. */
  #status({ id, event }: JambonzMessage["data"]): readonly CallEvent[] {
    const words = typeof id === "string" ? this.#waiting.get(id) : undefined;
    if (typeof id !== "string" || words === undefined) return [];
    if (event === "start-playback" && !this.#speaking) {
      this.#speaking = true;
      return [{ kind: "playback", speaking: true }];
    }
    // Only barge-in causes this event here: our own `stop` clears the entries first.
    if (event === "kill-playback") return this.#cut();
    if (event !== "finished") return [];
    this.#waiting.delete(id);
    this.#played.push(words);
    return this.#waiting.size === 0 ? this.#quiet() : [];
  }

  #ended({ callSid, data: { call_sid: leg, call_status: state } }: JambonzMessage): readonly CallEvent[] {
    // Call legs to transfer targets are reported over the same connection. The end of such a leg does not end the call.
    if (typeof leg === "string" && leg !== callSid) {
      if (state === "in-progress") this.#answered = true;
      return [];
    }
    const reason = over.get(state);
    if (reason === undefined) return [];
    return [...this.#dialed(this.#answered ? "answered" : "gone"), { kind: "end", reason }];
  }

  #dialed(outcome: "answered" | "unanswered" | "gone"): readonly CallEvent[] {
    if (!this.#dialing) return [];
    this.#dialing = false;
    return [{ kind: "dialed", outcome }];
  }

  #cut(): readonly CallEvent[] {
    if (this.#waiting.size === 0) return [];
    const words = this.#played.join(" ");
    this.#forget();
    return [{ kind: "interrupted", heard: words === "" ? null : words }, ...this.#quiet()];
  }

  #forget(): void {
    this.#waiting.clear();
    this.#played = [];
  }

  #quiet(): readonly CallEvent[] {
    if (!this.#speaking) return [];
    this.#speaking = false;
    return [{ kind: "playback", speaking: false }];
  }

  /** Replaces the verbs queued behind a dial. Otherwise jambonz would dial twice or drop the call. */
  #following({ hook: name, data }: JambonzMessage) {
    if (name !== hooks.dialed) return {};
    return { data: taken(data) ? [hangup] : this.#verbs.notAnswered };
  }
}

/** Returns whether a transfer was answered. A failed dial ends with its last status (`ringing`, `early-media`); only
 *  `completed` means answered. */
const taken = (data: JambonzMessage["data"]): boolean => data["dial_call_status"] === "completed";

/** Builds the start event. The ticket is the message id: it is new for each connection, and only jambonz can create
 *  one. */
function started({ type, msgid, callSid, data }: JambonzMessage): CallEvent {
  const outbound = data["direction"] === "outbound";
  const [ours, person] = outbound ? [data["from"], data["to"]] : [data["to"], data["from"]];
  return {
    kind: "start",
    call: callSid,
    person: personIn(person),
    ours: personIn(ours),
    language: null,
    ticket: msgid,
    resumed: type === "session:reconnect",
  };
}

/** Builds a redirect command. With `queueCommand` the verbs are queued; otherwise they replace the current ones. */
const redirect = (queueCommand: boolean, ...data: readonly Verb[]): string =>
  JSON.stringify({ type: "command", command: "redirect", queueCommand, data });

// The jambonz messages that this adapter reads. Names are in snake case; any field may be missing.

export interface JambonzMessage {
  readonly type: string;
  /** `[A-Za-z0-9_-]`, at most 64 characters. */
  readonly msgid: string;
  readonly callSid: string;
  readonly hook: string | null;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Throws an error on a frame that is not a jambonz message. */
function readMessage(frame: string): JambonzMessage {
  const message = record(JSON.parse(frame));
  const { type, msgid, call_sid: callSid, hook } = message;
  if (typeof type !== "string" || type === "") throw new Error("a message without type");
  const name = (text: unknown) => (typeof text === "string" && /^[\w-]{1,64}$/.test(text) ? text : null);
  const [id, call] = [name(msgid), name(callSid)];
  if (id === null) throw new Error("a message without msgid");
  if (call === null && type.startsWith("session:")) throw new Error("a session without call_sid");
  return {
    type,
    msgid: id,
    callSid: call ?? "",
    hook: typeof hook === "string" ? hook : null,
    data: record(message["data"]),
  };
}

/** Returns the best transcript alternative and its language; null when there is no transcript. */
function transcriptIn(
  data: Readonly<Record<string, unknown>>,
): { readonly words: string; readonly language: string | null } | null {
  const speech = record(data["speech"]);
  const [best] = Array.isArray(speech["alternatives"]) ? (speech["alternatives"] as unknown[]) : [];
  const words = record(best)["transcript"];
  if (typeof words !== "string" || words.trim() === "") return null;
  const language = speech["language_code"];
  return { words, language: typeof language === "string" && language !== "" ? language : null };
}

/** Returns the party from the user part of a SIP address in carrier notation: E.164 for a number, else `sip:`, also for a
 *  withheld one. */
function personIn(user: unknown): string | null {
  if (typeof user !== "string") return null;
  const name = user.trim();
  if (name === "") return null;
  const digits = name.replace(/[\s().-]/g, "");
  if (/^\+[1-9]\d{4,14}$/.test(digits)) return digits;
  // A complete international number without its plus sign. Shorter numbers are national ones or extensions.
  if (/^[1-9]\d{9,14}$/.test(digits)) return `+${digits}`;
  return name.startsWith("sip:") ? name : `sip:${name}`;
}

const record = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

// Builds the jambonz verbs (docs.jambonz.org/verbs) from the channel's configuration.

export type Verb = { readonly verb: string; readonly [key: string]: unknown };

/** Hook names under which the background gather and `dial` send their requests. */
const hooks = { turn: "/turn", partial: "/partial", dialed: "/dialed" } as const;
const hangup: Verb = { verb: "hangup" };

function jambonzVerbs(config: VoiceConfig) {
  const listening = {
    enable: true,
    sticky: true,
    input: ["speech", "digits"],
    actionHook: hooks.turn,
    partialResultHook: hooks.partial,
    finishOnKey: "#",
    minDigits: 1,
    interDigitTimeout: config.digits.pause / 1000,
    dtmfBargein: config.interruptible === "any" || config.interruptible === "dtmf",
  };
  const voice = (language: string) => synthesizer(config, language);
  const ear = (language: string) => recognizer(config, language);
  const beginning: readonly Verb[] = [
    {
      verb: "config",
      notifyEvents: true,
      synthesizer: voice(config.language),
      recognizer: ear(config.language),
      bargeIn: listening,
    },
  ];
  const nothing: Verb = { verb: "config", notifyEvents: true };
  return {
    /** The first verbs of a call: voice, recognizer and background gather. */
    beginning,
    /** A verb without effect that replaces the queue. An empty list would end an idle call. */
    nothing,
    /** Verbs that replace the queue after an unanswered dial. */
    notAnswered: config.transfer?.no_answer === "agent" ? beginning : [nothing],
    say: (id: string, text: string, language: string | null): Verb => ({
      verb: "say",
      id,
      text,
      ...(language === null ? {} : { synthesizer: voice(language) }),
    }),
    of(command: Exclude<DialectCommand, { kind: "say" } | { kind: "stop" }>): readonly Verb[] {
      if (command.kind === "language") {
        const { language } = command;
        // A background gather keeps the language of its start, so a language change restarts it.
        return [
          { verb: "config", bargeIn: { enable: false } },
          { verb: "config", synthesizer: voice(language), recognizer: ear(language), bargeIn: listening },
        ];
      }
      return command.kind === "end" ? [hangup] : dialing(config, command.to);
    },
  };
}

/** Builds the verbs of a transfer. Recognition is off during the transfer. The response to the dial hook replaces
 *  the verbs after `dial`; the final `hangup` runs only when the hook request fails. */
function dialing(config: VoiceConfig, to: string | null): readonly Verb[] {
  const { transfer } = config;
  const numbers = transfer?.dial ?? (to === null ? [] : [to]);
  if (transfer === undefined || numbers.length === 0) return [hangup];
  const target = numbers.map((one) =>
    one.startsWith("sip:") ? { type: "sip", sipUri: one } : { type: "phone", number: one },
  );
  const callerId = transfer.caller_id;
  return [
    { verb: "config", bargeIn: { enable: false } },
    {
      verb: "dial",
      actionHook: hooks.dialed,
      answerOnBridge: true,
      timeout: Math.round(transfer.timeout / 1000),
      ...(callerId === undefined ? {} : { callerId }),
      target,
    },
    hangup,
  ];
}

/** `default` selects the vendor that is configured for the application in jambonz. */
function synthesizer(config: VoiceConfig, language: string) {
  const { tts_provider: vendor, voice } = spokenIn(config, language);
  return { vendor: vendor?.toLowerCase() ?? "default", language, ...(voice === undefined ? {} : { voice }) };
}

function recognizer(config: VoiceConfig, language: string) {
  const { transcription_provider: vendor, speech_model: model } = spokenIn(config, language);
  return {
    vendor: vendor?.toLowerCase() ?? "default",
    language,
    ...(model === undefined ? {} : { model }),
    ...(config.hints.length === 0 ? {} : { hints: config.hints }),
    ...(config.speech_timeout === "auto" ? {} : { asrTimeout: config.speech_timeout / 1000 }),
  };
}

type JambonzSpeech = Pick<VoiceConfig, "voice" | "tts_provider" | "transcription_provider" | "speech_model">;

/** Returns the settings of an additional language, or the channel's defaults. */
function spokenIn(config: VoiceConfig, language: string): JambonzSpeech {
  return config.languages.find(({ code }) => code === language) ?? config;
}
