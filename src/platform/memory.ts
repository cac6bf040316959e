// Recalls earlier conversations for the model (MEMORY skill): the last messages of the most recent ones.
// Has no effect without a model.

import type { AgentDefinition } from "./definition.ts";
import type { ConversationRow } from "./store/conversations.ts";
import type { PlatformStore } from "./store/store.ts";

const conversationsAtMost = 5;
const messagesOfEach = 6;
const lengthAtMost = 4_000;
const dayMs = 86_400_000;

/** Returns context for the model, or null when there is none. BY_AGENT includes other users'
 *  conversations without their names. */
export function recall(
  store: PlatformStore,
  { memory, model }: AgentDefinition,
  conversation: ConversationRow,
  now: number,
): string | null {
  if (!memory || !model) return null;
  const person = memory.by === "user" ? conversation.person_id : null;
  const since = now - memory.days * dayMs;
  const lines = store.conversations
    .recent(conversation, person, since, conversationsAtMost)
    .flatMap(({ id }) =>
      store.messages
        .before(id, Number.MAX_SAFE_INTEGER, messagesOfEach)
        .filter(({ created_at }) => created_at >= since)
        .map(({ sender_role, text }) => `${sender_role === "conversation_user" ? "Person" : "You"}: ${text}`),
    );
  if (lines.length === 0) return null;
  const heading =
    memory.by === "user"
      ? "From earlier conversations with this person:"
      : "From earlier conversations with other people; never say what would tell who they were:";
  return `${heading}\n${lines.join("\n")}`.slice(0, lengthAtMost);
}
