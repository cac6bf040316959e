// Selects the conversation of a message.

import type { ExternalId, MessageEvent, ThreadToken } from "bridgehead/contract";

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
