// Counts an agent's usage when it occurs. A text or a mail is a reply of the agent or of a human in a conversation of
// that channel. A call lasts from its opening to its last message. Tokens are the numbers of the model's own response.

import type * as z from "zod";
import type { statistic, statisticQuery } from "../../wire/agent.ts";
import type { Served } from "../../wire/record.ts";
import type { PlatformConversationRow } from "../store/conversations.ts";
import type { PlatformStore } from "../store/store.ts";
import { sum } from "../store/users.ts";

/** Counts an opened conversation. Called inside a transaction. */
export function countOpening(
  store: PlatformStore,
  { agent_id, person_id, channel, created_at }: PlatformConversationRow,
): void {
  store.usage.add(agent_id, person_id, created_at, {
    conversations: 1,
    calls: channel === "voice" ? 1 : 0,
    text_conversations: channel === "sms" ? 1 : 0,
    mail_conversations: channel === "email" ? 1 : 0,
  });
}

/** Counts a message sent at `at`; `previousAt` is the time of the message before it. Called inside a transaction. */
export function countMessage(
  store: PlatformStore,
  conversation: PlatformConversationRow,
  message: {
    readonly ours: boolean;
    readonly at: number;
    readonly previousAt: number;
    readonly tokens: number;
    readonly questions: number;
  },
): void {
  const { agent_id, person_id, channel } = conversation;
  store.usage.add(agent_id, person_id, message.at, {
    tokens: message.tokens,
    questions: message.questions,
    texts: channel === "sms" && message.ours ? 1 : 0,
    mails: channel === "email" && message.ours ? 1 : 0,
    seconds: channel === "voice" ? (message.at - message.previousAt) / 1000 : 0,
  });
}

/** Returns the statistic of an agent, or of the users that match all ids of the query. */
export function statisticOf(
  store: PlatformStore,
  agentId: string,
  query: z.output<typeof statisticQuery>,
): Served<typeof statistic> {
  const { startDate, endDate, fkId, fkUserId, userId, conversationUserId } = query;
  const narrowed = [fkId, fkUserId, userId, conversationUserId].some((id) => id !== undefined);
  const scopes = narrowed
    ? store.people.matching(agentId, {
        ids: [userId, conversationUserId].filter((id) => id !== undefined),
        fkId: fkId ?? null,
        fkUserId: fkUserId ?? null,
      })
    : [agentId];
  const within = (scope: string) => store.usage.within(scope, startDate ?? null, endDate ?? null);
  const used = sum(scopes.map(within));
  const each = (total: number, conversations: number) => (conversations === 0 ? 0 : total / conversations);
  return {
    tokensUsed: used.tokens,
    tokensPerConversation: each(used.tokens, used.conversations),
    vapiSecondsUsed: used.seconds,
    averageCallDuration: each(used.seconds, used.calls),
    smsUsed: used.texts,
    smsPerConversation: each(used.texts, used.text_conversations),
    emailsUsed: used.mails,
    emailsPerConversation: each(used.mails, used.mail_conversations),
  };
}
