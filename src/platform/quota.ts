// How much of its quota an agent has used (the MESSAGE_QUOTA skill): questions in the calendar month, by UTC.

import type { AgentDefinition } from "./definition.ts";
import type { PlatformStore } from "./store/store.ts";

/** What to answer instead when nothing is left; null when something is, or when there is no quota. */
export function exhausted(store: PlatformStore, { id, quota }: AgentDefinition, now: number): string | null {
  if (!quota) return null;
  const today = new Date(now);
  const month = Date.UTC(today.getUTCFullYear(), today.getUTCMonth());
  return store.usage.within(id, month, null).questions >= quota.limit ? quota.response : null;
}
