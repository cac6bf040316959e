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
    .describe("With which of the provider's voices? Default: its own choice."),
  tts_provider: z
    .string()
    .min(1)
    .optional()
    .describe("Who turns text into speech (ElevenLabs, Google, Amazon)? It has to know the voice."),
  transcription_provider: z
    .string()
    .min(1)
    .optional()
    .describe("Who turns speech into text (Deepgram, Google)?"),
  speech_model: z.string().min(1).optional().describe("With which model?"),
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
      .describe("Whose calls are these? `gather`: Twilio without a websocket, turn by turn."),
    auth_tokens: z
      .array(secret("A token of the Twilio account."))
      .min(1)
      .optional()
      .describe("twilio, gather: with which tokens may requests be signed? Two while one is replaced."),
    telnyx: z
      .strictObject({
        public_key: z
          .union([ed25519Key, z.array(ed25519Key).min(1)])
          .describe(
            "With which public key (base64, Ed25519) are webhooks checked? A list while it is replaced: any of them counts.",
          ),
        token_key: secret("From which secret of yours are the tokens of single calls made?"),
      })
      .optional()
      .describe("telnyx: how do we know that it is Telnyx?"),
    retell: z
      .strictObject({
        secret: secret(
          "Which secret stands in the address that Retell connects to? wss://<public_url>/channels/<id>/llm/<secret>",
        ),
        api_key: secret("With which API key are its webhooks signed?").optional(),
      })
      .optional()
      .describe("retell: how do we know that it is Retell?"),
    jambonz: z
      .strictObject({
        user: z.string().min(1).describe("Which user name does jambonz log in with?"),
        password: secret("With which password?"),
      })
      .optional()
      .describe("jambonz: how do we know that it is your jambonz?"),
    account_sid: z
      .string()
      .regex(/^AC\w+$/)
      .optional()
      .describe("Outbound calls: which Twilio account places them? Without it none are."),
    api_key: z
      .strictObject({
        sid: z.string().min(1).describe("Which API key?"),
        secret: secret("And its secret?"),
      })
      .optional()
      .describe("Outbound calls: which API key is used? Default: the first of auth_tokens."),
    api_url: z.url().prefault("https://api.twilio.com").describe("Where is Twilio's API?"),
    number: z
      .string()
      .regex(/^\+[1-9]\d{4,14}$/, "expected a number such as +15005550006")
      .optional()
      .describe("Which number are we? Outbound calls come from it."),
    language: languageCode.prefault("en-US").describe("In which language does a call begin?"),
    languages: z
      .array(z.strictObject({ code: languageCode.describe("Which language?"), ...speech }))
      .prefault([])
      .describe("Which further languages are understood and spoken?"),
    transcription_language: z
      .union([z.literal("multi"), languageCode])
      .optional()
      .describe(
        "twilio: in which language is the caller understood, when not in `language`? `multi`: Deepgram detects it, and the answer is spoken in it: in one of `languages`, or, without that list, by ElevenLabs in any.",
      ),
    ...speech,
    hints: z
      .array(z.string().min(1))
      .prefault([])
      .describe("Which names and words should the recogniser expect?"),
    interruptible: z
      .enum(["none", "dtmf", "speech", "any"])
      .prefault("any")
      .describe("With what may the caller cut us short?"),
    interrupt_sensitivity: z
      .enum(["high", "medium", "low"])
      .optional()
      .describe("twilio: how easily does the caller's speech interrupt us? Default: high."),
    ignore_backchannel: z
      .boolean()
      .optional()
      .describe(
        "twilio: does Twilio go on speaking when the caller only says uh-huh? Default: false; then we go on where it stopped.",
      ),
    speech_timeout: z
      .union([
        z.literal("auto"),
        duration.refine((ms) => ms >= 600 && ms <= 5000, { error: "expected 600ms to 5s, or auto" }),
      ])
      .prefault("auto")
      .describe("How much silence ends what the caller says? 600ms to 5s."),
    greeting: z
      .union([phrase, z.record(languageCode, phrase)])
      .optional()
      .describe(
        "How does a call begin? One text, or one for each language. Default: the agent's introduction.",
      ),
    phrases: z
      .array(phrases)
      .prefault([])
      .describe("Which words replace the built-in ones, language by language?"),
    fillers,
    give_up: giveUp,
    silence,
    resume,
    digits,
    hand_over: handOver.optional(),
    fallback: z
      .enum(["none", "gather"])
      .prefault("none")
      .describe("twilio: what if the websocket cannot be reached? `gather` goes on turn by turn."),
    collect: duration
      .prefault("250ms")
      .describe("How long is it waited for more after the caller's last word?"),
    max_call: duration.prefault("30m").describe("How long may a call be?"),
    max_sentences: z
      .int()
      .min(1)
      .max(50)
      .prefault(4)
      .describe(
        "How many sentences of an answer are spoken before the caller is asked whether to go on? The others follow on a yes.",
      ),
    speaking_rate: z
      .number()
      .min(5)
      .max(40)
      .prefault(15)
      .describe(
        "How many characters are spoken in a second, where the provider does not say when it has finished?",
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
