// Who is told of an escalation, when, and by what. Pure: the caller stores where it stands and asks again when it is due.

import { matches } from "./guards.ts";
import { onDuty, type Rota } from "./hours.ts";

/** How a person is told; in this order where a policy does not choose. */
export const ways = ["sms", "email", "webhook"] as const;
export type Way = (typeof ways)[number];

/** The channel that no configuration has: it carries notices to webhooks. */
export const webhookChannel = "escalations";

/** What is escalated. `topic`: the platform says so (its webhook, its configured answer, mode manual) · `silent`: the person
 *  wrote and nobody answers (mode manual) · `held`: a draft or a message waits for an operator · `call`: a call given up, or
 *  that nobody took. */
export const causes = ["topic", "silent", "turn-failed", "held", "channel-down", "cap", "call"] as const;
export type Cause = (typeof causes)[number];

export interface Person extends Rota {
  readonly id: string;
  readonly name: string;
  /** In the form of the channel that carries it, as the number is. */
  readonly email: string | null;
  readonly sms: string | null;
  readonly webhook: {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    /** Of Standard Webhooks (`whsec_...`). */
    readonly secret: string | null;
  } | null;
}

export interface Tier {
  /** Ids of people. */
  readonly tell: readonly string[];
  /** Null: every way the person has. */
  readonly by: readonly Way[] | null;
  /** After how many ms they are told again; 0: they are told once. */
  readonly repeat: number;
  /** After how many ms without an acknowledgement it is the next tier's turn. */
  readonly next: number;
}

export interface RouteOfPolicy {
  /** Patterns with `*`, in any case; null (here and below): all. */
  readonly topics: readonly string[] | null;
  readonly agents: readonly string[] | null;
  readonly channels: readonly string[] | null;
  readonly causes: readonly Cause[] | null;
  readonly tiers: readonly Tier[];
}

/** Durations are ms. */
export interface Policy {
  readonly people: ReadonlyMap<string, Person>;
  readonly tiers: readonly Tier[];
  /** The first that matches wins; where none does, `tiers` are told. */
  readonly routes: readonly RouteOfPolicy[];
  readonly fallback: Omit<Tier, "next">;
  /** Are the recipients of the agent's ESCALATION skill told too? */
  readonly agentRecipients: boolean;
  /** Within which time further escalations for one address are told in one message. */
  readonly group: number;
  /** How long the link in a notice can be used. */
  readonly expires: number;
  readonly causes: readonly Cause[];
  readonly downAfter: number;
  readonly poll: number;
  readonly pollOpen: number;
  /** The channels that carry notices; null: none does. */
  readonly via: { readonly email: string | null; readonly sms: string | null };
  /** How the platform's webhooks prove themselves; null: they are not taken. */
  readonly platformWebhook: {
    readonly header: string;
    readonly key: string;
    /** Of Standard Webhooks; checked when a delivery is signed. */
    readonly signingSecrets: readonly string[];
    /** Does the daemon register them with the platform? */
    readonly register: boolean;
  } | null;
  /** Host names, addresses and CIDR ranges that webhooks may reach although they are not public. */
  readonly allowPrivate: readonly string[];
}

/** Default intervals of looks at the platform's conversations, in milliseconds. */
const defaultPolling = { poll: 300_000, pollOpen: 20_000 } as const;

/** The intervals in effect: a policy may change them, and without one the defaults apply. */
export function pollingOf(policy: Policy | null): Pick<Policy, "poll" | "pollOpen"> {
  return policy ?? defaultPolling;
}

/** What an escalation is about. */
export interface About {
  readonly topic: string | null;
  readonly agent: string;
  readonly channel: string;
  readonly cause: Cause;
}

export interface Contact {
  readonly person: string;
  readonly name: string;
  readonly way: Way;
  /** A mailbox, a number, a URL. */
  readonly address: string;
}

/** Where an escalation stands. `tier` counts from 0; the number of tiers (or more) means the fallback. Epoch ms. */
export interface Progress {
  readonly tier: number;
  readonly enteredAt: number;
  /** When this tier was told last; null: not yet. */
  readonly toldAt: number | null;
}

export interface Step {
  /** Empty: nothing is due. */
  readonly tell: readonly Contact[];
  readonly progress: Progress;
  /** Epoch ms of the next look; null: none, the fallback was told and is told once. */
  readonly dueAt: number | null;
}

/** Of an escalation opened at `at`. */
export const begin = (at: number): Progress => ({ tier: 0, enteredAt: at, toldAt: null });

/** What is to be done at `now`. May be asked at any time, also before it is due. A clock that was put forward costs one
 *  tier, told once; after one that was put back, times that lie ahead count as now, so ask when `enteredAt` or `toldAt` is
 *  after `now`, too. */
export function step(policy: Policy, about: About, progress: Progress, now: number): Step {
  const tiers = tiersFor(policy, about);
  const place = standing(policy, tiers, notAhead(progress, now), now);
  const tier = tiers[place.tier];
  const { repeat } = tier ?? policy.fallback;
  const due = place.toldAt === null || (repeat > 0 && now - place.toldAt >= repeat);
  const toldAt = due ? now : place.toldAt;
  const again = repeat > 0 && toldAt !== null ? toldAt + repeat : Number.POSITIVE_INFINITY;
  const dueAt = tier ? Math.min(again, place.enteredAt + tier.next) : again;
  return {
    tell: due ? whoAt(policy, tiers, place.tier, now) : [],
    progress: { ...place, toldAt },
    dueAt: Number.isFinite(dueAt) ? dueAt : null,
  };
}

/** Whom the step where it stands is for, told or not: after a change of the policy they may be others than were told. */
export function current(policy: Policy, about: About, { tier }: Progress, now: number): readonly Contact[] {
  return whoAt(policy, tiersFor(policy, about), tier, now);
}

function whoAt(policy: Policy, tiers: readonly Tier[], at: number, now: number): readonly Contact[] {
  const tier = tiers[at];
  return tier ? onDutyOf(policy, tier, now) : lastOf(policy, tiers, now);
}

/** The tiers of the first route that matches, else the policy's own. */
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

/** The person by every way of `by` that they have and that the policy can use. */
export function contactsOf(policy: Policy, id: string, by: readonly Way[] | null): readonly Contact[] {
  const person = policy.people.get(id);
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

function notAhead({ tier, enteredAt, toldAt }: Progress, now: number): Progress {
  return {
    tier,
    enteredAt: Math.min(enteredAt, now),
    toldAt: toldAt === null ? null : Math.min(toldAt, now),
  };
}

/** The tier whose turn it is: the next one when this one had its time, and past those in which nobody can be told. */
function standing(policy: Policy, tiers: readonly Tier[], progress: Progress, now: number): Progress {
  const current = tiers[progress.tier];
  const over = current !== undefined && now - progress.enteredAt >= current.next;
  let tier = Math.min(progress.tier, tiers.length) + (over ? 1 : 0);
  for (let next = tiers[tier]; next && onDutyOf(policy, next, now).length === 0; next = tiers[tier]) tier++;
  return tier === progress.tier ? progress : { tier, enteredAt: now, toldAt: null };
}

function onDutyOf(policy: Policy, { tell, by }: Pick<Tier, "tell" | "by">, now: number): readonly Contact[] {
  const here = tell.filter((id) => {
    const person = policy.people.get(id);
    return person !== undefined && onDuty(person, now);
  });
  return once(here.flatMap((id) => contactsOf(policy, id, by)));
}

/** The fallback's people at any hour, and everybody of the tiers who is on duty. */
function lastOf(policy: Policy, tiers: readonly Tier[], now: number): readonly Contact[] {
  const { tell, by } = policy.fallback;
  const always = tell.flatMap((id) => contactsOf(policy, id, by));
  return once([...always, ...tiers.flatMap((tier) => onDutyOf(policy, tier, now))]);
}

/** Two people behind one mailbox read one message. */
function once(contacts: readonly Contact[]): readonly Contact[] {
  const byAddress = new Map<string, Contact>();
  for (const contact of contacts) {
    const key = `${contact.way} ${contact.address}`;
    if (!byAddress.has(key)) byAddress.set(key, contact);
  }
  return [...byAddress.values()];
}
