// The configuration keys of a voice channel. Each description is the question that the key answers. The example
// configuration and the JSON Schema are generated from these descriptions.

import { units } from "bridgehead/contract";
import * as z from "zod";
import { digits, fillers, giveUp, handOver, resume, silence } from "./limits.ts";
import { isEd25519Key } from "./telnyx-key.ts";

const { duration } = units(z);

const secret = (question: string) => z.string().min(1).describe(question).meta({ secret: true });
const languageCode = z
  .string()
  .regex(
    /^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$/,
    "expected a language such as en-US or de; `multi` is a value of transcription_language",
  );
const ed25519Key = z
  .string()
  .refine(isEd25519Key, "expected an Ed25519 public key: base64 of 32 bytes, as the Telnyx portal shows it");
const phrase = z.string().min(1).max(400);

const speech = {
  voice: z
    .string()
    .min(1)
    .optional()
    .describe("Which voice of the provider is used? Default: the provider's."),
  tts_provider: z
    .string()
    .min(1)
    .optional()
    .describe("Which text-to-speech provider is used (ElevenLabs, Google, Amazon)? It must offer the voice."),
  transcription_provider: z
    .string()
    .min(1)
    .optional()
    .describe("Which speech-to-text provider is used (Deepgram, Google)?"),
  speech_model: z.string().min(1).optional().describe("Which speech-to-text model is used?"),
};

const phrases = z.strictObject({
  language: languageCode.describe("In which language?"),
  fillers: z
    .array(phrase)
    .min(1)
    .optional()
    .describe("What is said while the agent thinks? One after the other."),
  apology: phrase.optional().describe("What is said when no answer comes?"),
  still_there: z.array(phrase).min(1).optional().describe("What is a silent caller asked?"),
  goodbye: phrase.optional().describe("How does a call end?"),
  lost_you: phrase.optional().describe("What is said after the line to us was cut?"),
  hand_over: phrase.optional().describe("What is said before a human takes over?"),
  rest_offered: phrase
    .optional()
    .describe("What follows max_sentences when there is more? It should ask whether to go on."),
  voicemail: phrase.optional().describe("How is a caller asked to leave a message?"),
});

/** Keys that map to an attribute of Twilio's ConversationRelay only. The other dialects reject them because they
 *  would have no effect. */
const twilioOnly = ["interrupt_sensitivity", "ignore_backchannel", "transcription_language"] as const;

/** The keys that a dialect requires. */
const needed = {
  twilio: ["auth_tokens"],
  gather: ["auth_tokens"],
  telnyx: ["telnyx"],
  retell: ["retell"],
  jambonz: ["jambonz"],
} as const;

export const config = z
  .strictObject({
    dialect: z
      .enum(["twilio", "telnyx", "retell", "jambonz", "gather"])
      .prefault("twilio")
      .describe("Which provider connects the calls? `gather`: Twilio without a websocket, turn by turn."),
    auth_tokens: z
      .array(secret("A token of the Twilio account."))
      .min(1)
      .optional()
      .describe("twilio, gather: which auth tokens verify request signatures? Two during a rotation."),
    telnyx: z
      .strictObject({
        public_key: z
          .union([ed25519Key, z.array(ed25519Key).min(1)])
          .describe(
            "Which public key (base64, Ed25519) verifies webhook signatures? A list during a rotation: each key is accepted.",
          ),
        token_key: secret("From which secret are the tokens of calls derived? Choose a random one."),
      })
      .optional()
      .describe("telnyx: how are requests of Telnyx authenticated?"),
    retell: z
      .strictObject({
        secret: secret(
          "Which secret does the URL contain that Retell connects to? wss://<public_url>/channels/<id>/llm/<secret>",
        ),
        api_key: secret("Which API key verifies the signatures of its webhooks?").optional(),
      })
      .optional()
      .describe("retell: how are requests of Retell authenticated?"),
    jambonz: z
      .strictObject({
        user: z.string().min(1).describe("Which user name does jambonz send?"),
        password: secret("What is the password?"),
      })
      .optional()
      .describe("jambonz: how are requests of jambonz authenticated?"),
    account_sid: z
      .string()
      .regex(/^AC\w+$/)
      .optional()
      .describe(
        "Outbound calls: which Twilio account places them? Default: outbound calls are not possible.",
      ),
    api_key: z
      .strictObject({
        sid: z.string().min(1).describe("What is the SID of the API key?"),
        secret: secret("What is the secret of the API key?"),
      })
      .optional()
      .describe("Outbound calls: which API key is used? Default: the first of auth_tokens."),
    api_url: z.url().prefault("https://api.twilio.com").describe("What is the URL of Twilio's API?"),
    number: z
      .string()
      .regex(/^\+[1-9]\d{4,14}$/, "expected a number such as +15005550006")
      .optional()
      .describe("Which number does this channel have? Outbound calls show it."),
    language: languageCode.prefault("en-US").describe("Which language does a call start in?"),
    languages: z
      .array(z.strictObject({ code: languageCode.describe("Which language?"), ...speech }))
      .prefault([])
      .describe("Which further languages are recognized and spoken?"),
    transcription_language: z
      .union([z.literal("multi"), languageCode])
      .optional()
      .describe(
        "twilio: which language is transcribed, if not `language`? `multi`: Deepgram detects the language, and the reply is spoken in it if it is one of `languages`; without that list ElevenLabs speaks any language.",
      ),
    ...speech,
    hints: z
      .array(z.string().min(1))
      .prefault([])
      .describe("Which names and terms should the speech recognition expect?"),
    interruptible: z
      .enum(["none", "dtmf", "speech", "any"])
      .prefault("any")
      .describe("What interrupts the agent's speech (barge-in)?"),
    interrupt_sensitivity: z
      .enum(["high", "medium", "low"])
      .optional()
      .describe("twilio: how easily does the caller's speech interrupt the agent? Default: high."),
    ignore_backchannel: z
      .boolean()
      .optional()
      .describe(
        'twilio: does Twilio continue to speak when the caller only says "uh-huh"? Default: false; the daemon resumes the reply where it stopped.',
      ),
    speech_timeout: z
      .union([
        z.literal("auto"),
        duration.refine((ms) => ms >= 600 && ms <= 5000, { error: "expected 600ms to 5s, or auto" }),
      ])
      .prefault("auto")
      .describe("How much silence ends an utterance? 600ms to 5s."),
    greeting: z
      .union([phrase, z.record(languageCode, phrase)])
      .optional()
      .describe(
        "Which greeting starts a call? One text, or one per language. Default: the agent's introduction.",
      ),
    phrases: z.array(phrases).prefault([]).describe("Which phrases replace the built-in ones, per language?"),
    fillers,
    give_up: giveUp,
    silence,
    resume,
    digits,
    hand_over: handOver.optional(),
    fallback: z
      .enum(["none", "gather"])
      .prefault("none")
      .describe(
        "twilio: what happens when the websocket cannot be reached? `gather` continues turn by turn.",
      ),
    collect: duration.prefault("250ms").describe("How long do we wait for more speech after an utterance?"),
    max_call: duration.prefault("30m").describe("How long may a call last?"),
    max_sentences: z
      .int()
      .min(1)
      .max(50)
      .prefault(4)
      .describe(
        "How many sentences of a reply are spoken before the caller is asked whether to continue? The rest follows after a yes.",
      ),
    speaking_rate: z
      .number()
      .min(5)
      .max(40)
      .prefault(15)
      .describe(
        "How many characters are spoken per second, where the provider does not report the end of speech?",
      ),
  })
  .superRefine((channel, context) => {
    for (const key of needed[channel.dialect]) {
      if (channel[key] !== undefined) continue;
      context.addIssue({ code: "custom", path: [key], message: `dialect ${channel.dialect} needs ${key}` });
    }
    for (const key of channel.dialect === "twilio" ? [] : twilioOnly) {
      if (channel[key] === undefined) continue;
      const message = `dialect ${channel.dialect} has no such setting: only twilio has`;
      context.addIssue({ code: "custom", path: [key], message });
    }
    if (channel.dialect !== "twilio" || channel.transcription_language !== "multi") return;
    const { transcription_provider: hearing = "Deepgram", tts_provider: speaking = "ElevenLabs" } = channel;
    if (hearing.toLowerCase() !== "deepgram") {
      const message = "transcription_language multi needs Deepgram: no other provider detects languages";
      context.addIssue({ code: "custom", path: ["transcription_provider"], message });
    }
    if (channel.languages.length === 0 && speaking.toLowerCase() !== "elevenlabs") {
      const message = `transcription_language multi needs languages with tts_provider ${speaking}: only ElevenLabs speaks without them`;
      context.addIssue({ code: "custom", path: ["languages"], message });
    }
  });

/** The parsed configuration with defaults applied. Durations are in milliseconds. */
export type VoiceConfig = z.output<typeof config>;
export type PhraseOverrides = z.output<typeof phrases>;
