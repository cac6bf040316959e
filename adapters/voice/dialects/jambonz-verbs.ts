// The verbs we give jambonz (docs.jambonz.org/verbs), made from the configuration of the channel.

import type { VoiceConfig } from "../config.ts";
import type { Command } from "./dialect.ts";

export type Verb = { readonly verb: string; readonly [key: string]: unknown };

export interface JambonzVerbs {
  /** Under which names the background gather reports. */
  readonly hooks: { readonly turn: string; readonly partial: string; readonly dialed: string };
  /** What a call begins with: the voice, the recogniser, and listening. */
  readonly beginning: readonly Verb[];
  /** Does nothing; takes the place of what was queued. An empty list in an idle call would end it. */
  readonly nothing: Verb;
  readonly hangup: Verb;
  /** What follows a dial that nobody answered, in place of everything queued: back to the agent means to be heard again. */
  readonly untaken: readonly Verb[];
  say(id: string, text: string, language: string | null): Verb;
  of(command: Exclude<Command, { kind: "say" } | { kind: "stop" }>): readonly Verb[];
}

const hooks = { turn: "/turn", partial: "/partial", dialed: "/dialed" } as const;
const hangup: Verb = { verb: "hangup" };

export function jambonzVerbs(config: VoiceConfig): JambonzVerbs {
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
    hooks,
    beginning,
    nothing,
    hangup,
    untaken: config.hand_over?.no_answer === "agent" ? beginning : [nothing],
    say: (id, text, language) => ({
      verb: "say",
      id,
      text,
      ...(language === null ? {} : { synthesizer: voice(language) }),
    }),
    of(command) {
      if (command.kind === "language") {
        const { language } = command;
        // A gather hears in the language it was started with.
        return [
          { verb: "config", bargeIn: { enable: false } },
          { verb: "config", synthesizer: voice(language), recognizer: ear(language), bargeIn: listening },
        ];
      }
      return command.kind === "end" ? [hangup] : dialing(config, command.to);
    },
  };
}

/** Nobody listens to the two any more. What follows the dial is what we answer to its hook; the call is over after it only when
 *  we cannot be asked. */
function dialing(config: VoiceConfig, to: string | null): readonly Verb[] {
  const numbers = config.hand_over?.dial ?? (to === null ? [] : [to]);
  if (numbers.length === 0) return [hangup];
  const target = numbers.map((one) =>
    one.startsWith("sip:") ? { type: "sip", sipUri: one } : { type: "phone", number: one },
  );
  const callerId = config.hand_over?.caller_id;
  return [
    { verb: "config", bargeIn: { enable: false } },
    {
      verb: "dial",
      actionHook: hooks.dialed,
      answerOnBridge: true,
      timeout: Math.round((config.hand_over?.timeout ?? 25_000) / 1000),
      ...(callerId === undefined ? {} : { callerId }),
      target,
    },
    hangup,
  ];
}

/** `default` is what the application in jambonz is set to. */
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

type Speech = Pick<VoiceConfig, "voice" | "tts_provider" | "transcription_provider" | "speech_model">;

/** The settings of a further language, else those of the channel. */
function spokenIn(config: VoiceConfig, language: string): Speech {
  return config.languages.find(({ code }) => code === language) ?? config;
}
