// Skills of the channels to the agent: EMAIL, SMS, VOICE, API, WEBHOOK.

import * as z from "zod";
import { textOrObject } from "../text.ts";
import { webhookConfig } from "../webhook.ts";
import { delay, skillOf } from "./kinds.ts";

const email = skillOf(
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

/** When read, its texts are strings or objects; when served, they are strings, as in the interface. */
export const emailSkill = {
  read: email.read,
  exact: email.exact.extend({
    defaultEmailIntroduction: z.string().optional(),
    emailSignature: z.string().optional(),
  }),
};

const sms = skillOf(
  "SMS",
  { phoneNumber: z.string() },
  { defaultSmsIntroduction: textOrObject, smsSignature: textOrObject, responseDelaySeconds: delay },
);

const smsText = z.looseObject({}).optional();

/** When read, its texts are strings or objects; when served, they are objects, as in the interface. */
export const smsSkill = {
  read: sms.read,
  exact: sms.exact.extend({ defaultSmsIntroduction: smsText, smsSignature: smsText }),
};

/** The real names of the two ids contain the voice provider's name. The interface uses a placeholder,
 *  and so does this schema. Ids under another name pass through. */
export const voiceSkill = skillOf("VOICE", { vXAssistantId: z.string(), vXPhoneNumberId: z.string() }, {});

export const apiSkill = skillOf("API", { apiKey: z.string() }, {});

export const webhookSkill = skillOf(
  "WEBHOOK",
  { name: z.string(), description: z.string(), webhooks: z.array(webhookConfig) },
  {},
);
