// Webhooks: when they fire (External API 6), how a skill lists them (2.6), how they are registered (4.3).

import * as z from "zod";

export const triggers = [
  "each_message",
  "start_dialog",
  "end_dialog",
  "chat_currently_unavailable",
  "auto_archive_conversation",
  "manual",
] as const;

export const webhookConfig = z.looseObject({
  status: z.enum(["active", "inactive"]),
  title: z.string(),
  description: z.string(),
  url: z.string(),
  triggerCondition: z.enum(triggers),
  headers: z.record(z.string(), z.unknown()).optional(),
});
