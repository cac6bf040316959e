// Anonymizes expired messages and users (DATA_RETENTION skill). The rows stay, so ids and statistics remain
// valid.

import type { AgentDefinition } from "./definition.ts";
import type { PlatformStore } from "./store/store.ts";

const dayMs = 86_400_000;

/** Anonymizes at most `limit` conversations and users. Returns true when more may be due. Call inside a
 *  transaction. */
export function forget(
  store: PlatformStore,
  { id, retention }: AgentDefinition,
  now: number,
  limit: number,
): boolean {
  if (!retention) return false;
  const before = now - retention.days * dayMs;
  const conversations = retention.conversations ? store.conversations.expired(id, before, limit) : [];
  for (const conversation of conversations) {
    // The body of a delivery contains the transcript.
    store.webhooks.forgetConversation(conversation.id);
    store.messageFiles.removeOfConversation(conversation.id);
    store.messages.anonymize(conversation.id);
    store.conversations.anonymize(conversation.id);
  }
  const people = retention.people ? store.people.expired(id, before, limit) : [];
  for (const person of people) {
    store.webhooks.forget(person);
    store.people.anonymize(person);
  }
  return conversations.length === limit || people.length === limit;
}
