// escalation: the responders to notify when the agent cannot or must not answer.

import { isIP } from "node:net";
import * as z from "zod";
import { isTimeZone, readWindow } from "../../domain/hours.ts";
import { causes, ways } from "../../domain/policy.ts";
import { nearest } from "../nearest.ts";
import { duration, name, span } from "./values.ts";

/** One line, because it is used in the subjects and headers of mails. */
const oneLine = z.string().regex(/^\P{Cc}*\S\P{Cc}*$/u, "must be one line of text");

const window = z.string().transform((text, context) => {
  const read = readWindow(text);
  if (read !== null) return read;
  const fix = '"mon-fri 08:00-18:00", "22:00-06:00" (every day), "2026-12-24" or "2026-12-24..2026-12-26"';
  context.addIssue({
    code: "custom",
    message: `is no time: ${text}`,
    params: { fix: `write it like ${fix}` },
  });
  return z.NEVER;
});

const timeZone = z.string().superRefine((text, context) => {
  if (isTimeZone(text)) return;
  const guess = nearest(text, Intl.supportedValuesOf("timeZone"));
  const fix = guess === undefined ? "write it like Europe/Berlin" : `did you mean ${guess}?`;
  context.addIssue({ code: "custom", message: `is no time zone: ${text}`, params: { fix } });
});

/** Headers that control the transport of a request, and the headers that the daemon sets. */
const reserved =
  /^(host|connection|content-.*|transfer-encoding|upgrade|te|trailer|expect|keep-alive|proxy-.*|webhook-.*)$/i;

const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is not the name of a header")
  .refine((text) => !reserved.test(text), "is a header that is not yours to set");

const headerValue = z
  .string()
  .regex(/^[\t\x20-\x7e]+$/, "must be printable ASCII in one line")
  .meta({ secret: true });

/** Signing secret of Standard Webhooks: 24 to 64 bytes. */
const signingSecret = z
  .string()
  .refine(
    (text) => {
      const key = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text)?.[1];
      const length = Buffer.from(key ?? "", "base64").length;
      return length >= 24 && length <= 64;
    },
    {
      message: "must be whsec_ and 24 to 64 bytes in Base64",
      params: { fix: 'as in: echo "whsec_$(openssl rand -base64 32)"' },
    },
  )
  .meta({ secret: true });

const webhookUrl = z.string().refine((text) => {
  const url = URL.parse(text);
  if (url === null || !["http:", "https:"].includes(url.protocol)) return false;
  return url.username === "" && url.password === "" && url.hash === "";
}, "must be an https URL without user or fragment");

const webhook = z.strictObject({
  url: webhookUrl.describe("To which URL is it posted?"),
  headers: z
    .record(headerName, headerValue)
    .prefault({})
    .describe("With which headers, such as a key of the receiver's?"),
  secret: signingSecret
    .optional()
    .describe("With which key is it signed (Standard Webhooks, whsec_...)? Default: it is not signed."),
});

const person = z.strictObject({
  name: oneLine.optional().describe("What are they called? Default: the key."),
  email: z.string().min(1).optional().describe("At which mailbox do they read?"),
  sms: z.string().min(1).optional().describe("Which number gets texts?"),
  webhook: webhook.optional().describe("Which machine tells them (a pager, a chat)?"),
  time_zone: timeZone.optional().describe("In which time zone do they live? Needed with hours or away."),
  hours: z.array(window).prefault([]).describe("When are they on duty? Empty: always."),
  away: z.array(window).prefault([]).describe("When are they not told, whatever hours says?"),
});

const notify = z.array(name).min(1).describe("Who is told?");
const by = z.array(z.enum(ways)).min(1).optional().describe("By what? Default: every way they have.");
const repeat = (initial: string) =>
  duration.prefault(initial).describe("How often are they told again? 0s: they are told once.");

const tier = z.strictObject({
  notify,
  by,
  repeat: repeat("10m"),
  next: span
    .prefault("15m")
    .describe("After how long without an acknowledgement are those of the next tier told?"),
});

const tiers = z.array(tier);
const cause = z.enum(causes);

const route = z.strictObject({
  topics: z
    .array(oneLine)
    .min(1)
    .optional()
    .describe(
      'For which topics (also with *, such as "billing*")? This key and the next three: without it, all.',
    ),
  agents: z.array(name).min(1).optional().describe("For which agents?"),
  channels: z.array(name).min(1).optional().describe("For which channels?"),
  causes: z.array(cause).min(1).optional().describe("For which causes?"),
  tiers: tiers.describe("Who is told, one tier after the other? Empty: the fallback at once."),
});

const platformWebhook = z.strictObject({
  header: headerName.default("X-Bridgehead-Key").describe("In which header does it carry the key?"),
  key: headerValue
    .refine((text) => text.length >= 16, "must be at least 16 characters")
    .describe("Which key must be there?"),
  signing_secrets: z
    .array(signingSecret)
    .prefault([])
    .describe(
      "With which keys (whsec_...) is a delivery signed? With at least one key, deliveries without a valid signature are rejected. A list, so that keys can be rotated.",
    ),
  register: z
    .boolean()
    .default(true)
    .describe("Does the daemon register its webhooks with the platform? Needs http.public_url."),
});

const privateHost = z.string().refine((text) => {
  const [address = "", bits] = text.split("/");
  if (bits === undefined) return isIP(text) > 0 || /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/i.test(text);
  return isIP(address) > 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= (isIP(address) === 4 ? 32 : 128);
}, 'must be a host name, an address or a range such as "10.0.0.0/8"');

export const escalation = z.strictObject({
  responders: z.record(name, person).describe("Who can be notified?"),
  tiers: tiers
    .prefault([])
    .describe("Who is told first, and who next when nobody acknowledges? Those off duty are passed over."),
  routes: z
    .array(route)
    .prefault([])
    .describe("Which escalations have tiers of their own? The first that matches counts."),
  fallback: z
    .strictObject({ notify, by, repeat: repeat("15m") })
    .describe("Who is told, at any hour, when nobody else is on duty or nobody acknowledges?"),
  agent_recipients: z
    .boolean()
    .default(true)
    .describe("Are the recipients of the agent's ESCALATION skill told too, at once?"),
  group: duration
    .prefault("2m")
    .describe("Within which time do further escalations for one address go into one message?"),
  expires: span.prefault("24h").describe("For how long can the link in a message be used?"),
  via: z
    .strictObject({
      email: name.optional().describe("Through which channel do mails go?"),
      sms: name.optional().describe("And texts?"),
    })
    .prefault({})
    .describe("Which channels carry it? Default: the first of each kind that is enabled."),
  causes: z
    .array(cause)
    .min(1)
    .prefault([...causes])
    .describe(
      "What is escalated? topic: the platform says so; silent: a person wrote and nobody answers; held: something waits for an operator; call: one given up, or not taken. WHAT IS LEFT OUT, NOBODY IS TOLD OF.",
    ),
  down_after: duration.prefault("10m").describe("How long may a channel be down before people are told?"),
  poll: span
    .prefault("5m")
    .describe("How often is a conversation's mode read, where no webhook tells of it?"),
  poll_open: span.prefault("20s").describe("How often while it is escalated?"),
  platform_webhook: platformWebhook
    .optional()
    .describe(
      "How do the platform's webhooks prove themselves (/platform/<agent>/...)? Default: none is taken.",
    ),
  allow_private: z
    .array(privateHost)
    .prefault([])
    .describe(
      "Which hosts, addresses or ranges may webhooks reach, also over http, although they are not public?",
    ),
});

export type EscalationFile = z.output<typeof escalation>;
