// The skills by which people reach the agent: EMAIL, SMS, VOICE, API, WEBHOOK.

import * as z from "zod";
import { textOrObject } from "../text.ts";
import { webhookConfig } from "../webhook.ts";
import { delay, skillOf } from "./kinds.ts";

export const emailSkill = skillOf(
  "EMAIL",
  { email: z.string() },
  {
    senderName: z.string(),
    defaultSubject: z.string(),
    defaultEmailIntroduction: textOrObject,
    emailSignature: textOrObject,
    responseDelaySeconds: delay,
  },
);

export const smsSkill = skillOf(
  "SMS",
  { phoneNumber: z.string() },
  { defaultSmsIntroduction: textOrObject, smsSignature: textOrObject, responseDelaySeconds: delay },
);

/** The two ids carry the voice provider's name in their keys, so they only pass through. */
export const voiceSkill = skillOf("VOICE", {}, {});

export const apiSkill = skillOf("API", { apiKey: z.string() }, {});

export const webhookSkill = skillOf(
  "WEBHOOK",
  { name: z.string(), description: z.string(), webhooks: z.array(webhookConfig) },
  {},
);
