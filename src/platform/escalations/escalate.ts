// Records an escalation once per question, in the transaction that stores the answer, and enqueues its
// notifications. Webhooks use the delivery queue. SMS and email recipients are only recorded, because the
// platform sends neither.

import { createHmac } from "node:crypto";
import type { AgentDefinition, EscalationDefinition } from "../definition.ts";
import { newUuid, uuidOf } from "../names.ts";
import type { ConversationRow } from "../store/conversations.ts";
import type { Notified } from "../store/escalations.ts";
import type { PlatformStore } from "../store/store.ts";
import type { WebhookRow } from "../store/webhooks.ts";
import { deliverTo } from "../webhooks/fire.ts";

/** Records the escalation. Call inside a transaction, after the response was stored. */
export function escalate(
  store: PlatformStore,
  now: number,
  { agent, conversation, questionId, escalation }: Escalating,
): void {
  if (store.escalations.of(questionId)) return;
  if (escalation.toManual) store.conversations.setMode(conversation.id, "manual", now);
  const webhooks = new Map(escalationWebhooks(agent, now).map((row) => [row.id, row]));
  const notified = escalation.recipients.map(({ channel, value }, at): Notified => {
    const webhook = webhooks.get(webhookId(agent, escalation, at));
    if (channel !== "webhook" || !webhook) return { channel, value, delivery: null };
    const delivery = deliverTo(store, now, webhook, "escalation", conversation, {
      escalation: { topic: escalation.topic, response: escalation.response, messageId: questionId },
    });
    return { channel, value, delivery };
  });
  store.escalations.insert({
    id: newUuid(now),
    agent_id: agent.id,
    conversation_id: conversation.id,
    message_id: questionId,
    topic: escalation.topic,
    response: escalation.response,
    notified: JSON.stringify(notified),
    created_at: now,
  });
}

interface Escalating {
  readonly agent: AgentDefinition;
  readonly conversation: ConversationRow;
  readonly questionId: string;
  readonly escalation: EscalationDefinition;
}

/** Returns webhook rows for the recipients that are webhooks. Ids and secrets are stable across
 *  restarts. */
export function escalationWebhooks(agent: AgentDefinition, now: number): WebhookRow[] {
  return agent.escalations.flatMap((escalation) =>
    escalation.recipients.flatMap(({ channel, value, headers }, at) => {
      if (channel !== "webhook") return [];
      const id = webhookId(agent, escalation, at);
      return {
        id,
        agent_id: agent.id,
        title: escalation.topic,
        description: "",
        url: value,
        trigger: "escalation" as const,
        headers: JSON.stringify(headers),
        secret: `whsec_${createHmac("sha256", agent.seed).update(id).digest("base64")}`,
        status: "active" as const,
        defined: 1 as const,
        created_at: now,
        updated_at: now,
      };
    }),
  );
}

const webhookId = (agent: AgentDefinition, { topic, recipients }: EscalationDefinition, at: number): string =>
  uuidOf("escalation", agent.id, topic, String(at), recipients[at]?.value ?? "");
