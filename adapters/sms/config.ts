// Configuration keys of an SMS channel. Each description is the question that the key answers. The example
// configuration and the JSON Schema are generated from them.

import { units } from "bridgehead/contract";
import * as z from "zod";
import { languages } from "./consent.ts";
import { canonicalNumber, isCountry } from "./numbers.ts";
import { smppConfig } from "./smpp/config.ts";
import { telnyxConfig } from "./telnyx/config.ts";

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
  .describe("Which API key authenticates requests? Default: account_sid and the first of auth_tokens.");

const media = z
  .strictObject({
    send: z
      .boolean()
      .prefault(false)
      .describe("Are images in a reply (Markdown, with an https URL) sent as MMS?"),
    max_size: size.prefault("5MB").describe("How large may an inbound image be?"),
    hosts: z
      .array(host)
      .prefault([])
      .describe(
        "From which hosts, in addition to the provider's, are images downloaded with our credentials?",
      ),
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
    every: duration
      .prefault("5m")
      .describe("How often is the provider's log read for texts that no webhook reported?"),
    overlap: duration.prefault("10m").describe("How far do consecutive reads overlap?"),
    after: duration
      .prefault("30s")
      .describe("How old must a text be to count as missed? Until then its webhook may be retried."),
  })
  .prefault({});

export const config = z
  .strictObject({
    provider: z
      .enum(["twilio", "signalwire", "telnyx", "smpp"])
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
    signing_keys: z
      .array(secret)
      .optional()
      .describe("Which keys verify webhook signatures, if not auth_tokens?"),
    api_key: apiKey.optional(),
    api_url: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe(
        "What is the URL of the provider's API? Default: Twilio's; signalwire: https://SPACE/api/laml.",
      ),
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
    telnyx: telnyxConfig.optional(),
    smpp: smppConfig.optional(),
  })
  .superRefine((block, check) => {
    const wants = (key: string, present: boolean) => {
      if (!present)
        check.addIssue({ code: "custom", path: [key], message: `provider: ${block.provider} needs ${key}` });
    };
    if (block.number === undefined && block.messaging_service === undefined) wants("number", false);
    if (block.provider === "telnyx") return wants("telnyx", block.telnyx !== undefined);
    if (block.provider === "smpp") return wants("smpp", block.smpp !== undefined);
    wants("account_sid", block.account_sid !== undefined);
    wants("auth_tokens", block.auth_tokens !== undefined);
    if (block.provider === "signalwire") wants("api_url", block.api_url !== undefined);
  });

/** The parsed configuration block, with defaults filled in. */
export type SmsConfig = z.output<typeof config>;
