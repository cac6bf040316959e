// Enqueues webhook deliveries in the transaction of the event itself, so a delivery exists if and only if
// the event was committed.

import type { Served } from "../../wire/record.ts";
import type { Occasion, Trigger, webhookDelivery } from "../../wire/webhook.ts";
import { newUuid } from "../ids.ts";
import { conversationOf, transcript, userOf } from "../records.ts";
import type { PlatformConversationRow } from "../store/conversations.ts";
import type { PlatformStore } from "../store/store.ts";
import type { WebhookRow } from "../store/webhooks.ts";

/** Enqueues one delivery for each webhook of the agent with this trigger. Call inside a transaction. */
export function fire(
  store: PlatformStore,
  now: number,
  trigger: Trigger,
  conversation: PlatformConversationRow,
): void {
  for (const webhook of store.webhooks.active(conversation.agent_id, trigger))
    deliverTo(store, now, webhook, trigger, conversation);
}

/** Enqueues one delivery to this webhook and returns its id. Call inside a transaction. */
export function deliverTo(
  store: PlatformStore,
  now: number,
  webhook: WebhookRow,
  trigger: Occasion,
  conversation: PlatformConversationRow,
  more: Pick<DeliveryPayload, "escalation"> = {},
): string {
  const id = newUuid(now);
  store.webhooks.put({
    id,
    webhook_id: webhook.id,
    conversation_id: conversation.id,
    trigger,
    body: JSON.stringify({ ...payload(store, trigger, conversation, now), ...more }),
    due_at: now,
    created_at: now,
  });
  return id;
}

type DeliveryPayload = Served<typeof webhookDelivery>;

function payload(
  store: PlatformStore,
  trigger: Occasion,
  conversation: PlatformConversationRow,
  now: number,
): DeliveryPayload {
  const row = store.conversations.byId(conversation.agent_id, conversation.id) ?? conversation;
  const person = store.people.byId(row.agent_id, row.person_id);
  if (!person) throw new Error(`firing ${trigger}: the conversation's person is gone`);
  const messages = transcript(store, row.id);
  const newest = messages.at(-1);
  return {
    triggerCondition: trigger,
    timestamp: new Date(now).toISOString(),
    conversationId: row.id,
    userId: person.id,
    messageId: newest?.id ?? null,
    message: newest?.message ?? null,
    agent: { id: row.agent_id, name: store.agents.nameOf(row.agent_id) ?? "" },
    user: userOf(person),
    conversation: conversationOf(row, person),
    messages,
    score: row.score,
  };
}
