// Determines whether a question was stored, and finds its answer. The interface has no idempotency key.
// Questions are therefore recognized by their text and the ids of earlier turns.

import type { Message } from "../client/index.ts";
import { normalizeWhitespace } from "../domain/turn.ts";
import type { Answer, Found, PastQuestion, PlatformMessage } from "./calls.ts";

/** Finds the user's newest message with this text that belongs to no earlier turn, and its answer. */
export function findQuestion(messages: readonly Message[], question: PastQuestion): Found {
  const ordered = inOrder(messages);
  const index = ordered.findLastIndex((message) => isQuestion(message, question));
  const asked = ordered[index];
  if (!asked) return { state: "absent" };
  const reply = replyTo(asked, ordered.slice(index + 1), ordered, question.knownIds);
  return reply
    ? { state: "answered", answer: { questionId: asked.id, replyId: reply.id, text: spoken(reply) } }
    : { state: "pending", questionId: asked.id };
}

/** Whether older messages cannot change the result of `findQuestion` for these messages, the newest of
 *  the conversation. */
export function isCertain(messages: readonly Message[], question: PastQuestion): boolean {
  const found = findQuestion(messages, question);
  if (found.state !== "answered") return found.state === "pending";
  // A reply that names a question id belongs to another question when that question is found.
  const reply = messages.find(({ id }) => id === found.answer.replyId);
  const named = reply?.conversationMessageId;
  return !named || messages.some(({ id }) => id === named);
}

/** Interprets the response of a message call: a reply of any role, or the user's own message when there
 *  is no reply. */
export function answerOf(record: Message): Answer {
  if (record.senderRole === "conversation_user") return { questionId: record.id, replyId: null, text: null };
  const questionId = record.conversationMessageId;
  return {
    questionId: questionId && questionId !== record.id ? questionId : null,
    replyId: record.id,
    text: spoken(record),
  };
}

/** Returns the id of a human's newest reply with this text that belongs to no earlier turn. */
export function findWords(messages: readonly Message[], words: PastQuestion): string | null {
  const text = normalizeWhitespace(words.text);
  const found = inOrder(messages).findLast(
    (message) =>
      message.senderRole === "manual_assistant" &&
      !words.knownIds.has(message.id) &&
      normalizeWhitespace(message.message) === text,
  );
  return found?.id ?? null;
}

const roles: { readonly [role: string]: PlatformMessage["role"] } = {
  assistant: "agent",
  manual_assistant: "human",
};

export function platformMessages(messages: readonly Message[]): readonly PlatformMessage[] {
  return inOrder(messages).map((message) => ({
    id: message.id,
    role: roles[message.senderRole] ?? "person",
    text: message.message,
    answers: message.conversationMessageId ?? null,
  }));
}

/** Sorts by time. If any message has no readable time, all keep the platform's order. */
function inOrder(messages: readonly Message[]): Message[] {
  const times = new Map(messages.map((message) => [message, Date.parse(message.createdAt ?? "")]));
  if ([...times.values()].some(Number.isNaN)) return [...messages];
  return messages.toSorted((a, b) => (times.get(a) ?? 0) - (times.get(b) ?? 0));
}

function isQuestion(message: Message, question: PastQuestion): boolean {
  if (message.senderRole !== "conversation_user" || question.knownIds.has(message.id)) return false;
  const text = normalizeWhitespace(question.text);
  return (
    normalizeWhitespace(message.message) === text || normalizeWhitespace(message.rawMessage ?? "") === text
  );
}

/** Prefers the reply that names the question; otherwise takes the next reply that names no other
 *  question. */
function replyTo(
  asked: Message,
  later: readonly Message[],
  all: readonly Message[],
  known: ReadonlySet<string>,
): Message | undefined {
  const replies = all.filter((message) => isReply(message) && !known.has(message.id));
  const named = replies.find((reply) => reply.conversationMessageId === asked.id);
  if (named) return named;
  const questions = new Set(all.filter((message) => !isReply(message)).map((message) => message.id));
  return later.find(
    (message) => replies.includes(message) && !questions.has(message.conversationMessageId ?? ""),
  );
}

function isReply(message: Message): boolean {
  return message.senderRole === "assistant" || message.senderRole === "manual_assistant";
}

/** An empty reply has no text to send. */
function spoken(reply: Message): string | null {
  return reply.message.trim() ? reply.message : null;
}
