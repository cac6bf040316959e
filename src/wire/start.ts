// POST /external/conversations/start (External API 4.3): one body per channel, one field in the response.

import * as z from "zod";
import { record } from "./record.ts";
import { personFields } from "./user.ts";

const common = {
  ...personFields,
  conversationContext: z.string().optional(),
  conversationStateId: z.string().optional(),
  authorId: z.string().optional(),
};

export const startRequest = z.discriminatedUnion("channel", [
  z.looseObject({
    ...common,
    channel: z.literal("email"),
    email: z.string().min(1),
    phoneNumber: z.string().optional(),
    emailSubject: z.string(),
    emailIntroduction: z.string(),
    includeSignatureInEmail: z.boolean().optional(),
    resetConversation: z.boolean().optional(),
  }),
  z.looseObject({
    ...common,
    channel: z.literal("sms"),
    phoneNumber: z.string().min(1),
    email: z.string().optional(),
    smsIntroduction: z.string(),
    includeSignatureInSms: z.boolean().optional(),
    resetConversation: z.boolean().optional(),
  }),
  z.looseObject({
    ...common,
    channel: z.literal("voice"),
    phoneNumber: z.string().min(1),
    email: z.string().optional(),
    firstMessage: z.string(),
  }),
]);

export const startResponse = record("conversation start", { conversationId: z.string().min(1) }, {}, {});
