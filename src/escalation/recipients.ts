// The recipients of the agent's own ESCALATION skill, and which channel carries what to whom.

import type { EscalationSettings } from "../agent/calls.ts";
import { type Contact, type Policy, webhookChannel } from "../domain/policy.ts";
import type { Lines } from "../pipeline/line.ts";
import type { Way } from "../store/contacts.ts";
import type { EscalationRow } from "../store/escalations.ts";

export const carrierOf = (policy: Policy, way: Way): string | null =>
  way === "webhook" ? webhookChannel : policy.via[way];

/** What the agent's skill says of a topic; of all topics when it knows none of that name. */
export function escalationsFor(
  topic: string | null,
  all: readonly EscalationSettings[],
): readonly EscalationSettings[] {
  const own = all.filter((one) => one.topic === topic);
  return own.length > 0 ? own : all;
}

/** None when the agent has no such skill. */
export function agentRecipients(row: EscalationRow, lines: Lines): readonly Contact[] {
  const line = lines.get(row.channel) ?? [...lines.values()].find(({ agent }) => agent === row.agent);
  const told = escalationsFor(row.topic, line?.settings()?.escalations ?? []);
  const contacts = told.flatMap(({ recipients }) =>
    recipients
      .filter(({ channel, value }) => channel !== "webhook" || !isIntake(value))
      .map(({ channel, value }) => ({
        person: `agent:${value}`,
        name: shownName(channel, value),
        way: channel,
        address: value,
      })),
  );
  return [...new Map(contacts.map((one) => [`${one.way} ${one.address}`, one])).values()];
}

/** By which the platform tells a bridge of the escalation: what we said there would come back to us as a new one. */
const isIntake = (url: string): boolean =>
  /\/platform\/[^/]+\/(escalation|message)\/?$/.test(URL.parse(url)?.pathname ?? "");

/** Others are told who has taken it: the path of a webhook is a key with many receivers. */
const shownName = (way: Way, value: string): string =>
  way === "webhook" ? (URL.parse(value)?.host ?? "a webhook") : value;
