// Appends a message to a conversation.

import { newUuid } from "./names.ts";
import { countMessage } from "./statistics.ts";
import type { ConversationRow } from "./store/conversations.ts";
import type { MessageRow } from "./store/messages.ts";
import type { PlatformStore } from "./store/store.ts";
import { fire } from "./webhooks/fire.ts";

export interface Said {
  readonly role: MessageRow["sender_role"];
  readonly text: string;
  readonly questionId?: string;
  readonly context?: string | null;
  readonly citations?: string | null;
  readonly open?: boolean;
  readonly tokens?: number;
  /** The message counts against the agent's quota. */
  readonly counted?: boolean;
  readonly patient?: boolean;
}

/** Stores the message with the conversation's next time. Called inside a transaction. A message after
 *  the end of a dialog starts a new dialog. An answer to a question from before that end does not. */
export function say(
  store: PlatformStore,
  now: number,
  conversation: ConversationRow,
  said: Said,
): MessageRow {
  const { conversations, messages } = store;
  const before = conversations.byId(conversation.agent_id, conversation.id);
  const latest = before?.last_message_at ?? 0;
  const at = Math.max(now, latest + 1);
  const id = newUuid(now);
  messages.insert({
    id,
    conversation_id: conversation.id,
    sender_role: said.role,
    question_id: said.questionId ?? id,
    text: said.text,
    context: said.context ?? null,
    citations: said.citations ?? null,
    open: said.open ? 1 : 0,
    patient: said.patient ? 1 : 0,
    error: null,
    created_at: at,
  });
  conversations.touch(conversation.id, at);
  countMessage(store, conversation, {
    ours: said.role !== "conversation_user",
    at,
    previousAt: latest || at,
    tokens: said.tokens ?? 0,
    questions: said.counted ? 1 : 0,
  });
  const row = messages.byId(conversation.id, id);
  if (!row) throw new Error("storing a message: it is not there");
  if (said.role !== "assistant" && typeof before?.ended_at === "number")
    fire(store, now, "start_dialog", conversation);
  return row;
}
