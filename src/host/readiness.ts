// What /readyz, the metrics and the service's status text say: one look at the running channels and agents.

import type { ChannelStatus, Clock } from "bridgehead/contract";
import { whyNotAsk } from "../pipeline/line.ts";
import type { Agent } from "../pipeline/settings.ts";
import type { ChannelOverview } from "../store/overview.ts";
import type { Host } from "./host.ts";

export interface ChannelReport {
  readonly id: string;
  readonly adapter: string;
  readonly state: string;
  readonly reason: string | null;
  /** Why nothing is asked although the channel reads: an inactive agent or skill, a refused key. */
  readonly not_asking: string | null;
  readonly since: string;
  readonly heard_at: string | null;
  readonly failures: number;
  /** Carries notices to people, and no questions. */
  readonly notices_only: boolean;
  /** What an operator must know although the channel works. */
  readonly warnings: readonly string[];
}

/** One entry a channel, in the configuration's order. */
export function reportChannels(host: Host, agents: ReadonlyMap<string, Agent>): ChannelReport[] {
  return host.running().map(({ config, state, failures }) => {
    const line = host.lines().get(config.id);
    const refused = agents.get(config.core.agent)?.problem() ?? null;
    const noticesOnly = config.adapter.traits.platform === null;
    return {
      id: config.id,
      adapter: config.adapter.name,
      state: state.status.state,
      reason: "reason" in state.status ? state.status.reason : null,
      not_asking: noticesOnly ? null : (refused ?? (line ? whyNotAsk(line) : null)),
      since: new Date(state.since).toISOString(),
      heard_at: state.heardAt === null ? null : new Date(state.heardAt).toISOString(),
      failures,
      notices_only: noticesOnly,
      warnings: [...state.warnings.values()],
    };
  });
}

/** How each channel does, for those who judge it. */
export function pulsesOf(host: Host, clock: Clock): Pulse[] {
  return host.running().map(({ config, state: { status, since } }) => ({
    channel: config.id,
    agent: config.core.agent,
    state: status.state,
    reason: "reason" in status ? status.reason : null,
    forMs: clock.now() - since,
  }));
}

export interface Pulse {
  readonly channel: string;
  readonly agent: string;
  readonly state: ChannelStatus["state"];
  readonly reason: string | null;
  /** How long it has been so, in milliseconds. */
  readonly forMs: number;
}

/** How many turns, replies and drafts wait, in all channels. */
export function waitingIn(channels: readonly ChannelOverview[]): number {
  const counts = channels.flatMap(({ turns, replies, drafts }) =>
    [turns, replies, drafts].flatMap((one) => Object.entries(one)),
  );
  return counts.reduce(
    (sum, [state, count]) => (state === "held" || state === "failed" ? sum : sum + count),
    0,
  );
}

/** "3/4 channels ready, 12 waiting" */
export function statusText(channels: readonly ChannelReport[], waiting: number): string {
  const asking = channels.filter(isAsking);
  const ready = asking.filter((channel) => channel.state === "ready").length;
  return `${ready}/${asking.length} channels ready, ${waiting} waiting`;
}

/** Ready means: at least one channel works on which people write, or none is configured. */
export function isReady(channels: readonly ChannelReport[]): boolean {
  const asking = channels.filter(isAsking);
  return asking.length === 0 || asking.some((channel) => channel.state === "ready");
}

const isAsking = (channel: ChannelReport): boolean => !channel.notices_only;

/** The oldest supervisor tick must be younger than this for the watchdog. */
export function stuckChannels(host: Host, clock: Clock, limitMs: number): string[] {
  const now = clock.monotonic();
  return host
    .running()
    .filter((channel) => channel.tickedAt !== null && now - channel.tickedAt > limitMs)
    .map((channel) => channel.config.id);
}
