// Which conversation a message belongs to.

import type { ExternalId, MessageEvent, ThreadToken } from "bridgehead/contract";

/** A conversation that one of the message's references names. */
export interface Candidate {
  readonly conversation: string;
  /** Lower-cased addresses of everyone who took part so far. */
  readonly participants: ReadonlySet<string>;
}

/** At most this many references are followed; longer chains are somebody's experiment. */
export const referenceLimit = 20;

/** The ids and tokens to look up, in the order of their weight: In-Reply-To, References newest first, then tokens. */
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

/** The first candidate in which the sender takes part; null opens a new conversation. A stranger who cites a known
 *  id (a forwarded thread, a guessed token) never gets into somebody else's conversation. */
export function chooseConversation(sender: string, candidates: readonly Candidate[]): string | null {
  const found = candidates.find((candidate) => candidate.participants.has(sender.toLowerCase()));
  return found?.conversation ?? null;
}
