// Builds webhook rows from an agent's definition.

import { createHmac } from "node:crypto";
import type { AgentDefinition } from "../definition.ts";
import { escalationWebhooks } from "../escalations/escalate.ts";
import { uuidOf } from "../names.ts";
import type { WebhookRow } from "../store/webhooks.ts";

/** Ids and secrets are derived from the definition, so they are stable across restarts. */
export function definedWebhooks(agent: AgentDefinition, now: number): WebhookRow[] {
  const own = agent.webhooks.map(({ title, description, url, trigger, headers, secret, status }) => {
    const id = uuidOf("webhook", agent.id, trigger, url, title);
    return {
      id,
      agent_id: agent.id,
      title,
      description,
      url,
      trigger,
      headers: JSON.stringify(headers),
      secret: secret ?? `whsec_${createHmac("sha256", agent.seed).update(id).digest("base64")}`,
      status,
      defined: 1 as const,
      created_at: now,
      updated_at: now,
    };
  });
  return [...own, ...escalationWebhooks(agent, now)];
}
