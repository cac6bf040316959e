// Anonymizes what an agent keeps no longer (the DATA_RETENTION skill): what was said, and who said it. The rows stay, so
// that ids and statistics do.

import type { AgentDefinition } from "./definition.ts";
import type { PlatformStore } from "./store/store.ts";

const dayMs = 86_400_000;

/** Inside a transaction: at most `limit` of each; true when there may be more. */
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
    // A delivery's body has the whole transcript.
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
