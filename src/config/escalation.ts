// Builds the escalation policy from the key `escalation`, and its masked form for display.

import type { AdapterDefinition } from "bridgehead/contract";
import type { Person, Policy, RouteOfPolicy, Tier } from "../domain/policy.ts";
import type { EscalationFile } from "./schema/escalation.ts";

/** The part of a channel that notifications need. */
interface Carrier {
  readonly id: string;
  readonly core: { readonly enabled: boolean };
  readonly adapter: AdapterDefinition;
}

/** `channels` in the file's order: the first enabled channel of a kind carries notifications when `via`
 *  names none. Addresses are normalized by the channel that carries them. */
export function policyOf(file: EscalationFile, channels: readonly Carrier[]): Policy {
  const carrier = (kind: "email" | "sms"): Carrier | undefined =>
    channels.find(({ id, core, adapter }) =>
      file.via[kind] === undefined ? core.enabled && adapter.traits.platform === kind : id === file.via[kind],
    );
  const [email, sms] = [carrier("email"), carrier("sms")];
  const people = Object.entries(file.responders).map(([id, one]): [string, Person] => [
    id,
    {
      id,
      name: one.name ?? id,
      email: canonical(one.email, email),
      sms: canonical(one.sms, sms),
      webhook: one.webhook ? { ...one.webhook, secret: one.webhook.secret ?? null } : null,
      timeZone: one.time_zone ?? "UTC",
      hours: one.hours,
      away: one.away,
    },
  ]);
  const { platform_webhook: hook } = file;
  return {
    responders: new Map(people),
    tiers: file.tiers.map(tierOf),
    routes: file.routes.map(routeOf),
    fallback: { ...file.fallback, by: file.fallback.by ?? null },
    agentRecipients: file.agent_recipients,
    group: file.group,
    expires: file.expires,
    causes: file.causes,
    downAfter: file.down_after,
    poll: file.poll,
    pollOpen: file.poll_open,
    via: { email: email?.id ?? null, sms: sms?.id ?? null },
    platformWebhook: hook
      ? { header: hook.header, key: hook.key, signingSecrets: hook.signing_secrets, register: hook.register }
      : null,
    allowPrivate: file.allow_private,
  };
}

function canonical(text: string | undefined, carrier: Carrier | undefined): string | null {
  if (text === undefined) return null;
  return carrier?.adapter.address?.(text) ?? text;
}

type TierInFile = EscalationFile["tiers"][number];
const tierOf = ({ by, ...tier }: TierInFile): Tier => ({ ...tier, by: by ?? null });

const routeOf = ({
  topics,
  agents,
  channels,
  causes,
  tiers,
}: EscalationFile["routes"][number]): RouteOfPolicy => ({
  topics: topics ?? null,
  agents: agents ?? null,
  channels: channels ?? null,
  causes: causes ?? null,
  tiers: tiers.map(tierOf),
});

/** Returns the policy as plain data without secrets: keys, and the paths of webhooks, which often
 *  contain a key. */
export function shownPolicy(policy: Policy, mask: string): Record<string, unknown> {
  const masked = (record: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.keys(record).map((key) => [key, mask]));
  const people = [...policy.responders].map(([id, { webhook, ...person }]) => [
    id,
    {
      ...person,
      webhook: webhook && {
        url: `${new URL(webhook.url).origin}/${mask}`,
        headers: masked(webhook.headers),
        secret: webhook.secret && mask,
      },
    },
  ]);
  const { platformWebhook: hook } = policy;
  return {
    ...policy,
    responders: Object.fromEntries(people),
    platformWebhook: hook && { ...hook, key: mask, signingSecrets: hook.signingSecrets.map(() => mask) },
  };
}

/** Returns every secret string of the policy. */
export function policySecrets(policy: Policy): readonly string[] {
  const theirs = [...policy.responders.values()].flatMap(({ webhook }) =>
    webhook ? [webhook.url, webhook.secret ?? "", ...Object.values(webhook.headers)] : [],
  );
  const { platformWebhook: hook } = policy;
  return [...theirs, ...(hook ? [hook.key, ...hook.signingSecrets] : [])];
}
