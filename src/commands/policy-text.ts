// Renders a forecast of an escalation policy: as lines for humans, or as JSON. Both mask the keys of
// webhooks.

import type { About, Contact, Look, Policy, Spared, Way } from "../domain/policy.ts";
import { when } from "./store.ts";

/** The recipients of the agent's own ESCALATION skill. */
export type Recipients =
  | { readonly known: true; readonly list: readonly Recipient[] }
  | { readonly known: false; readonly reason: string };

interface Recipient {
  readonly topic: string;
  readonly way: Way;
  readonly address: string;
}

export interface Told {
  readonly about: About;
  /** Time of the escalation in epoch milliseconds. */
  readonly at: number;
  readonly policy: Policy;
  readonly recipients: Recipients;
  readonly looks: readonly Look[];
  /** False when the forecast has more steps than are shown. */
  readonly complete: boolean;
}

export function forecastText(told: Told): string {
  const { about, at, looks, complete } = told;
  const { topic, agent, channel, cause } = about;
  const lines = [
    `${topic === null ? "no topic" : `topic ${topic}`}, agent ${agent}, channel ${channel}, cause ${cause}, opened ${when(at)} UTC`,
    ...recipientLines(told),
    ...looks.flatMap((look, index) => lookLines(look, looks[index - 1], told)),
  ];
  return [...lines, ...(complete ? [] : ["and so on: too many times to list"])].join("\n");
}

function lookLines(look: Look, before: Look | undefined, { at, policy }: Told): readonly string[] {
  const again = look.tier !== null && before?.tier === look.tier;
  return [
    `+${spell(look.at - at)}  ${when(look.at)} UTC  ${title(look, again, policy)}`,
    ...peopleOf(look.notify).map((contacts) => `    told: ${contactsText(contacts, look.at, policy)}`),
    ...(again ? [] : look.spared.map((spared) => `    not told: ${sparedText(spared)}`)),
  ];
}

function recipientLines({ policy, recipients }: Told): readonly string[] {
  if (!policy.agentRecipients) return ["the agent's own recipients are not told (agent_recipients: false)"];
  if (!recipients.known) return [`the agent's own recipients are not known: ${recipients.reason}`];
  if (recipients.list.length === 0) return ["the agent has no recipients of its own"];
  return recipients.list.map(({ topic, way, address }) => {
    const carried = way === "webhook" || policy.via[way] !== null;
    const what = `${wayText(way, address)} (the agent's, for ${topic})`;
    return carried ? `at once: ${what}` : `not told: ${what}: no channel carries ${way}`;
  });
}

function title({ tier, notify }: Look, again: boolean, { fallback }: Policy): string {
  if (tier === null)
    return fallback.repeat === 0
      ? "fallback, once"
      : `fallback, and again every ${spell(fallback.repeat)} until somebody acknowledges`;
  if (notify.length === 0) return `tier ${tier + 1}: nobody is on duty`;
  return `tier ${tier + 1}${again ? ", again" : ""}`;
}

/** Groups contacts by responder, in the order of notification. */
function peopleOf(contacts: readonly Contact[]): readonly (readonly Contact[])[] {
  return [...Map.groupBy(contacts, ({ person }) => person).values()];
}

function contactsText(contacts: readonly Contact[], at: number, { responders }: Policy): string {
  const [first] = contacts;
  const person = responders.get(first?.person ?? "");
  const by = contacts.map(({ way, address }) => wayText(way, address)).join(", ");
  return `${first?.name} by ${by}${person ? ` (${localTime(at, person.timeZone)})` : ""}`;
}

const wayText = (way: Way, address: string): string => (way === "webhook" ? way : `${way} ${address}`);

function sparedText({ person, duty }: Spared): string {
  const what = duty.why === "away" ? "away" : "off duty";
  const until =
    duty.until === null ? "for more than a year" : `until ${localTime(duty.until, person.timeZone)}`;
  return `${person.name}: ${what} ${until}`;
}

/** Formats a local time: `Thu 2026-12-24 23:30 Europe/Berlin`. */
function localTime(at: number, timeZone: string): string {
  const parts = new Intl.DateTimeFormat("en-GB", {
    timeZone,
    hourCycle: "h23",
    weekday: "short",
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
  }).formatToParts(at);
  const part = Object.fromEntries(parts.map(({ type, value }) => [type, value]));
  return `${part["weekday"]} ${part["year"]}-${part["month"]}-${part["day"]} ${part["hour"]}:${part["minute"]} ${timeZone}`;
}

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1000],
  ["ms", 1],
] as const;

/** Formats a duration: `1h30m`; `0s` for zero. */
function spell(ms: number): string {
  let rest = ms;
  const words = units.flatMap(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count === 0 ? [] : [`${count}${unit}`];
  });
  return words.join("") || "0s";
}

/** Times are ISO 8601 in UTC; `tier` counts from 1. */
export function forecastJson({ about, at, policy, recipients, looks, complete }: Told): object {
  const iso = (ms: number) => new Date(ms).toISOString();
  const shown = ({ way, address }: Pick<Contact, "way" | "address">) =>
    way === "webhook" ? { way } : { way, address };
  return {
    ...about,
    at: iso(at),
    agent_recipients: !policy.agentRecipients
      ? null
      : recipients.known
        ? recipients.list.map((one) => ({ topic: one.topic, ...shown(one) }))
        : { unknown: recipients.reason },
    looks: looks.map((look) => ({
      at: iso(look.at),
      after_ms: look.at - at,
      tier: look.tier === null ? "fallback" : look.tier + 1,
      told: look.notify.map((one) => ({
        person: one.person,
        name: one.name,
        ...shown(one),
        local: localTime(look.at, policy.responders.get(one.person)?.timeZone ?? "UTC"),
      })),
      not_told: look.spared.map(({ person, duty }) => ({
        person: person.id,
        name: person.name,
        why: duty.why,
        until: duty.until === null ? null : iso(duty.until),
      })),
    })),
    complete,
  };
}
