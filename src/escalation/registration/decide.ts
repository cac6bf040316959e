// Decisions about the registration of webhooks. Without a database.

import { createHash } from "node:crypto";
import type { AgentSettings, CallResult, ListedWebhook } from "../../agent/calls.ts";
import type { Policy } from "../../domain/policy.ts";
import { jitter } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Registration } from "./rows.ts";

export const trigger = "each_message";

/** Returns the milliseconds until the next round. `unread`: an agent's settings were not read yet. */
export function pauseAfter(
  all: "whole" | "unread" | "failed",
  failures: number,
  { registerUnread, registerRetry, registerLongest }: Timing["platformWebhook"],
): number {
  if (all === "whole") return registerLongest;
  if (all === "unread") return registerUnread;
  return jitter(Math.min(registerRetry * 2 ** (failures - 1), registerLongest));
}

/** True for our trigger at that URL. */
export const isSame = (one: Pick<ListedWebhook, "url" | "trigger">, url: string): boolean =>
  one.url === url && one.trigger === trigger;

/** True when the platform has answered and a retry changes nothing. */
export const isFinal = (result: CallResult<unknown>): boolean =>
  result.kind === "refused" ||
  result.kind === "missing" ||
  (result.kind === "deferred" && /^HTTP 40[45]\b/.test(result.reason));

/** Returns null until the agent's settings were read: another agent under the same name needs its own
 *  webhook. */
export function wantedOf(
  agent: { readonly name: string; settings(): Pick<AgentSettings, "agentId"> | null },
  publicUrl: string,
  hook: Pick<NonNullable<Policy["platformWebhook"]>, "header" | "key">,
): Registration | null {
  const id = agent.settings()?.agentId;
  if (id === undefined) return null;
  const digest = createHash("sha256")
    .update(JSON.stringify([id, hook.header.toLowerCase(), hook.key]))
    .digest("hex");
  const url = `${publicUrl.replace(/\/$/, "")}/platform/${encodeURIComponent(agent.name)}/message`;
  return { agent: agent.name, trigger, url, digest };
}
