// Enforces the MESSAGE_QUOTA skill: questions per calendar month (UTC).

import type { AgentDefinition } from "./definition.ts";
import type { PlatformStore } from "./store/store.ts";

/** Returns the response to use when the quota is exhausted; null otherwise, or without a quota. */
export function exhausted(store: PlatformStore, { id, quota }: AgentDefinition, now: number): string | null {
  if (!quota) return null;
  const today = new Date(now);
  const month = Date.UTC(today.getUTCFullYear(), today.getUTCMonth());
  return store.usage.within(id, month, null).questions >= quota.limit ? quota.response : null;
}
