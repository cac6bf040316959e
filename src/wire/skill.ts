// Skills of an agent (External API 2.6). Every skill has the base fields; `systemName` selects the rest. A name we
// do not know is read like any other: by its base fields.

import * as z from "zod";
import { record } from "./record.ts";
import { textOrObject } from "./text.ts";

const status = z.enum(["active", "inactive"]);
const delay = z.number().min(0).max(3600).nullable();

/** Any skill, as far as all skills agree. `status` is read as any string: what is not "active" is not active. */
export const skill = record("skill", { systemName: z.string(), status: z.string() }, {}, {});

export const emailSkill = record(
  "EMAIL skill",
  {},
  { systemName: z.literal("EMAIL"), status, email: z.string() },
  {
    senderName: z.string(),
    defaultSubject: z.string(),
    defaultEmailIntroduction: textOrObject,
    emailSignature: textOrObject,
    responseDelaySeconds: delay,
  },
);

export const smsSkill = record(
  "SMS skill",
  {},
  { systemName: z.literal("SMS"), status, phoneNumber: z.string() },
  { defaultSmsIntroduction: textOrObject, smsSignature: textOrObject, responseDelaySeconds: delay },
);

/** The two ids carry the voice provider's name in their keys, so they only pass through. */
export const voiceSkill = record("VOICE skill", {}, { systemName: z.literal("VOICE"), status }, {});

export const apiSkill = record(
  "API skill",
  {},
  { systemName: z.literal("API"), status, apiKey: z.string() },
  {},
);

const recipient = z.looseObject({
  channel: z.enum(["sms", "email", "webhook"]),
  value: z.string(),
  headers: z.record(z.string(), z.unknown()).optional(),
});

export const escalationSkill = record(
  "ESCALATION skill",
  {},
  {
    systemName: z.literal("ESCALATION"),
    status,
    escalations: z.array(
      z.looseObject({
        topic: z.string(),
        escalationPrompt: z.string(),
        autoChangeConversationMode: z.boolean(),
        response: z.string(),
        recipients: z.array(recipient),
      }),
    ),
  },
  {},
);
