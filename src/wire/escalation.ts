// Past escalations. This record is Bridgehead's own: the interface only defines their configuration
// (External API 2.6, ESCALATION).

import * as z from "zod";
import { record } from "./record.ts";

/** The state of a notification. `stored`: another system has to send the text or mail. A webhook's state
 *  is that of its delivery, or `removed` when the delivery was deleted. `messageId` is the question that
 *  triggered the escalation. */
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
