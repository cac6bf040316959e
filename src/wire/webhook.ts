// Webhooks: their triggers (External API 6), their entries in a skill (2.6), their registration (4.3), and
// their payload. The payload is not documented. It contains the interface's own records and the five flat
// names that known clients read.

import * as z from "zod";
import { conversation, message, user } from "./conversation.ts";
import { record } from "./record.ts";

export const triggers = [
  "each_message",
  "start_dialog",
  "end_dialog",
  "chat_currently_unavailable",
  "auto_archive_conversation",
  "manual",
] as const;
export type Trigger = (typeof triggers)[number];

/** The events of a delivery: a trigger, or an escalation whose recipient is a webhook. */
const occasions = [...triggers, "escalation"] as const;
export type Occasion = (typeof occasions)[number];

const headers = z.record(z.string(), z.string());

/** A webhook as the WEBHOOK skill lists it. */
export const webhookConfig = z.looseObject({
  status: z.enum(["active", "inactive"]),
  title: z.string(),
  description: z.string(),
  url: z.string(),
  triggerCondition: z.enum(triggers),
  headers: z.record(z.string(), z.unknown()).optional(),
});

/** POST /external/agents/webhooks. */
export const registerWebhookRequest = z.looseObject({
  title: z.string().min(1).max(255),
  description: z.string().max(10_000),
  url: z.string().min(1).max(2048),
  triggerCondition: z.enum(triggers),
  headers: headers.optional(),
});

/** `secret`: Bridgehead's own field, returned only by the registration. It verifies deliveries (Standard Webhooks). */
export const webhook = record(
  "webhook",
  { id: z.string() },
  {
    agentId: z.string(),
    title: z.string(),
    description: z.string(),
    url: z.string(),
    triggerCondition: z.enum(triggers),
    status: z.enum(["active", "inactive"]),
    createdAt: z.string(),
    updatedAt: z.string(),
  },
  { headers, secret: z.string() },
);

/** An entry of a webhook's log: a past or pending delivery, with the last response's status or the last error. */
export const delivery = record(
  "delivery",
  { id: z.string() },
  {
    conversationId: z.string(),
    triggerCondition: z.enum(triggers),
    state: z.enum(["pending", "delivered", "failed"]),
    attempts: z.number(),
    status: z.number().nullable(),
    error: z.string().nullable(),
    nextAttemptAt: z.string().nullable(),
    createdAt: z.string(),
  },
);

/** A delivery that was queued. */
export const accepted = record("accepted delivery", { id: z.string() });

/** The body of a delivery. `messageId` and `message` name the newest turn; `messages` is the whole transcript. */
export const webhookDelivery = record(
  "webhook delivery",
  { conversationId: z.string() },
  {
    triggerCondition: z.enum(occasions),
    timestamp: z.string(),
    userId: z.string(),
    messageId: z.string().nullable(),
    message: z.string().nullable(),
    agent: z.looseObject({ id: z.string(), name: z.string() }),
    user: user.exact,
    conversation: conversation.exact,
    messages: z.array(message.exact),
    score: z.number().nullable(),
  },
  /** `messageId`: the question that triggered the escalation. */
  { escalation: z.looseObject({ topic: z.string(), response: z.string(), messageId: z.string() }) },
);
