// The configuration keys of a voice channel. Each description is the question that the key answers. The example
// configuration and the JSON Schema are generated from these descriptions.

import { configError, type Remark, type Surroundings, units } from "bridgehead/contract";
import { isPossiblePhoneNumber } from "libphonenumber-js/min";
import * as z from "zod";
import type { Dialect } from "./dialects/dialect.ts";

const { duration } = units(z);

/** Creates the schema of a secret. `question`: what the key answers. */
export const secret = (question: string) => z.string().min(1).describe(question).meta({ secret: true });
const languageCode = z
  .string()
  .regex(
    /^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$/,
    "expected a language such as en-US or de; `multi` is a value of transcription_language",
  );
const phrase = z.string().min(1).max(400);

const speech = {
  voice: z.string().min(1).optional().describe("Which voice of the provider is used? Default: the provider's."),
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
  fillers: z.array(phrase).min(1).optional().describe("What is said while the agent thinks? One after the other."),
  apology: phrase.optional().describe("What is said when no answer comes?"),
  still_there: z.array(phrase).min(1).optional().describe("What is a silent caller asked?"),
  goodbye: phrase.optional().describe("How does a call end?"),
  lost_you: phrase.optional().describe("What is said after the line to us was cut?"),
  transfer: phrase.optional().describe("What is said before a human takes over?"),
  rest_offered: phrase
    .optional()
    .describe("What follows max_sentences when there is more? It should ask whether to go on."),
  voicemail: phrase.optional().describe("How is a caller asked to leave a message?"),
});

const fillers = z
  .strictObject({
    first: duration.prefault("1200ms").describe("After how long without a reply is the first filler spoken?"),
    second: duration.prefault("6s").describe("After how long the second?"),
    every: duration.prefault("8s").describe("How often after that?"),
  })
  .prefault({});

const giveUp = z
  .strictObject({
    after: duration.prefault("25s").describe("How long do we wait for a reply?"),
    to: z
      .enum(["human", "end"])
      .prefault("human")
      .describe("What happens then? `human`: transfer, if configured; `end`: apologize and hang up."),
  })
  .prefault({});

const silence = z
  .strictObject({
    after: duration.prefault("10s").describe("How long may the caller be silent after the agent has spoken?"),
    asks: z.int().min(0).max(10).prefault(2).describe("How often is the caller asked whether they are still there?"),
  })
  .prefault({});

const resume = z
  .strictObject({
    times: z.int().min(0).max(10).prefault(3).describe("How often is a call resumed after its connection was lost?"),
  })
  .prefault({});

const digits = z
  .strictObject({
    human: z
      .string()
      .regex(/^[0-9*#]?$/)
      .prefault("0")
      .describe('Which key transfers to a human? "": none.'),
    as_message: z.boolean().prefault(true).describe("Are pressed keys (DTMF) sent to the agent as a message?"),
    pause: duration.prefault("2500ms").describe("Which pause ends a sequence of keys? # always does."),
  })
  .prefault({});

const target = z
  .string()
  .regex(/^(\+[1-9]\d{4,14}|sip:[^\s<>"&]+)$/, "expected a number such as +15005550006, or a sip: address");

const transfer = z
  .strictObject({
    dial: z
      .array(target)
      .min(1)
      .max(10)
      .optional()
      .describe("Which numbers or sip: addresses are called, all at once?"),
    enqueue: z
      .strictObject({
        workflow_sid: z.string().min(1).describe("Which TaskRouter workflow receives the call?"),
        attributes: z
          .record(z.string(), z.string())
          .prefault({})
          .describe("Which further attributes does the task have?"),
      })
      .optional()
      .describe("Or: which queue receives the call?"),
    redirect: z.url().optional().describe("Or: which URL returns the next TwiML, such as a Studio flow?"),
    timeout: duration.prefault("25s").describe("How long does it ring?"),
    caller_id: target.optional().describe("Which caller id is shown? Default: the caller's number."),
    no_answer: z
      .enum(["voicemail", "agent", "end"])
      .prefault("voicemail")
      .describe(
        "What happens when the transfer is not answered? `agent`: the agent continues. jambonz cannot record: responders are notified of a missed call instead. retell: responders are notified if its webhook (api_key) is configured; nothing else is possible.",
      ),
    voicemail_length: duration.prefault("2m").describe("How long may a voicemail be?"),
  })
  .refine((over) => [over.dial, over.enqueue, over.redirect].filter((way) => way !== undefined).length === 1, {
    error: "give one of dial, enqueue and redirect",
  })
  .describe("How is a call transferred to a human?");

const keys = {
  account_sid: z
    .string()
    .regex(/^AC\w+$/)
    .optional()
    .describe("Outbound calls: which Twilio account places them? Default: outbound calls are not possible."),
  api_key: z
    .strictObject({
      sid: z.string().min(1).describe("What is the SID of the API key?"),
      secret: secret("What is the secret of the API key?"),
    })
    .optional()
    .describe("Outbound calls: which API key is used? Default: account_sid with the auth_tokens."),
  api_url: z.url().prefault("https://api.twilio.com").describe("What is the URL of Twilio's API?"),
  number: z
    .string()
    .regex(/^\+[1-9]\d{4,14}$/, "expected a number such as +15005550006")
    .optional()
    .describe("Which number does this channel have? Outbound calls show it."),
  detect_machines: z
    .boolean()
    .prefault(true)
    .describe(
      "Outbound calls: does Twilio detect answering machines? The first words are then left as a message, and the agent is not asked. A person who answers then hears them some seconds later.",
    ),
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
    .describe("Which greeting starts a call? One text, or one per language. Default: the agent's introduction."),
  phrases: z.array(phrases).prefault([]).describe("Which phrases replace the built-in ones, per language?"),
  fillers,
  give_up: giveUp,
  silence,
  resume,
  digits,
  transfer: transfer.optional(),
  fallback: z
    .enum(["none", "gather"])
    .prefault("none")
    .describe("twilio: what happens when the websocket cannot be reached? `gather` continues turn by turn."),
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
      "How many characters are spoken per second, where the provider does not report the end of speech? A Chinese, Japanese or Korean one counts as three.",
    ),
};

const authTokens = z
  .array(secret("A token of the Twilio account."))
  .min(1)
  .optional()
  .describe("twilio, gather: which auth tokens verify request signatures? Two during a rotation.");

const relayKeys = ["interrupt_sensitivity", "ignore_backchannel", "transcription_language"] as const;

/** Returns the schema of a channel with one of these dialects. The first is the default. */
export function voiceConfig(dialects: readonly Dialect[], question: string) {
  const names = dialects.map(({ name }) => name) as [string, ...string[]];
  const blocks = Object.fromEntries(
    dialects.flatMap(({ name, block }) => (block === undefined ? [] : [[name, block.optional()]])),
  );
  const dialect = z.enum(names).prefault(names[0]).describe(question);
  return z.strictObject({ dialect, auth_tokens: authTokens, ...blocks, ...keys }).superRefine((channel, context) => {
    const wrong = (key: string, message: string) => context.addIssue({ code: "custom", path: [key], message });
    const { name, carrier = name, block, needs = [], supports = [], can } = dialectOf(dialects, channel);
    const own = block === undefined ? [] : [name];
    for (const key of [...own, ...needs])
      if ((channel as Readonly<Record<string, unknown>>)[key] === undefined) wrong(key, `dialect ${name} needs ${key}`);
    if (channel.transfer !== undefined && channel.transfer.dial === undefined && can.transfer !== "callback")
      wrong("transfer", `dialect ${name} transfers calls to numbers and sip: addresses only: give dial`);
    else if (channel.transfer?.enqueue !== undefined && carrier !== "twilio")
      wrong("transfer", `dialect ${name} has no such queue: only Twilio has TaskRouter`);
    for (const key of relayKeys)
      if (!supports.includes(key) && channel[key] !== undefined)
        wrong(key, `dialect ${name} has no such setting: only twilio has`);
    if (!supports.includes("transcription_language") || channel.transcription_language !== "multi") return;
    const { transcription_provider: transcription = "Deepgram", tts_provider: speech = "ElevenLabs" } = channel;
    if (transcription.toLowerCase() !== "deepgram")
      wrong(
        "transcription_provider",
        "transcription_language multi needs Deepgram: no other provider detects languages",
      );
    if (channel.languages.length === 0 && speech.toLowerCase() !== "elevenlabs")
      wrong(
        "languages",
        `transcription_language multi needs languages with tts_provider ${speech}: only ElevenLabs speaks without them`,
      );
  });
}

export function dialectOf(dialects: readonly Dialect[], { dialect }: { readonly dialect: string }): Dialect {
  const found = dialects.find(({ name }) => name === dialect);
  if (found === undefined) throw new Error(`there is no dialect ${dialect}`);
  return found;
}

/** `AdapterDefinition.startProblem`: a channel needs a Twilio account and a number to place calls. */
export function startProblem(dialects: readonly Dialect[], block: Readonly<Record<string, unknown>>): string | null {
  const { dialect = dialects[0]?.name } = block;
  const places = dialects.filter(({ name, carrier = name }) => carrier === "twilio").map(({ name }) => name);
  const named = dialects.find(({ name }) => name === dialect);
  if (named !== undefined && !places.includes(named.name))
    return `places no calls: dialect ${named.name} cannot, use ${places.join(" or ")}`;
  const missing = ["account_sid", "number"].filter((key) => block[key] === undefined);
  return missing.length === 0 ? null : `places no calls: it needs ${missing.join(" and ")}`;
}

/** Warns of an account that places no calls. */
export function accountRemarks(dialects: readonly Dialect[], config: VoiceConfig): readonly Remark[] {
  const message = config.account_sid === undefined ? null : startProblem(dialects, config);
  const fix = "correct it, or remove account_sid";
  return message === null ? [] : [{ severity: "warning", path: ["account_sid"], message, fix }];
}

/** The parsed configuration with defaults applied. Durations are in milliseconds. */
export type VoiceConfig = z.output<ReturnType<typeof voiceConfig>>;
export type PhraseOverrides = z.output<typeof phrases>;

/** Finds errors in a voice configuration that passed schema validation. Runs in `check` and on every start. Called with the parsed configuration. No I/O. */
export function review(config: VoiceConfig, { publicUrl, trial }: Surroundings): readonly Remark[] {
  if (trial) return [];
  const remarks: Remark[] = [];
  const { account_sid: account, transfer: over } = config;
  const numbers: readonly (readonly [Remark["path"], string | undefined])[] = [
    [["number"], config.number],
    [["transfer", "caller_id"], over?.caller_id],
    ...(over?.dial ?? []).map((to, index) => [["transfer", "dial", index], to] as const),
  ];
  for (const [path, number] of numbers)
    if (number?.startsWith("+") === true && !isPossiblePhoneNumber(number))
      remarks.push(configError(path, `is no possible number: ${number}`, numberFix));
  if (account !== undefined && !/^AC[0-9a-f]{32}$/i.test(account))
    remarks.push(
      configError(["account_sid"], "is no account SID", "copy it from Twilio's console: AC and 32 hexadecimal digits"),
    );
  const path = ["..", "http", "public_url"];
  const fix = "set http.public_url to the https address under which the provider reaches this daemon";
  if (publicUrl === null)
    remarks.push(configError([], "needs http.public_url: without it calls cannot reach this daemon", fix));
  else if (publicUrl.protocol !== "https:")
    remarks.push(configError(path, "is not https: calls would travel in the open", fix));
  return remarks;
}

const numberFix = 'write it with its country\'s code and all digits, in quotes: "+12025550100"';
