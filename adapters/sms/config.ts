// Configuration keys of an SMS channel. Each description is the question that the key answers. The example
// configuration and the JSON Schema are generated from them.

import { configError, type Remark, type Surroundings, units } from "bridgehead/contract";
import { isPossiblePhoneNumber } from "libphonenumber-js/min";
import * as z from "zod";
import { languages } from "./consent.ts";
import { canonicalNumber, isCountry } from "./numbers.ts";
import { isLocal, type ProviderDefinition } from "./provider.ts";
import { smpp } from "./smpp/index.ts";
import { telnyx } from "./telnyx/index.ts";
import { signalwire, twilio } from "./twilio/index.ts";

/** The providers that the configuration can name. A new one is added here. */
const providers: readonly ProviderDefinition[] = [twilio, signalwire, telnyx, smpp];

const { duration, size } = units(z);

const secret = z.string().min(1).meta({ secret: true });
const number = z
  .string()
  .refine(
    (text) => canonicalNumber(text) !== null,
    'expected a number such as "+15550100", in quotes, a short code, or one with a prefix such as whatsapp:',
  )
  .transform((text) => canonicalNumber(text) ?? text);
const host = z.string().regex(/^[a-z0-9.-]+$/, "expected a host's name such as api.twilio.com");

const apiKey = z
  .strictObject({
    sid: z.string().min(1).describe("What is the SID of the API key (SK...)?"),
    secret: secret.describe("What is its secret?"),
  })
  .describe("Which API key authenticates requests? Default: account_sid with the auth_tokens.");

const media = z
  .strictObject({
    send: z.boolean().prefault(false).describe("Are images in a reply (Markdown, with an https URL) sent as MMS?"),
    max_size: size.prefault("5MB").describe("How large may an inbound image be?"),
    hosts: z
      .array(host)
      .prefault([])
      .describe("From which hosts, in addition to the provider's, are images downloaded with our credentials?"),
  })
  .prefault({});

const words = z.array(z.string().min(1));
const optOut = z
  .strictObject({
    languages: z
      .array(z.enum(languages))
      .prefault([...languages])
      .describe("In which languages are STOP, START and HELP recognized? English always is."),
    countries: z
      .array(z.string().refine(isCountry, "expected a country's two letters such as US or DE"))
      .optional()
      .describe(
        "For which countries are opt-out keywords recognized that are also business terms (cancel, kündigen, opzeggen, fin, alta)? The sender receives a confirmation. []: none. Default: the country of the number that receives the text.",
      ),
    add: z
      .strictObject({
        stop: words.optional().describe("Which further keywords are equal to STOP?"),
        start: words.optional().describe("Which further keywords are equal to START?"),
        help: words.optional().describe("Which further keywords are equal to HELP?"),
      })
      .prefault({}),
    remove: words.prefault([]).describe("Which keywords are not recognized on this channel?"),
    doubtful: z
      .enum(["hold", "ask"])
      .default("hold")
      .describe(
        'What happens to a text that may ask for no more texts ("I said stop texting me")? hold: it waits for a human, and responders are notified. ask: the agent answers it.',
      ),
    stop_text: z
      .string()
      .min(1)
      .optional()
      .describe("Which text confirms STOP? Default: none; most providers send their own."),
    start_text: z.string().min(1).optional().describe("Which text confirms START?"),
    help_text: z.string().min(1).optional().describe("Which text answers HELP?"),
  })
  .prefault({});

const split = z
  .strictObject({
    target: z.int().min(20).max(1600).prefault(320).describe("How long is a part usually, in characters?"),
    max: z.int().min(20).max(1600).prefault(1600).describe("How long is a part at most, in characters?"),
    parts: z
      .int()
      .min(1)
      .max(50)
      .prefault(10)
      .describe("How many parts may a reply have before parts grow towards max?"),
    numbering: z
      .string()
      .regex(/^$|^\D*\d+\D+\d+\D*$/, 'expected something like "(1/2)", or nothing')
      .prefault("(1/2)")
      .describe('How are parts numbered, written for the first of two? "": not at all.'),
  })
  .refine(({ target, max }) => target <= max, { path: ["target"], error: "must not be above max" })
  .prefault({});

const backfill = z
  .strictObject({
    every: duration.prefault("5m").describe("How often is the provider's log read for texts that no webhook reported?"),
    overlap: duration.prefault("10m").describe("How far do consecutive reads overlap?"),
    after: duration
      .prefault("30s")
      .describe("How old must a text be to count as missed? Until then its webhook may be retried."),
  })
  .prefault({});

const keys = {
  provider: z
    .enum(providers.map(({ name }) => name) as [string, ...string[]])
    .prefault("twilio")
    .describe("Which provider is used?"),
  account_sid: z
    .string()
    .min(1)
    .optional()
    .describe("twilio: what is the account SID (AC...)? signalwire: what is the project id?"),
  auth_tokens: z
    .array(secret)
    .min(1)
    .optional()
    .describe(
      "Which auth tokens authenticate requests and verify webhook signatures? A list, so that tokens can be rotated.",
    ),
  signing_keys: z.array(secret).optional().describe("Which keys verify webhook signatures, if not auth_tokens?"),
  api_key: apiKey.optional(),
  api_url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe("What is the URL of the provider's API? Default: Twilio's; signalwire: https://SPACE/api/laml."),
  ca: z
    .string()
    .optional()
    .describe("Which private CA signs the API's certificate? The PEM text, for example as ${file:...}."),
  number: number.optional().describe("Which number does this channel have?"),
  messaging_service: z
    .string()
    .min(1)
    .optional()
    .describe("Which messaging service (MG...) or profile sends, and selects the number?"),
  country: z
    .string()
    .refine(isCountry, "expected a country's two letters such as US or DE")
    .optional()
    .describe("In which country are numbers without a country code?"),
  validity: duration
    .prefault("4h")
    .refine((ms) => ms >= 1000 && ms <= 36_000_000, "must be between 1s and 10h")
    .describe("How long may the provider try to deliver a text? Later it is dropped."),
  status_callback: z
    .boolean()
    .prefault(true)
    .describe(
      "Does the provider report delivery by StatusCallback? false: sends of unknown outcome are looked up only.",
    ),
  media,
  opt_out: optOut,
  split,
  backfill,
  further_numbers: z
    .array(number)
    .prefault([])
    .describe(
      "Which further addresses does this channel have (a second number, whatsapp:, rcs:, messenger:)? Addresses that have received a text are known.",
    ),
  own_numbers: z
    .array(number)
    .prefault([])
    .describe("Which further numbers belong to us? Their texts are never answered."),
  ignore_short_codes: z
    .boolean()
    .prefault(false)
    .describe("Are texts of short codes (banks, parcel services) left unanswered?"),
};

/** The blocks of the providers; all are optional until a provider is chosen. */
const blocks = Object.fromEntries(
  providers.flatMap(({ name, block }) => (block === undefined ? [] : [[name, block.optional()]])),
);

export const config = z.strictObject({ ...keys, ...blocks }).superRefine((block, check) => {
  const wants = (key: string, present: boolean) => {
    if (!present) check.addIssue({ code: "custom", path: [key], message: `provider: ${block.provider} needs ${key}` });
  };
  if (block.number === undefined && block.messaging_service === undefined) wants("number", false);
  const { name, block: own, needs = [] } = definitionOf(block);
  if (own !== undefined) wants(name, blockOf(block) !== undefined);
  for (const key of needs) wants(key, block[key] !== undefined);
});

/** The parsed configuration block, with defaults filled in. */
export type SmsConfig = z.output<typeof config>;

export function definitionOf({ provider }: Pick<SmsConfig, "provider">): ProviderDefinition {
  const found = providers.find(({ name }) => name === provider);
  if (found === undefined) throw new Error(`there is no provider ${provider}`);
  return found;
}

/** Returns the block of the configured provider; undefined when it has none. */
export function blockOf(config: SmsConfig): unknown {
  return (config as Readonly<Record<string, unknown>>)[config.provider];
}

/** Reports errors of an SMS configuration block whose single keys are valid. Runs in `check` and at every start. Called
 *  with a parsed block; pure. A sandbox on this machine accepts any number and account, and can always reach us. */
export function review(config: SmsConfig, { publicUrl, trial }: Surroundings): readonly Remark[] {
  if (trial || (config.api_url !== undefined && isLocal(config.api_url))) return [];
  const remarks: Remark[] = [];
  const { number, account_sid: account } = config;
  if (number?.startsWith("+") === true && !isPossiblePhoneNumber(number))
    remarks.push(configError(["number"], `is no possible number: ${number}`, numberFix));
  if (config.provider === "twilio" && account !== undefined && !/^AC[0-9a-f]{32}$/i.test(account))
    remarks.push(
      configError(["account_sid"], "is no account SID", "copy it from Twilio's console: AC and 32 hexadecimal digits"),
    );
  if (definitionOf(config).webhooks) remarks.push(...unreachable(publicUrl));
  return remarks;
}

const numberFix = 'write it with its country\'s code and all digits, in quotes: "+12025550100"';

/** Reports an unusable public URL. The provider posts inbound messages and delivery receipts to it. */
function unreachable(publicUrl: URL | null): readonly Remark[] {
  const path = ["..", "http", "public_url"];
  const fix = "set http.public_url to the https address under which the provider reaches this daemon";
  if (publicUrl === null)
    return [configError([], "needs http.public_url: without it the provider cannot tell us of texts", fix)];
  if (publicUrl.protocol !== "https:") return [configError(path, "is not https: texts would travel in the open", fix)];
  return [];
}
