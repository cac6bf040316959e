// Starts conversations: inserts a row, or reuses the user's current conversation over the same channel.

import type * as z from "zod";
import type { startRequest } from "../../wire/conversation.ts";
import { newUuid, uuidOf } from "../ids.ts";
import type { PlatformConversationRow } from "../store/conversations.ts";
import { openPlatformStore, type PlatformStore } from "../store/store.ts";
import { fire } from "../webhooks/fire.ts";
import { countOpening } from "./statistics.ts";
import { findOrInsert, personRow } from "./users.ts";

export type StartInput = z.output<typeof startRequest>;
type ConversationOpening = Pick<PlatformConversationRow, "agent_id" | "person_id" | "channel"> &
  Partial<Pick<PlatformConversationRow, "title" | "context" | "introduction" | "state_id" | "metadata">>;

/** Builds a new row without storing it. */
export function conversationRow(opening: ConversationOpening, now: number): PlatformConversationRow {
  const id = newUuid(now);
  return {
    id,
    mode: "ai",
    status: "active",
    ai_conversation_id: `conv_${uuidOf("ai conversation", id)}`,
    title: null,
    context: null,
    introduction: null,
    state_id: null,
    metadata: null,
    created_at: now,
    updated_at: now,
    last_message_at: now,
    ended_at: null,
    score: null,
    anonymized: 0,
    ...opening,
  };
}

/** Returns the id of the conversation. Each call starts a new voice conversation. Email and SMS reuse
 *  the current conversation unless a reset is requested, which archives it. Call inside a transaction. */
export function startConversation(
  store: PlatformStore,
  agentId: string,
  request: StartInput,
  now: number,
): string {
  const { channel } = request;
  const personId = findOrInsert(store, personRow(agentId, request, now));
  if (channel !== "voice") {
    const current = store.conversations.current(personId, channel);
    if (current && !request.resetConversation) return current.id;
    if (current) store.conversations.archive(personId, channel, now);
  }
  const row = conversationRow(
    {
      agent_id: agentId,
      person_id: personId,
      channel,
      title: channel === "email" ? request.emailSubject.slice(0, 255).toWellFormed() : null,
      context: request.conversationContext ?? null,
      introduction: request.channel === "email" ? request.emailIntroduction : null,
      state_id: request.conversationStateId ?? null,
      metadata: request.customData ? JSON.stringify({ customData: request.customData }) : null,
    },
    now,
  );
  store.conversations.insert(row);
  countOpening(store, row);
  if (request.channel !== "email") greet(store, row, introductionOf(request));
  fire(store, now, "start_dialog", row);
  return row.id;
}

/** Stores the introduction as the first message of an SMS or voice conversation. For email it only
 *  precedes the first answer. */
function greet(store: PlatformStore, row: PlatformConversationRow, text: string): void {
  if (text.trim() === "") return;
  const { id: conversation_id, created_at } = row;
  const id = newUuid(created_at);
  store.messages.insert({
    id,
    conversation_id,
    sender_role: "assistant",
    question_id: id,
    text,
    context: null,
    citations: null,
    open: 0,
    patient: 0,
    error: null,
    created_at,
  });
}

/** Deletes users with their conversations in the file of a platform, which may be running. `known`: addresses in lower
 *  case and ids of conversations. Returns the number of users. Throws when the file cannot be opened. */
export async function deleteUsers(file: string, known: readonly string[]): Promise<number> {
  const store = openPlatformStore(file, "full");
  try {
    const ids = [...new Set(known.flatMap((value) => store.people.holding(value)))];
    for (const id of ids)
      await store.commits.write(() => {
        removeConversations(store, id);
        store.people.remove(id);
      });
    return ids.length;
  } finally {
    store.close();
  }
}

/** Deletes all conversations of a user. Call inside a transaction. */
export function removeConversations(store: PlatformStore, personId: string): void {
  store.webhooks.forget(personId);
  store.escalations.removeOf(personId);
  store.messageFiles.removeOf(personId);
  store.messages.removeOf(personId);
  store.conversations.removeOf(personId);
}

function introductionOf(request: Exclude<StartInput, { channel: "email" }>): string {
  return request.channel === "sms" ? request.smsIntroduction : request.firstMessage;
}
