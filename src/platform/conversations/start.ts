// Starts conversations: inserts a row, or reuses the user's current conversation over the same channel. Converts the user
// fields of requests into rows.

import type * as z from "zod";
import type { createUserRequest, startRequest } from "../../wire/conversation.ts";
import type { FailureDetail } from "../../wire/record.ts";
import { newUuid, uuidOf } from "../ids.ts";
import type { PlatformConversationRow } from "../store/conversations.ts";
import { openPlatformStore, type PlatformStore } from "../store/store.ts";
import type { PersonRow } from "../store/users.ts";
import { fire } from "../webhooks/deliveries.ts";
import { countOpening } from "./statistics.ts";

type PersonRequest = z.infer<typeof createUserRequest>;

/** Returns the invalid addresses, unless the caller disabled validation. */
export function addressProblems(request: PersonRequest): FailureDetail[] {
  const problems: FailureDetail[] = [];
  const { email, phoneNumber } = request;
  if (email && !request.skipEmailValidation && !/^[^\s@]+@[^\s@]+$/.test(email))
    problems.push({ path: "email", message: "not an e-mail address" });
  if (phoneNumber && !request.skipPhoneNumberValidation && !/^\+[\d ().-]{5,25}$/.test(phoneNumber))
    problems.push({ path: "phoneNumber", message: "a number with its prefix, such as +15550100, is needed" });
  return problems;
}

/** Builds a new row without storing it. Empty strings count as absent. */
export function personRow(agentId: string, request: PersonRequest, now: number): PersonRow {
  return {
    id: newUuid(now),
    agent_id: agentId,
    first_name: request.firstName,
    last_name: request.lastName,
    context: request.context || null,
    source: request.source || null,
    fk_id: request.fkId || null,
    fk_user_id: request.fkUserId || null,
    email: request.email || null,
    phone_number: dialled(request.phoneNumber ?? "") || null,
    metadata: request.customData ? JSON.stringify({ customData: request.customData }) : null,
    created_at: now,
    anonymized: 0,
  };
}

/** Normalizes a phone number to digits with a leading plus. Returns other text unchanged. */
export function dialled(number: string): string {
  return /^\+[\d ().-]+$/.test(number) ? `+${number.replace(/\D/g, "")}` : number;
}

/** Returns the id of an existing or new user. Call inside a transaction. */
function findOrInsert(store: PlatformStore, row: PersonRow): string {
  const known = store.people.find(row.agent_id, row);
  if (!known) {
    store.people.insert(row);
    return row.id;
  }
  const { first_name, last_name } = row.first_name || row.last_name ? row : known;
  const email = addressNow(store, known, row, "email");
  const phone_number = addressNow(store, known, row, "phone_number");
  store.people.update({ ...row, id: known.id, first_name, last_name, email, phone_number });
  return known.id;
}

/** Decides which address a known user keeps. A match by fkId replaces the address; a match by address
 *  keeps the other one. An address that belongs to another user is never moved. */
function addressNow(
  store: PlatformStore,
  known: PersonRow,
  row: PersonRow,
  name: "email" | "phone_number",
): string | null {
  const given = row[name];
  const keyed = row.fk_id !== null && row.fk_id === known.fk_id;
  if (given === null || (known[name] !== null && !keyed)) return known[name];
  const noUser = { fk_id: null, email: null, phone_number: null };
  const owner = store.people.find(row.agent_id, { ...noUser, [name]: given });
  return owner === undefined || owner.id === known.id ? given : known[name];
}

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
export function startConversation(store: PlatformStore, agentId: string, request: StartInput, now: number): string {
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
  if (request.channel === "sms") greet(store, row, request.smsIntroduction);
  if (request.channel === "voice") greet(store, row, request.firstMessage);
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
