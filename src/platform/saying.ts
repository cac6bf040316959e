// A message takes its place in a conversation.

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
  /** Counts against the agent's quota. */
  readonly counted?: boolean;
  readonly patient?: boolean;
}

/** Inside a transaction: the message with the conversation's next time, stored. After a dialog's end whoever speaks
 *  begins another; the answer to a question that was thought about for so long does not. */
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
