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
    sid: z.string().min(1).describe("Which API key do we log in with (SK...)?"),
    secret: secret.describe("What is its secret?"),
  })
  .describe("Do we log in with an API key? Default: with account_sid and the first of auth_tokens.");

const media = z
  .strictObject({
    send: z
      .boolean()
      .prefault(false)
      .describe("Are pictures in an answer (Markdown, with an https address) sent as pictures (MMS)?"),
    max_size: size.prefault("5MB").describe("How large may a picture be that a person sends?"),
    hosts: z
      .array(host)
      .prefault([])
      .describe("From which hosts, beside the provider's own, are pictures fetched with our login?"),
  })
  .prefault({});

const words = z.array(z.string().min(1));
const optOut = z
  .strictObject({
    languages: z
      .array(z.enum(languages))
      .prefault([...languages])
      .describe("In which languages do STOP, START and HELP count? English always does."),
    countries: z
      .array(z.string().refine(isCountry, "expected a country's two letters such as US or DE"))
      .optional()
      .describe(
        "In which countries' languages do words count that are business terms, too (cancel, kündigen, opzeggen, fin, alta)? The sender is told that they counted. [] for none. Default: the country of the number that is written to.",
      ),
    add: z
      .strictObject({
        stop: words.optional().describe("Which further words mean STOP?"),
        start: words.optional().describe("Which further words mean START?"),
        help: words.optional().describe("Which further words mean HELP?"),
      })
      .prefault({}),
    remove: words.prefault([]).describe("Which words mean nothing special on this channel?"),
    stop_text: z
      .string()
      .min(1)
      .optional()
      .describe("What is said after STOP? Default: nothing; most providers say something themselves."),
    start_text: z.string().min(1).optional().describe("What is said after START?"),
    help_text: z.string().min(1).optional().describe("What is said to HELP?"),
  })
  .prefault({});

const split = z
  .strictObject({
    target: z.int().min(20).max(1600).prefault(320).describe("How many characters does a part aim at?"),
    max: z.int().min(20).max(1600).prefault(1600).describe("How many characters does no part exceed?"),
    parts: z
      .int()
      .min(1)
      .max(50)
      .prefault(10)
      .describe("In how many parts does an answer come at most, before parts grow towards max?"),
    numbering: z
      .string()
      .regex(/^$|^\D*\d+\D+\d+\D*$/, 'expected something like "(1/2)", or nothing')
      .prefault("(1/2)")
      .describe('How are the parts numbered, written for the first of two? "": not at all.'),
  })
  .refine(({ target, max }) => target <= max, { path: ["target"], error: "must not be above max" })
  .prefault({});

const backfill = z
  .strictObject({
    every: duration
      .prefault("5m")
      .describe("How often do we list what came in, for texts we were not told of?"),
    overlap: duration.prefault("10m").describe("How far does each list reach back beyond the last one?"),
    after: duration
      .prefault("30s")
      .describe("How old is a text before the provider's own tries to tell us are over?"),
  })
  .prefault({});

export const config = z
  .strictObject({
    provider: z
      .enum(["twilio", "signalwire", "telnyx", "smpp"])
      .prefault("twilio")
      .describe("Who carries the texts?"),
    account_sid: z
      .string()
      .min(1)
      .optional()
      .describe("twilio: which account is ours (AC...)? signalwire: which project?"),
    auth_tokens: z
      .array(secret)
      .min(1)
      .optional()
      .describe(
        "With which tokens do we log in, and are webhooks signed? A list, for the days of a rotation.",
      ),
    signing_keys: z
      .array(secret)
      .optional()
      .describe("With which keys are webhooks signed, when not with auth_tokens?"),
    api_key: apiKey.optional(),
    api_url: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe(
        "Where is the provider's interface? Default: twilio's own; signalwire: https://SPACE/api/laml.",
      ),
    ca: z
      .string()
      .optional()
      .describe(
        "Which private CA signs the interface's certificate? The PEM text, for instance by ${file:...}.",
      ),
    number: number.optional().describe("Which number is this channel? Our side of every text."),
    messaging_service: z
      .string()
      .min(1)
      .optional()
      .describe("Which messaging service (MG...) or profile sends, and chooses the number?"),
    country: z
      .string()
      .refine(isCountry, "expected a country's two letters such as US or DE")
      .optional()
      .describe("In which country are numbers written without a country code?"),
    validity: duration
      .prefault("4h")
      .refine((ms) => ms >= 1000 && ms <= 36_000_000, "must be between 1s and 10h")
      .describe("How long may the provider try to deliver a text? A late answer is worse than none."),
    status_callback: z
      .boolean()
      .prefault(true)
      .describe(
        "Does the provider tell us what became of each text? false: an unanswered send is looked up only.",
      ),
    media,
    opt_out: optOut,
    split,
    backfill,
    further_numbers: z
      .array(number)
      .prefault([])
      .describe(
        "At which further addresses of ours are texts for this channel (a second number, whatsapp:, rcs:, messenger:)? Those where a text has come in are known.",
      ),
    own_numbers: z
      .array(number)
      .prefault([])
      .describe("Which further numbers are ours? Their texts are never answered."),
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
