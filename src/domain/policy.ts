// The escalation policy: which responders are notified, when, and how. Pure: the caller stores the progress
// and calls `step` again when it is due. `forecast` simulates an escalation without an acknowledgement, so that operators
// can check a policy in advance.

import { matches } from "./guards.ts";
import { type Duty, dutyAt, onDuty, type Rota } from "./hours.ts";

/** The ways to notify a responder, in default order. */
export const ways = ["sms", "email", "webhook"] as const;
export type Way = (typeof ways)[number];

/** The channel of notifications to webhooks. It is not in the configuration. */
export const webhookChannel = "escalations";

/** The causes of escalations. `topic`: reported by the platform (its webhook, its configured answer,
 *  mode manual) · `silent`: the customer wrote and gets no response (mode manual) · `held`: a draft or a
 *  message waits for an operator · `channel-down`: a channel does not work, its agent cannot be asked, its
 *  canary is missing, or the disk of the store is nearly full · `call`: an abandoned or missed call. */
export const causes = ["topic", "silent", "turn-failed", "held", "channel-down", "cap", "call"] as const;
export type Cause = (typeof causes)[number];

/** The actions on an escalation, as in `bridgehead escalation`. */
export const actionNames = ["ack", "reply", "note", "resume", "close"] as const;
export type ActionName = (typeof actionNames)[number];

export interface Person extends Rota {
  readonly id: string;
  readonly name: string;
  /** In the canonical form of the channel that carries it, like the phone number. */
  readonly email: string | null;
  readonly sms: string | null;
  readonly webhook: {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    /** Signing secret of Standard Webhooks (`whsec_...`). */
    readonly secret: string | null;
  } | null;
}

export interface Tier {
  /** Ids of responders. */
  readonly notify: readonly string[];
  /** Null: all ways the responder has. */
  readonly by: readonly Way[] | null;
  /** Interval in ms after which they are notified again; 0: they are notified once. */
  readonly repeat: number;
  /** Timeout in ms: without an acknowledgement the next tier follows. */
  readonly next: number;
}

export interface RouteOfPolicy {
  /** Patterns with `*`, case-insensitive; null (here and below): all. */
  readonly topics: readonly string[] | null;
  readonly agents: readonly string[] | null;
  readonly channels: readonly string[] | null;
  readonly causes: readonly Cause[] | null;
  readonly tiers: readonly Tier[];
}

/** Durations are in ms. */
export interface Policy {
  readonly responders: ReadonlyMap<string, Person>;
  readonly tiers: readonly Tier[];
  /** The first match applies; without a match `tiers` is used. */
  readonly routes: readonly RouteOfPolicy[];
  readonly fallback: Omit<Tier, "next">;
  /** Whether the recipients of the agent's ESCALATION skill are notified too. */
  readonly agentRecipients: boolean;
  /** Batch window: further escalations for one address within it are sent in one message. */
  readonly group: number;
  /** The link in a notification. */
  readonly link: {
    /** Validity in ms. */
    readonly expires: number;
    /** What its page offers. */
    readonly actions: readonly ActionName[];
    /** Whether its page shows the customer's address in full. */
    readonly addresses: "full" | "masked";
  };
  readonly causes: readonly Cause[];
  readonly downAfter: number;
  readonly poll: number;
  readonly pollOpen: number;
  /** The channels that carry notifications; null: none. */
  readonly via: { readonly email: string | null; readonly sms: string | null };
  /** How the platform's webhooks authenticate; null: they are refused. */
  readonly platformWebhook: {
    readonly header: string;
    readonly key: string;
    /** Accepted in place of the key, during a rotation. */
    readonly formerKeys: readonly string[];
    /** Signing secrets of Standard Webhooks; checked when a delivery is signed. */
    readonly signingSecrets: readonly string[];
    /** Whether the daemon registers them with the platform. */
    readonly register: boolean;
  } | null;
  /** Non-public host names, addresses and CIDR ranges that webhooks may reach. */
  readonly allowPrivate: readonly string[];
}

/** The subject of an escalation, matched by the policy's routes. */
export interface About {
  readonly topic: string | null;
  /** The agent's name in the configuration. */
  readonly agent: string;
  readonly channel: string;
  readonly cause: Cause;
}

export interface Contact {
  readonly person: string;
  readonly name: string;
  readonly way: Way;
  /** An email address, a phone number or a URL. */
  readonly address: string;
}

/** The progress of an escalation. `tier` counts from 0; the number of tiers (or more) is the fallback.
 *  Times are epoch ms. */
export interface Progress {
  readonly tier: number;
  readonly enteredAt: number;
  /** When this tier was last notified; null: not yet. */
  readonly notifiedAt: number | null;
}

export interface Step {
  /** The targets to notify; empty when nothing is due. */
  readonly notify: readonly Contact[];
  readonly progress: Progress;
  /** Epoch ms of the next step; null: none, because the fallback notifies once and has done so. */
  readonly dueAt: number | null;
}

/** Returns the progress of an escalation opened at `at`. */
export const begin = (at: number): Progress => ({ tier: 0, enteredAt: at, notifiedAt: null });

/** Returns the step at `now`. May be called at any time, also before it is due. A forward clock step
 *  costs one tier, which is notified once. After a backward clock step, future times count as now. Call
 *  it therefore also when `enteredAt` or `notifiedAt` is after `now`. */
export function step(policy: Policy, about: About, progress: Progress, now: number): Step {
  const tiers = tiersFor(policy, about);
  const place = standing(policy, tiers, notAhead(progress, now), now);
  const tier = tiers[place.tier];
  const { repeat } = tier ?? policy.fallback;
  const due = place.notifiedAt === null || (repeat > 0 && now - place.notifiedAt >= repeat);
  const notifiedAt = due ? now : place.notifiedAt;
  const again = repeat > 0 && notifiedAt !== null ? notifiedAt + repeat : Number.POSITIVE_INFINITY;
  const dueAt = tier ? Math.min(again, place.enteredAt + tier.next) : again;
  return {
    notify: due ? whoAt(policy, tiers, place.tier, now) : [],
    progress: { ...place, notifiedAt },
    dueAt: Number.isFinite(dueAt) ? dueAt : null,
  };
}

/** Returns the notification targets of the current step, notified or not. After a policy change they may
 *  differ from those notified. */
export function current(policy: Policy, about: About, { tier }: Progress, now: number): readonly Contact[] {
  return whoAt(policy, tiersFor(policy, about), tier, now);
}

function whoAt(policy: Policy, tiers: readonly Tier[], at: number, now: number): readonly Contact[] {
  const tier = tiers[at];
  return tier ? onDutyOf(policy, tier, now) : lastOf(policy, tiers, now);
}

/** Returns the tiers of the first matching route, or else the policy's own. */
export function tiersFor(policy: Policy, about: About): readonly Tier[] {
  const topic = about.topic ?? "";
  const route = policy.routes.find(
    ({ topics, agents, channels, causes: these }) =>
      (topics === null || topics.some((pattern) => matches(pattern, topic.toLowerCase()))) &&
      (agents === null || agents.includes(about.agent)) &&
      (channels === null || channels.includes(about.channel)) &&
      (these === null || these.includes(about.cause)),
  );
  return route?.tiers ?? policy.tiers;
}

/** Returns the responder's notification targets: the ways in `by` that they have and that the policy can use. */
export function contactsOf(policy: Policy, id: string, by: readonly Way[] | null): readonly Contact[] {
  const person = policy.responders.get(id);
  if (!person) return [];
  return (by ?? ways).flatMap((way) => {
    const address = addressOf(policy, person, way);
    return address === null ? [] : [{ person: id, name: person.name, way, address }];
  });
}

function addressOf({ via }: Policy, { email, sms, webhook }: Person, way: Way): string | null {
  if (way === "email") return via.email === null ? null : email;
  if (way === "sms") return via.sms === null ? null : sms;
  return webhook?.url ?? null;
}

function notAhead({ tier, enteredAt, notifiedAt }: Progress, now: number): Progress {
  return {
    tier,
    enteredAt: Math.min(enteredAt, now),
    notifiedAt: notifiedAt === null ? null : Math.min(notifiedAt, now),
  };
}

/** Returns the current tier: the next one after the timeout of this one. Tiers without a reachable
 *  responder are skipped. */
function standing(policy: Policy, tiers: readonly Tier[], progress: Progress, now: number): Progress {
  const current = tiers[progress.tier];
  const over = current !== undefined && now - progress.enteredAt >= current.next;
  let tier = Math.min(progress.tier, tiers.length) + (over ? 1 : 0);
  for (let next = tiers[tier]; next && onDutyOf(policy, next, now).length === 0; next = tiers[tier]) tier++;
  return tier === progress.tier ? progress : { tier, enteredAt: now, notifiedAt: null };
}

function onDutyOf(policy: Policy, { notify, by }: Pick<Tier, "notify" | "by">, now: number): readonly Contact[] {
  const here = notify.filter((id) => {
    const person = policy.responders.get(id);
    return person !== undefined && onDuty(person, now);
  });
  return once(here.flatMap((id) => contactsOf(policy, id, by)));
}

/** The fallback's responders at any hour, and all responders of the tiers who are on duty. */
function lastOf(policy: Policy, tiers: readonly Tier[], now: number): readonly Contact[] {
  const { notify, by } = policy.fallback;
  const always = notify.flatMap((id) => contactsOf(policy, id, by));
  return once([...always, ...tiers.flatMap((tier) => onDutyOf(policy, tier, now))]);
}

/** Deduplicates targets: two responders with one mailbox get one message. */
function once(contacts: readonly Contact[]): readonly Contact[] {
  const byAddress = new Map<string, Contact>();
  for (const contact of contacts) {
    const key = `${contact.way} ${contact.address}`;
    if (!byAddress.has(key)) byAddress.set(key, contact);
  }
  return [...byAddress.values()];
}

/** One step of the policy: responders are notified, or a tier is skipped. */
export interface PolicyStep {
  /** Epoch ms. */
  readonly at: number;
  /** Counted from 0; null: the fallback. */
  readonly tier: number | null;
  /** Empty: no responder of the tier is on duty, so the tier is skipped. */
  readonly notify: readonly Contact[];
  /** Responders of the tier (of all tiers, for the fallback) who are not notified. */
  readonly spared: readonly Spared[];
}

export interface Spared {
  readonly person: Person;
  readonly duty: Extract<Duty, { on: false }>;
}

/** Limits the number of steps: some policies notify every second for a year. */
const mostSteps = 2000;

/** Returns all steps until the fallback has notified once. `complete` is false when the limit was reached first. */
export function forecast(
  policy: Policy,
  about: About,
  openedAt: number,
): { readonly steps: readonly PolicyStep[]; readonly complete: boolean } {
  const tiers = tiersFor(policy, about);
  const steps: PolicyStep[] = [];
  let progress = begin(openedAt);
  let next: number | null = openedAt;
  while (next !== null && steps.length < mostSteps) {
    const at: number = next;
    const done = step(policy, about, progress, at);
    const inFallback = done.progress.tier >= tiers.length;
    const fresh = progress.notifiedAt === null ? progress.tier : progress.tier + 1;
    for (const [tier, { notify }] of tiers.entries())
      if (tier >= fresh && tier < done.progress.tier)
        steps.push({ at, tier, notify: [], spared: sparedOf(policy, notify, [], at) });
    const people = inFallback ? tiers.flatMap(({ notify }) => notify) : (tiers[done.progress.tier]?.notify ?? []);
    steps.push({
      at,
      tier: inFallback ? null : done.progress.tier,
      notify: done.notify,
      spared: sparedOf(policy, people, done.notify, at),
    });
    if (inFallback) return { steps, complete: true };
    progress = done.progress;
    next = done.dueAt;
  }
  return { steps, complete: false };
}

function sparedOf(
  policy: Policy,
  people: readonly string[],
  contacts: readonly Contact[],
  at: number,
): readonly Spared[] {
  return [...new Set(people)].flatMap((id) => {
    const person = policy.responders.get(id);
    if (!person || contacts.some((contact) => contact.person === id)) return [];
    const duty = dutyAt(person, at);
    return duty.on ? [] : [{ person, duty }];
  });
}
