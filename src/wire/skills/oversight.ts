// Skills for human supervision of the agent: ESCALATION, SCORING, FEEDBACK, AGENT_REPORT, DATA_RETENTION.

import * as z from "zod";
import { skillOf } from "./kinds.ts";

const recipient = z.looseObject({
  channel: z.enum(["sms", "email", "webhook"]),
  value: z.string(),
  headers: z.record(z.string(), z.unknown()).optional(),
});

const escalation = z.looseObject({
  topic: z.string(),
  escalationPrompt: z.string(),
  /** True: a human handles the conversation from then on. */
  autoChangeConversationMode: z.boolean(),
  /** The text for the customer. */
  response: z.string(),
  recipients: z.array(recipient),
});

export const escalationSkill = skillOf("ESCALATION", { escalations: z.array(escalation) }, {});

export const scoringSkill = skillOf("SCORING", {}, { scoringPrompt: z.string() });

export const feedbackSkill = skillOf(
  "FEEDBACK",
  {
    period: z.enum(["last_30_days", "last_60_days", "last_90_days", "all_time"]),
    autoUpload: z.boolean(),
    generationMode: z.enum(["manual", "auto"]),
  },
  {},
);

export const reportSkill = skillOf(
  "AGENT_REPORT",
  { frequency: z.enum(["DAILY", "WEEKLY", "MONTHLY"]), emails: z.array(z.string()) },
  {},
);

export const retentionSkill = skillOf(
  "DATA_RETENTION",
  {
    retentionDays: z.number(),
    anonymizeConversations: z.boolean(),
    anonymizeConversationUsers: z.boolean(),
  },
  {},
);
