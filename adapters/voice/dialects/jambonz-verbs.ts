// Builds the jambonz verbs (docs.jambonz.org/verbs) from the channel's configuration.

import type { VoiceConfig } from "../config.ts";
import type { Command } from "./dialect.ts";

export type Verb = { readonly verb: string; readonly [key: string]: unknown };

export interface JambonzVerbs {
  /** Hook names under which the background gather and `dial` send their requests. */
  readonly hooks: { readonly turn: string; readonly partial: string; readonly dialed: string };
  /** The first verbs of a call: voice, recognizer and background gather. */
  readonly beginning: readonly Verb[];
  /** A verb without effect that replaces the queue. An empty list would end an idle call. */
  readonly nothing: Verb;
  readonly hangup: Verb;
  /** Verbs that replace the queue after an unanswered dial. With `no_answer: agent` they enable the background
   *  gather again. */
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

type Speech = Pick<VoiceConfig, "voice" | "tts_provider" | "transcription_provider" | "speech_model">;

/** Returns the settings of an additional language, or the channel's defaults. */
function spokenIn(config: VoiceConfig, language: string): Speech {
  return config.languages.find(({ code }) => code === language) ?? config;
}
