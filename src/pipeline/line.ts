// A line: a configured channel as the pipeline sees it, with the agent behind it.

import type { Adapter, AgentFacts, Clock, Log, Outbound, Traits } from "bridgehead/contract";
import type { AgentClient, AgentSettings, ChannelSettings } from "../agent/calls.ts";
import type { Cap, Rules } from "../domain/guards.ts";
import type { Escalation } from "./escalation.ts";

export interface LineRules extends Rules {
  readonly opening: "start" | "create";
  readonly caps: {
    readonly sender: readonly Cap[];
    readonly conversation: readonly Cap[];
    readonly channel: readonly Cap[];
  };
  /** Sent to a person whose messages are held by a cap; none or empty: nothing. */
  readonly cap_text?: string | undefined;
  readonly on_unknown: "hold" | "resend" | "drop";
  readonly unknown_window: number;
  /** Milliseconds after an unanswered call before a question counts as not asked. Default: the platform's `settle_after`. */
  readonly settle_after?: number | undefined;
  readonly on_dead: "skip" | "block";
  readonly on_newer: "send" | "drop";
  /** Milliseconds within which a person's next message joins the one before; 0 for never. */
  readonly join: number;
  /** Who is told what is not for the agent, and through which channel. */
  readonly humans?: { readonly channel: string; readonly to: readonly string[] } | undefined;
  readonly concurrency: number;
  /** At most so many messages from one address of ours in any `per` milliseconds. */
  readonly rate?: { readonly messages: number; readonly per: number } | undefined;
}

export interface Line {
  readonly channel: string;
  /** The agent's name in the configuration. */
  readonly agent: string;
  readonly traits: Traits;
  readonly rules: LineRules;
  readonly outbound: Outbound | null;
  /** Fetches an attachment's bytes; null when the adapter announces none. */
  readonly open: Adapter["open"] | null;
  readonly client: AgentClient;
  /** The canonical form of an address as a person writes it; null when this channel could not reach it. */
  address(text: string): string | null;
  /** Never null in the daemon, with or without an escalation policy. Null for a line that is built without an app. */
  escalation(): Escalation | null;
  /** True for a while after the start, until the channel has looked for what it missed: a STOP from the night before
   *  counts before a reply that has been due since then. */
  catchingUp(): boolean;
  /** As last read from the platform; null until the first reading ever succeeded. */
  settings(): AgentSettings | null;
  /** Why the platform refuses the agent's key; null while it is accepted. */
  problem(): string | null;
  /** Told by each call's result: the refusal's reason, or null. Goes to the agent this line was built with. */
  report(problem: string | null): void;
}

/** The settings of the line's skill; null when the agent has none, or nothing was read yet. */
export function skillOf(line: Line): ChannelSettings | null {
  const { platform } = line.traits;
  const settings = line.settings();
  return platform === null || settings === null ? null : skillNamed(settings, platform);
}

/** What the platform's start call can open, and the agent must have a skill for. */
export const startable = (platform: string | null): platform is "email" | "sms" | "voice" =>
  platform === "email" || platform === "sms" || platform === "voice";

/** The agent's skill for a channel of the platform, whatever its status; null when it has none. */
export const skillNamed = (settings: AgentSettings, platform: string): ChannelSettings | null =>
  startable(platform)
    ? settings[platform]
    : (Object.entries(settings.skills ?? {}).find(([name]) => name === platform)?.[1] ?? null);

/** What the adapter is told of the agent. */
export function agentFacts(line: Line): AgentFacts | null {
  const settings = line.settings();
  if (!settings) return null;
  return {
    active: whyNotAsk(line) === null,
    name: settings.name,
    introduction: skillOf(line)?.introduction ?? null,
  };
}

/** The reason why no question may be asked now, or null. Messages are stored meanwhile. A call needs no VOICE skill, because
 *  that skill describes the platform's own telephony; one that the operator has set to inactive still switches calls off. */
export function whyNotAsk(line: Line): string | null {
  const { platform } = line.traits;
  if (platform === null) return "the channel carries notices only";
  const problem = line.problem();
  if (problem !== null) return problem;
  const settings = line.settings();
  if (!settings) return "the agent's settings were never read: the platform has not answered yet";
  if (settings.status !== "active") return `the agent is ${settings.status}`;
  const skill = skillNamed(settings, platform);
  if (!skill)
    return startable(platform) && platform !== "voice" ? `the agent has no ${platform} skill` : null;
  if (skill.status !== "active") return `the agent's ${platform} skill is inactive`;
  return null;
}

const prepareMs = 8000;

/** Lets the adapter render an agent's Markdown before the transaction that stores the answer. JSON for `Reply.rendered`;
 *  null when the adapter does not render ahead, fails, or exceeds the time limit: the reply is composed without it then. */
export async function prepared(
  { channel, outbound }: Line,
  text: string | null,
  signal: AbortSignal,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<string | null> {
  if (text === null || !outbound?.prepare) return null;
  const done = new AbortController();
  const limit = AbortSignal.any([signal, done.signal]);
  try {
    const rendered = await Promise.race([
      outbound.prepare(text, limit),
      clock.sleep(prepareMs, limit).then(() => null),
    ]);
    return rendered === null ? null : JSON.stringify(rendered);
  } catch (error) {
    log.warn({ channel, err: error }, "rendering an answer failed");
    return null;
  } finally {
    done.abort();
  }
}

/** The lines that run now, by channel. A reload replaces entries. */
export type Lines = ReadonlyMap<string, Line>;
