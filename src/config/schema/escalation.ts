// escalation: the responders to notify when the agent cannot or must not answer.

import { isIP } from "node:net";
import * as z from "zod";
import { isTimeZone, readWindow } from "../../domain/hours.ts";
import { actionNames, causes, ways } from "../../domain/policy.ts";
import { nearest } from "../nearest.ts";
import { duration, isHttpUrl, name, span } from "./values.ts";

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

const webhookUrl = z.string().refine(isHttpUrl, "must be an https URL without user or fragment");

const webhook = z.strictObject({
  url: webhookUrl.describe("What is the URL of the webhook?"),
  headers: z
    .record(headerName, headerValue)
    .prefault({})
    .describe("Which headers does the request have, such as an API key?"),
  secret: signingSecret
    .optional()
    .describe("Which secret signs the request (Standard Webhooks, whsec_...)? Default: the request is not signed."),
});

const person = z.strictObject({
  name: oneLine.optional().describe("What is the name of the responder? Default: the key."),
  email: z.string().min(1).optional().describe("Which email address receives notifications?"),
  sms: z.string().min(1).optional().describe("Which number receives notifications by SMS?"),
  webhook: webhook.optional().describe("Which webhook receives notifications (a pager, a chat)?"),
  time_zone: timeZone.optional().describe("In which time zone are hours and away? Required with either."),
  hours: z.array(window).prefault([]).describe("When is the responder on call? Empty: always."),
  away: z.array(window).prefault([]).describe("When is the responder not notified, even during hours?"),
});

const notify = z.array(name).min(1).describe("Which responders are notified?");
const by = z.array(z.enum(ways)).min(1).optional().describe("By which methods? Default: all that the responder has.");
const repeat = (initial: string) =>
  duration.prefault(initial).describe("How often is the notification repeated? 0s: never.");

const tier = z.strictObject({
  notify,
  by,
  repeat: repeat("10m"),
  next: span.prefault("15m").describe("After how long without an acknowledgement is the next tier notified?"),
});

const tiers = z.array(tier);
const cause = z.enum(causes);

const route = z.strictObject({
  topics: z
    .array(oneLine)
    .min(1)
    .optional()
    .describe('For which topics (also with *, such as "billing*")? Default of this key and the next three: all.'),
  agents: z.array(name).min(1).optional().describe("For which agents?"),
  channels: z.array(name).min(1).optional().describe("For which channels?"),
  causes: z.array(cause).min(1).optional().describe("For which causes?"),
  tiers: tiers.describe("Which tiers are notified, in this order? Empty: the fallback at once."),
});

const webhookKey = headerValue.refine((text) => text.length >= 16, "must be at least 16 characters");

const platformWebhook = z.strictObject({
  header: headerName.default("X-Bridgehead-Key").describe("Which header contains the key?"),
  key: webhookKey.describe("Which key must the header contain?"),
  former_keys: z
    .array(webhookKey)
    .prefault([])
    .describe("Which former keys are accepted as well, until the platform sends the new one everywhere?"),
  signing_secrets: z
    .array(signingSecret)
    .prefault([])
    .describe(
      "Which secrets (whsec_...) verify the signature of a delivery? With at least one, deliveries without a valid signature are rejected. A list, so that secrets can be rotated.",
    ),
  register: z
    .boolean()
    .default(true)
    .describe("Does the daemon register its webhooks with the platform? Requires http.public_url."),
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
    .describe(
      "Which responders are notified first, and which next without an acknowledgement? Responders outside their hours are skipped.",
    ),
  routes: z.array(route).prefault([]).describe("Which escalations have tiers of their own? The first match is used."),
  fallback: z
    .strictObject({ notify, by, repeat: repeat("15m") })
    .describe(
      "Which responders are notified, at any hour, when no tier has a responder on call or no tier acknowledges?",
    ),
  agent_recipients: z
    .boolean()
    .default(true)
    .describe("Are the recipients of the agent's ESCALATION skill notified too, at once?"),
  group: duration
    .prefault("2m")
    .describe("Within which interval are further escalations for one address combined in one notification?"),
  link: z
    .strictObject({
      expires: span.prefault("24h").describe("How long is the link valid?"),
      actions: z
        .array(z.enum(actionNames))
        .prefault([...actionNames])
        .describe(
          "What can a responder do on the page of the link? ack: acknowledge; reply: write to the customer; note: keep a note; resume: return the conversation to the agent; close. EVERYBODY WHO HAS THE LINK CAN DO THIS.",
        ),
      addresses: z
        .enum(["full", "masked"])
        .default("full")
        .describe("How does the page show the address or number of the customer?"),
    })
    .prefault({})
    .describe("What does the link in a notification open? Requires http.public_url."),
  via: z
    .strictObject({
      email: name.optional().describe("Which channel sends mail?"),
      sms: name.optional().describe("Which channel sends SMS?"),
    })
    .prefault({})
    .describe("Which channels carry notifications? Default: the first enabled channel of each kind."),
  causes: z
    .array(cause)
    .min(1)
    .prefault([...causes])
    .describe(
      "What is escalated? topic: the platform requests it; silent: a message has no answer; held: a message or reply waits for an operator; call: a call was abandoned or missed. CAUSES THAT ARE NOT LISTED NOTIFY NO RESPONDER.",
    ),
  down_after: duration
    .prefault("10m")
    .describe(
      "How long may a channel be down before responders are notified? Also applies to an agent that cannot be asked, because its key or that of its model is rejected, or its settings were never read, to a missing canary, and to a disk of the store that is nearly full.",
    ),
  poll: span.prefault("5m").describe("How often is the mode of a conversation polled, where no webhook reports it?"),
  poll_open: span.prefault("20s").describe("How often is it polled while the conversation is escalated?"),
  platform_webhook: platformWebhook
    .optional()
    .describe("How are webhooks of the platform authenticated (/platform/<agent>/...)? Default: all are rejected."),
  allow_private: z
    .array(privateHost)
    .prefault([])
    .describe("Which private hosts, addresses or ranges may webhooks reach, also over http?"),
});

export type EscalationFile = z.output<typeof escalation>;
