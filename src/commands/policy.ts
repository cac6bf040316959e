// bridgehead policy test: shows which responders an unacknowledged escalation would notify, when, and on
// which channels. Sends nothing.

import type { AgentSettings } from "../agent/calls.ts";
import { loadPolicy } from "../config/index.ts";
import type { About, Cause, Contact, Policy, Way } from "../domain/policy.ts";
import { forecast, type PolicyStep, type Spared } from "../domain/policy.ts";
import { escalationsFor } from "../escalation/webhook/recipients.ts";
import { systemClock as clock } from "../ops/clock.ts";
import { readSettings } from "../store/tables/agents.ts";
import { CommandFailure, type CommandOptions, exitCodes, fail, type Io } from "./io.ts";
import { load, useStore } from "./store/open.ts";
import { when } from "./text.ts";

export interface PolicyOptions extends CommandOptions {
  readonly topic?: string;
  readonly agent?: string;
  readonly channel?: string;
  readonly cause: Cause;
  /** ISO 8601 with its offset from UTC; default: now. */
  readonly at?: string;
}

type ReadPolicy = Extract<Awaited<ReturnType<typeof loadPolicy>>, { ok: true }>;

export async function testPolicy(options: PolicyOptions, io: Io): Promise<number> {
  const at = options.at === undefined ? clock.now() : instant(options.at);
  if (at === null)
    fail(`--at ${options.at}: must be a time with its offset, such as 2026-12-24T23:30:00+01:00`, exitCodes.usage);
  const loaded = await load(loadPolicy, options, io);
  const about = aboutOf(options, loaded);
  const { policy } = loaded;
  if (policy === null) fail(`no responder is notified: there is no key escalation in ${loaded.file}`);
  if (!policy.causes.includes(about.cause))
    fail(`no responder is notified: the cause ${about.cause} is not among escalation.causes`);
  const forecasted = {
    about,
    at,
    policy,
    recipients: await recipientsOf(loaded, policy, about, io),
    ...forecast(policy, about, at),
  };
  io.out(options.json === true ? JSON.stringify(forecastJson(forecasted)) : forecastText(forecasted));
  return exitCodes.ok;
}

function instant(text: string): number | null {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at;
}

/** Fills missing options from the configuration: the first channel, and its agent. */
function aboutOf({ topic, agent, channel, cause }: PolicyOptions, { agents, channels }: ReadPolicy): About {
  if (agent !== undefined && !agents.includes(agent))
    fail(`there is no agent ${agent}: the file has ${agents.join(", ") || "none"}`, exitCodes.usage);
  const fitting = channels.filter((one) => agent === undefined || one.agent === agent);
  const found = channels.find(({ id }) => id === channel) ?? fitting.find(({ enabled }) => enabled) ?? fitting[0];
  if (channel !== undefined && found?.id !== channel)
    fail(
      `there is no channel ${channel}: the file has ${channels.map(({ id }) => id).join(", ") || "none"}`,
      exitCodes.usage,
    );
  if (!found) fail(agent === undefined ? "the file has no channel" : `agent ${agent} has no channel`, exitCodes.usage);
  return { topic: topic ?? null, agent: agent ?? found.agent, channel: found.id, cause };
}

/** Returns the recipients of the agent's own ESCALATION skill, as the daemon last read them. */
async function recipientsOf(
  loaded: ReadPolicy,
  policy: Policy,
  { agent, topic }: About,
  io: Pick<Io, "timing">,
): Promise<Recipients> {
  if (!policy.agentRecipients) return { known: true, list: [] };
  try {
    const row = await useStore(loaded, io, (db) => db.read((q) => readSettings(q, agent)));
    if (!row) fail(`the settings of agent ${agent} were never read: does the daemon run?`);
    const { escalations: own } = JSON.parse(row.settings) as AgentSettings;
    if (!own) fail("the daemon has not read them yet");
    const list = escalationsFor(topic, own).flatMap((one) =>
      one.recipients.map(({ channel, value }) => ({ topic: one.topic, way: channel, address: value })),
    );
    return { known: true, list };
  } catch (error) {
    const { message } = error as Error;
    const reason = error instanceof CommandFailure ? message : `the store cannot be reached: ${message}`;
    return { known: false, reason };
  }
}

/** The recipients of the agent's own ESCALATION skill. */
export type Recipients =
  | { readonly known: true; readonly list: readonly TestRecipient[] }
  | { readonly known: false; readonly reason: string };

interface TestRecipient {
  readonly topic: string;
  readonly way: Way;
  readonly address: string;
}

export interface PolicyForecast {
  readonly about: About;
  /** Time of the escalation in epoch milliseconds. */
  readonly at: number;
  readonly policy: Policy;
  readonly recipients: Recipients;
  readonly steps: readonly PolicyStep[];
  /** False when the forecast has more steps than are shown. */
  readonly complete: boolean;
}

export function forecastText(shown: PolicyForecast): string {
  const { about, at, steps, complete } = shown;
  const { topic, agent, channel, cause } = about;
  const lines = [
    `${topic === null ? "no topic" : `topic ${topic}`}, agent ${agent}, channel ${channel}, cause ${cause}, opened ${when(at)} UTC`,
    ...recipientLines(shown),
    ...steps.flatMap((step, index) => stepLines(step, steps[index - 1], shown)),
  ];
  return [...lines, ...(complete ? [] : ["and so on: too many times to list"])].join("\n");
}

function stepLines(
  step: PolicyStep,
  before: PolicyStep | undefined,
  { at, policy }: PolicyForecast,
): readonly string[] {
  const again = step.tier !== null && before?.tier === step.tier;
  return [
    `+${spell(step.at - at)}  ${when(step.at)} UTC  ${title(step, again, policy)}`,
    ...Map.groupBy(step.notify, ({ person }) => person)
      .values()
      .map((contacts) => `    notified: ${contactsText(contacts, step.at, policy)}`),
    ...(again ? [] : step.spared.map((spared) => `    not notified: ${sparedText(spared)}`)),
  ];
}

function recipientLines({ policy, recipients }: PolicyForecast): readonly string[] {
  if (!policy.agentRecipients) return ["the agent's own recipients are not notified (agent_recipients: false)"];
  if (!recipients.known) return [`the agent's own recipients are not known: ${recipients.reason}`];
  if (recipients.list.length === 0) return ["the agent has no recipients of its own"];
  return recipients.list.map(({ topic, way, address }) => {
    const carried = way === "webhook" || policy.via[way] !== null;
    const what = `${wayText(way, address)} (the agent's, for ${topic})`;
    return carried ? `at once: ${what}` : `not notified: ${what}: no channel carries ${way}`;
  });
}

function title({ tier, notify }: PolicyStep, again: boolean, { fallback }: Policy): string {
  if (tier === null)
    return fallback.repeat === 0
      ? "fallback, once"
      : `fallback, and again every ${spell(fallback.repeat)} until a responder acknowledges`;
  if (notify.length === 0) return `tier ${tier + 1}: no responder is on call`;
  return `tier ${tier + 1}${again ? ", again" : ""}`;
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
  const until = duty.until === null ? "for more than a year" : `until ${localTime(duty.until, person.timeZone)}`;
  return `${person.name}: ${what} ${until}`;
}

/** Formats a local time: `Thu 2026-12-24 23:30 Europe/Berlin`. */
function localTime(at: number, timeZone: string): string {
  const day = new Date(at).toLocaleDateString("en", { timeZone, weekday: "short" });
  // Sweden writes dates as ISO 8601 does.
  const time = new Date(at).toLocaleString("sv", { timeZone, dateStyle: "short", timeStyle: "short" });
  return `${day} ${time} ${timeZone}`;
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
export function forecastJson({ about, at, policy, recipients, steps, complete }: PolicyForecast): object {
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
    steps: steps.map((step) => ({
      at: iso(step.at),
      after_ms: step.at - at,
      tier: step.tier === null ? "fallback" : step.tier + 1,
      notified: step.notify.map((one) => ({
        person: one.person,
        name: one.name,
        ...shown(one),
        local: localTime(step.at, policy.responders.get(one.person)?.timeZone ?? "UTC"),
      })),
      not_notified: step.spared.map(({ person, duty }) => ({
        person: person.id,
        name: person.name,
        why: duty.why,
        until: duty.until === null ? null : iso(duty.until),
      })),
    })),
    complete,
  };
}
