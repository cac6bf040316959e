// The recipients of the agent's ESCALATION skill, and the current settings of a webhook URL in the configuration or in
// that skill. Settings are looked up for each delivery, so that no secret is stored in a draft, and removed recipients
// get no more notifications.

import { createHmac } from "node:crypto";
import { validateHeaderName, validateHeaderValue } from "node:http";
import type { EscalationSettings } from "../../agent/calls.ts";
import type { Contact, Policy, Way } from "../../domain/policy.ts";
import type { ChannelRuntimes } from "../../pipeline/channel-runtime.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";

export interface WebhookRecipient {
  readonly headers: Readonly<Record<string, string>>;
  /** Signing secret of Standard Webhooks (`whsec_...`); null: deliveries are not signed. */
  readonly secret: string | null;
}

/** `stranger`: no recipient has that URL. `unread`: it may belong to an agent's skill that was not read yet. */
export function recipientAt(
  url: string,
  policy: Policy | null,
  lines: ChannelRuntimes,
): WebhookRecipient | "stranger" | "unread" {
  if (policy === null) return "stranger";
  for (const { webhook } of policy.responders.values()) if (webhook?.url === url) return webhook;
  const settings = [...lines.values()].map((line) => line.settings());
  const named = settings
    .flatMap((one) => one?.escalations ?? [])
    .flatMap(({ recipients }) => recipients)
    .find(({ channel, value }) => channel === "webhook" && value === url);
  if (named) return { headers: sendable(named.headers ?? {}), secret: null };
  return settings.includes(null) ? "unread" : "stranger";
}

/** Headers that control the transport of a request, and the headers that the daemon sets. */
const reserved =
  /^(host|connection|content-.*|transfer-encoding|upgrade|te|trailer|expect|keep-alive|proxy-.*|webhook-.*)$/i;

/** Drops reserved and invalid headers. The policy's headers are validated at load time; the skill's
 *  headers come from the platform, and an invalid one must not stop the notification. */
function sendable(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name, value]) => {
      try {
        validateHeaderName(name);
        validateHeaderValue(name, value);
      } catch {
        return false;
      }
      return !reserved.test(name);
    }),
  );
}

/** `id`: the same at every attempt. `nowMs`: time of this attempt. `secret`: `whsec_` and Base64; null: not signed. */
export function webhookHeaders(
  id: string,
  nowMs: number,
  body: string,
  secret: string | null,
): { readonly [name: string]: string } {
  const timestamp = String(Math.floor(nowMs / 1000));
  const named = { "webhook-id": id, "webhook-timestamp": timestamp };
  if (secret === null) return named;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return { ...named, "webhook-signature": `v1,${signature}` };
}

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
  const matching = escalationsFor(row.topic, line?.settings()?.escalations ?? []);
  const targets = matching.flatMap(({ recipients }) =>
    recipients
      .filter(({ channel, value }) => channel !== "webhook" || !isPlatformWebhook(value))
      .map(({ channel, value }) => ({
        person: `agent:${value}`,
        name: shownName(channel, value),
        way: channel,
        address: value,
      })),
  );
  return [...new Map(targets.map((one) => [`${one.way} ${one.address}`, one])).values()];
}

/** True for a webhook URL under which the platform notifies a bridge. A notification to it would return
 *  as a new escalation. */
const isPlatformWebhook = (url: string): boolean =>
  /\/platform\/[^/]+\/(escalation|message)\/?$/.test(URL.parse(url)?.pathname ?? "");

/** The name that other responders see when this recipient acknowledges. A webhook shows only its host,
 *  because the path often contains a secret key. */
const shownName = (way: Way, value: string): string =>
  way === "webhook" ? (URL.parse(value)?.host ?? "a webhook") : value;
