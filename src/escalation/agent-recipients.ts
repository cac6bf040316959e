// The recipients of the agent's ESCALATION skill.

import type { EscalationSettings } from "../agent/calls.ts";
import type { Contact } from "../domain/policy.ts";
import type { ChannelRuntimes } from "../pipeline/channel-runtime.ts";
import type { EscalationRow } from "../store/tables/escalations.ts";
import type { Way } from "../store/tables/responders.ts";

/** Returns the skill's settings for a topic, or for all topics when it does not list this one. */
export function escalationsFor(
  topic: string | null,
  all: readonly EscalationSettings[],
): readonly EscalationSettings[] {
  const own = all.filter((one) => one.topic === topic);
  return own.length > 0 ? own : all;
}

/** Returns an empty list when the agent has no ESCALATION skill. */
export function agentRecipients(
  row: Pick<EscalationRow, "channel" | "agent" | "topic">,
  lines: ChannelRuntimes,
): readonly Contact[] {
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

/** True for a webhook URL under which the platform notifies a bridge. A notification to it would return
 *  as a new escalation. */
const isIntake = (url: string): boolean =>
  /\/platform\/[^/]+\/(escalation|message)\/?$/.test(URL.parse(url)?.pathname ?? "");

/** The name that other responders see when this recipient acknowledges. A webhook shows only its host,
 *  because the path often contains a secret key. */
const shownName = (way: Way, value: string): string =>
  way === "webhook" ? (URL.parse(value)?.host ?? "a webhook") : value;
