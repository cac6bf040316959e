// Twilio ConversationRelay (twilio.com/docs/voice/conversationrelay). Calls start with TwiML. Messages use a websocket
// that Twilio opens, and Twilio requests further instructions from the action URL.

import { type ConnectCall, callRoutes } from "../call-routes.ts";
import type { VoiceConfig } from "../config.ts";
import { partiesOf } from "../engine/record.ts";
import { callToken, readToken, signedParams, socketUrl, upgradeIsSigned } from "../proof.ts";
import { element } from "../twiml.ts";
import { type CallEvent, type DialectCommand, defineDialect, type Translator } from "./dialect.ts";
import { gatherRequests } from "./gather.ts";

const path = "/relay";

export const twilio = defineDialect({
  name: "twilio",
  needs: ["auth_tokens"],
  supports: ["interrupt_sensitivity", "ignore_backchannel", "transcription_language"],
  can: { greets: true, stops: false, reportsSilence: false, transfer: "callback" },
  create(voice) {
    const { channel, config, timing } = voice;
    const secrets = config.auth_tokens ?? [];
    const [secret = ""] = secrets;
    return {
      socket: {
        paths: [path],
        authorize: async (request) =>
          upgradeIsSigned(voice, secrets, path, request) ? null : new Response(null, { status: 403 }),
        connect: () =>
          relayTranslator((setup) =>
            readToken(secrets, setup.customParameters?.token, setup.callSid ?? "", channel.clock.now()),
          ),
      },
      routes: callRoutes(voice, {
        verify: (request, at) => signedParams(voice, secrets, at, request),
        connect: (call) => {
          const token = callToken(secret, call.call, channel.clock.now() + timing.token);
          return connectVerb(config, { ...call, url: socketUrl(channel.url(path)), token });
        },
      }),
      ...(config.fallback === "gather" ? { requests: gatherRequests(voice) } : {}),
    };
  },
});

/** Builds the Connect verb. Every attribute that matters is set explicitly, as documented by Twilio: its defaults
 *  have changed before. */
function connectVerb(config: VoiceConfig, call: ConnectCall & { url: string; token: string }): string {
  const timeout = config.speech_timeout;
  const relay = {
    url: call.url,
    welcomeGreeting: call.greeting,
    welcomeGreetingInterruptible: config.interruptible,
    ...languageAttributes(config, call.language),
    ttsProvider: config.tts_provider ?? "ElevenLabs",
    voice: config.voice,
    transcriptionProvider: config.transcription_provider ?? "Deepgram",
    speechModel: config.speech_model,
    speechTimeout: timeout,
    interruptible: config.interruptible,
    interruptSensitivity: config.interrupt_sensitivity ?? "high",
    reportInputDuringAgentSpeech: config.interruptible,
    preemptible: false,
    partialPrompts: false,
    ignoreBackchannel: config.ignore_backchannel ?? false,
    dtmfDetection: true,
    profanityFilter: false,
    hints: config.hints.length > 0 ? config.hints.join(", ") : null,
    events: "speaker-events",
    // A lost connection is resumed through the action callback, by any process that handles the request.
    applicationReconnect: false,
  };
  const languages = config.languages.map((one) =>
    element("Language", {
      code: one.code,
      ttsProvider: one.tts_provider ?? config.tts_provider ?? "ElevenLabs",
      voice: one.voice,
      transcriptionProvider: one.transcription_provider ?? config.transcription_provider ?? "Deepgram",
      speechModel: one.speech_model ?? config.speech_model,
    }),
  );
  const parameter = element("Parameter", { name: "token", value: call.token });
  return element("Connect", { action: call.action, method: "POST" }, [
    element("ConversationRelay", relay, [...languages, parameter]),
  ]);
}

/** With `multi` Twilio reports the language of each prompt. When `languages` is configured, our text messages carry
 *  their language (`lang`). Without that list ElevenLabs speaks each text in the language it is written in
 *  (`ttsLanguage="multi"`). */
function languageAttributes(
  { transcription_language: heard, languages }: VoiceConfig,
  language: string,
): Readonly<Record<string, string>> {
  if (heard === undefined) return { language };
  const spoken = heard === "multi" && languages.length === 0 ? "multi" : language;
  return { ttsLanguage: spoken, transcriptionLanguage: heard };
}

/** The fields of a `setup` message that this adapter reads, for ConversationRelay and Telnyx. */
export interface Setup {
  readonly callSid?: string;
  readonly sessionId?: string;
  readonly from?: string;
  readonly to?: string;
  readonly direction?: string;
  readonly customParameters?: Readonly<Record<string, string | undefined>>;
}

/** A message of any type with unvalidated fields. */
type TwilioFrame = { readonly [field: string]: unknown };
const textIn = (value: unknown): string | null => (typeof value === "string" ? value : null);

/** Translates the messages of ConversationRelay and compatible providers. `admit` returns the ticket for a setup
 *  message, or null. */
export function relayTranslator(admit: (setup: Setup) => string | null): Translator {
  return {
    read(frame) {
      const parsed: unknown = JSON.parse(frame);
      if (parsed === null || typeof parsed !== "object") throw new Error("reading a frame: it is no object");
      const event = eventOf(parsed as TwilioFrame, admit);
      return { events: event ? [event] : [] };
    },
    write: framesOf,
  };
}

function eventOf(frame: TwilioFrame, admit: (setup: Setup) => string | null): CallEvent | null {
  switch (frame.type) {
    case "setup": {
      const setup = setupIn(frame);
      const call = setup.callSid ?? "";
      const parties = partiesOf({ From: setup.from, To: setup.to, Direction: setup.direction });
      const ticket = call === "" ? null : admit(setup);
      return { kind: "start", call, ...parties, language: null, ticket, resumed: false };
    }
    case "prompt": {
      const text = textIn(frame.voicePrompt) ?? "";
      if (frame.last === false) return { kind: "partial", text };
      return { kind: "turn", text, language: textIn(frame.lang) };
    }
    case "dtmf":
      return { kind: "digits", digits: textIn(frame.digit) ?? "" };
    case "interrupt":
      return { kind: "interrupted", heard: textIn(frame.utteranceUntilInterrupt) };
    case "info":
      return infoOf(frame);
    case "error":
      return { kind: "problem", text: "error frame" };
    default:
      return null;
  }
}

function setupIn(frame: TwilioFrame): Setup {
  const names = ["callSid", "sessionId", "from", "to", "direction"] as const;
  const texts = names.flatMap((name) => (typeof frame[name] === "string" ? [[name, frame[name]]] : []));
  const parameters = Object.entries(Object(frame.customParameters) as TwilioFrame);
  const custom = parameters.map(([name, value]) => [name, textIn(value) ?? undefined]);
  return { ...Object.fromEntries(texts), customParameters: Object.fromEntries(custom) };
}

function infoOf({ name, value }: TwilioFrame): CallEvent | null {
  const on = value === true || value === "on" || value === "true";
  if (name === "agentSpeaking") return { kind: "playback", speaking: on };
  if (name === "clientSpeaking") return { kind: "speaking", speaking: on };
  return null;
}

function framesOf(command: DialectCommand): readonly string[] {
  switch (command.kind) {
    case "say": {
      const lang = command.language === null ? {} : { lang: command.language };
      return [JSON.stringify({ type: "text", token: command.text, last: command.last, ...lang })];
    }
    case "language":
      return [JSON.stringify({ type: "language", ttsLanguage: command.language })];
    case "end":
      return [JSON.stringify({ type: "end" })];
    case "transfer":
      return [JSON.stringify({ type: "end", handoffData: command.data })];
    case "stop":
      return []; // Twilio stops speech on barge-in and has no message for it
  }
}
