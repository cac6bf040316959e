// An agent's usage in a period (External API 2.7), and the query that selects the period and the user
// (4.2).

import * as z from "zod";
import { instant } from "./instant.ts";
import { record } from "./record.ts";

/** For seconds of calls, texts, mails and tokens: the sum, and the mean per conversation. */
export const statistic = record(
  "statistic",
  {},
  {
    tokensUsed: z.number(),
    tokensPerConversation: z.number(),
    vapiSecondsUsed: z.number(),
    averageCallDuration: z.number(),
    smsUsed: z.number(),
    smsPerConversation: z.number(),
    emailsUsed: z.number(),
    emailsPerConversation: z.number(),
  },
  {},
);

/** Bounds are inclusive; the four ids restrict the result to one conversation user. */
export const statisticQuery = z.looseObject({
  startDate: instant.optional(),
  endDate: instant.optional(),
  fkId: z.string().min(1).optional(),
  fkUserId: z.string().min(1).optional(),
  userId: z.uuid().optional(),
  conversationUserId: z.uuid().optional(),
});
