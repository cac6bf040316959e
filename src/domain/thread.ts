// Selects the conversation of a message.

import type { ExternalId, MessageEvent, ThreadToken } from "bridgehead/contract";

/** A conversation that is named by one of the message's references. */
export interface Candidate {
  readonly conversation: string;
  /** Lower-cased addresses of all participants so far. */
  readonly participants: ReadonlySet<string>;
}

/** At most this many references are followed; genuine threads have no longer chains. */
export const referenceLimit = 20;

/** Returns the ids and tokens to look up by priority: In-Reply-To, References newest first, then tokens. */
export function references(event: MessageEvent): {
  answers: readonly ExternalId[];
  tokens: readonly ThreadToken[];
} {
  if ("session" in event.thread) return { answers: [], tokens: [] };
  const unique = [...new Set(event.thread.answers)];
  return {
    answers: unique.slice(0, referenceLimit),
    tokens: (event.thread.tokens ?? []).slice(0, referenceLimit),
  };
}

/** Returns the first candidate in which the sender takes part; null opens a new conversation. A sender
 *  who only cites a known id (a forwarded thread, a guessed token) is never added to another customer's
 *  conversation. */
export function chooseConversation(sender: string, candidates: readonly Candidate[]): string | null {
  const found = candidates.find((candidate) => candidate.participants.has(sender.toLowerCase()));
  return found?.conversation ?? null;
}
