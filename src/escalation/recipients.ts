// The recipients of the agent's own ESCALATION skill, and which channel carries what to whom.

import type { Contact, Policy } from "../domain/policy.ts";
import type { Lines } from "../pipeline/line.ts";
import type { Way } from "../store/contacts.ts";
import type { EscalationRow } from "../store/escalations.ts";

/** The channel that no configuration names: it carries notices to webhooks. */
export const webhookChannel = "escalations";

export const carrierOf = (policy: Policy, way: Way): string | null =>
  way === "webhook" ? webhookChannel : policy.via[way];

/** Those of the topic it is about; of all topics when that is not known. None when the agent has no such skill. */
export function agentRecipients(row: EscalationRow, lines: Lines): readonly Contact[] {
  const line = lines.get(row.channel) ?? [...lines.values()].find(({ agent }) => agent === row.agent);
  const all = line?.settings()?.escalations ?? [];
  const own = all.filter(({ topic }) => row.topic !== null && topic === row.topic);
  const contacts = (own.length > 0 ? own : all).flatMap(({ recipients }) =>
    recipients.map(({ channel, value }) => ({
      person: `agent:${value}`,
      name: value,
      way: channel,
      address: value,
    })),
  );
  return [...new Map(contacts.map((one) => [`${one.way} ${one.address}`, one])).values()];
}
