// Escalations that happened: ours, for the interface only tells how they are configured (External API 2.6, ESCALATION).

import * as z from "zod";
import { record } from "./record.ts";

/** A notification's state: `stored` is for whoever sends texts and mails; a webhook's is its delivery's, `removed` when
 *  that is gone. `messageId` is the question that called for it. */
export const escalation = record(
  "escalation",
  { id: z.string() },
  {
    conversationId: z.string(),
    messageId: z.string(),
    topic: z.string(),
    response: z.string(),
    notifications: z.array(
      z.looseObject({
        channel: z.enum(["sms", "email", "webhook"]),
        value: z.string(),
        state: z.enum(["stored", "pending", "delivered", "failed", "removed"]),
      }),
    ),
    createdAt: z.string(),
  },
  {},
);
