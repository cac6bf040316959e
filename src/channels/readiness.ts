// State of the running channels and agents for /readyz, and the service's status text.

import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { ChannelStatus, Clock } from "bridgehead/contract";
import type { Config } from "../config/index.ts";
import { counted } from "../domain/duration-text.ts";
import { endsWithin } from "../ops/clock.ts";
import { agentProblem, whyNotAsk } from "../pipeline/ask/decide.ts";
import { type ChannelHealth, storeSubject, warningSubject } from "../pipeline/escalation.ts";
import type { RunningAgent } from "../pipeline/settings.ts";
import type { Database } from "../store/driver.ts";
import { type ChannelOverview, proveWritable } from "../store/operators/overview.ts";
import type { Host } from "./host.ts";

export interface ChannelReport {
  readonly id: string;
  readonly adapter: string;
  /** The adapter's state, or `standby` while another node reads the channel. */
  readonly state: ChannelStatus["state"] | "standby";
  readonly reason: string | null;
  /** Reason why the agent is not asked, or answers nothing, although the channel reads: an inactive agent or skill, a
   *  rejected key of the agent or of its model. */
  readonly not_asking: string | null;
  /** True when the platform rejects the agent's key for everything, which requires an operator. */
  readonly key_rejected: boolean;
  /** Present when the platform has not answered since the start, for minutes, and the agent's settings were never read. */
  readonly settings_unread?: true;
  /** Present when the platform reports the agent or its skill as inactive or absent: an operator wants it so. */
  readonly inactive?: true;
  readonly since: string;
  readonly last_activity_at: string | null;
  readonly failures: number;
  /** Time of the next attempt to connect; null while connected or connecting. */
  readonly retry_at: string | null;
  /** True for a channel that carries notifications and no questions. */
  readonly notices_only: boolean;
  readonly mode: "live" | "shadow";
  /** Null while the channel is not paused. Times are ISO 8601; `until` is null until an operator resumes it. */
  readonly paused: {
    readonly code: string;
    readonly reason: string;
    readonly since: string;
    readonly until: string | null;
  } | null;
  /** Warnings for the operator while the channel works. */
  readonly warnings: readonly string[];
}

/** Returns one report per channel, in the configuration's order. */
export function reportChannels(host: Host, agents: ReadonlyMap<string, RunningAgent>): ChannelReport[] {
  return host.running().map(({ config, state, pause, isAgentUnread }) => {
    const line = host.lines.get(config.id);
    const { refusal = null, isRejected = false } = agents.get(config.core.agent)?.state ?? {};
    const noticesOnly = config.adapter.traits.platform === null;
    const notAsking = noticesOnly || line === undefined ? null : (whyNotAsk(line) ?? refusal);
    const isInactive = notAsking !== null && refusal === null && line !== undefined && agentProblem(line) === null;
    return {
      id: config.id,
      adapter: config.adapter.name,
      state: state.isStandby ? "standby" : state.status.state,
      reason: "reason" in state.status ? state.status.reason : null,
      not_asking: notAsking,
      key_rejected: !noticesOnly && isRejected,
      ...(isAgentUnread && { settings_unread: true }),
      ...(isInactive && { inactive: true }),
      since: new Date(state.since).toISOString(),
      last_activity_at: state.lastActivityAt === null ? null : new Date(state.lastActivityAt).toISOString(),
      failures: state.failures,
      retry_at: state.retryAt === null ? null : new Date(state.retryAt).toISOString(),
      notices_only: noticesOnly,
      mode: config.core.mode,
      paused: pause && {
        code: pause.code,
        reason: pause.reason,
        since: new Date(pause.since).toISOString(),
        until: pause.until === null ? null : new Date(pause.until).toISOString(),
      },
      warnings: [...state.warnings.values()],
    };
  });
}

/** What stage health asks besides the channels. */
interface HealthSources {
  /** True when the platform has accepted the agent's key since the start. */
  readonly isConfirmed: (agent: string) => boolean;
  /** The problem of the store's disk; null when it has none; undefined before the first look. */
  readonly diskProblem: () => string | null | undefined;
}

/** Returns the health of each channel, of what its adapter checks besides (`Channel.warn`), and of the store, for stage
 *  health. */
export function pulsesOf(host: Host, clock: Clock, { isConfirmed, diskProblem }: HealthSources): ChannelHealth[] {
  const running = host.running();
  const channels = running.map(
    ({ config, line, state: { status, changedAt } }): ChannelHealth => ({
      channel: config.id,
      agent: config.core.agent,
      state: status.state,
      reason: "reason" in status ? status.reason : null,
      forMs: clock.monotonic() - changedAt,
      agentProblem: agentProblem(line),
      isAgentUnknown: config.adapter.traits.platform !== null && !isConfirmed(config.core.agent),
    }),
  );
  const warnings = running.flatMap(({ config: { id: channel, core }, state: { escalating } }) =>
    [...escalating].map(([code, reason]): ChannelHealth => {
      const state = reason === null ? "ready" : "degraded";
      return { about: warningSubject(channel, code), channel, agent: core.agent, state, reason, forMs: 0 };
    }),
  );
  const [first] = channels;
  if (first === undefined) return [];
  const { channel, agent } = first;
  const reason = diskProblem();
  const state = reason === undefined ? "connecting" : reason === null ? "ready" : "degraded";
  return [...channels, ...warnings, { about: storeSubject, channel, agent, state, reason: reason ?? null, forMs: 0 }];
}

/** Returns the number of pending turns, replies and drafts in all channels. Held and failed ones do not count. */
export function waitingIn(channels: readonly ChannelOverview[]): number {
  const counts = channels.flatMap(({ turns, replies, drafts }) =>
    [turns, replies, drafts].flatMap((one) => Object.entries(one)),
  );
  return counts.reduce((sum, [state, count]) => (state === "held" || state === "failed" ? sum : sum + count), 0);
}

/** Returns a warning for each channel with pending work that does not run: it was renamed, removed or disabled. */
export const strandedWork = (store: readonly ChannelOverview[], runs: (channel: string) => boolean): string[] =>
  store.flatMap((one) => {
    const waiting = waitingIn([one]) + (one.events["stored"] ?? 0);
    if (waiting === 0 || runs(one.channel)) return [];
    return `${counted(waiting, "message")} of channel ${one.channel} wait, which does not run: the configuration has no such channel, or it is disabled; they continue when it runs again under this name`;
  });

/** Returns the status text, such as "3/4 channels ready, 1 paused, 12 waiting". */
export function statusText(channels: readonly ChannelReport[], waiting: number): string {
  const asking = channels.filter(isAsking);
  const ready = asking.filter(works).length;
  const paused = channels.filter((one) => one.paused !== null).length;
  return `${ready}/${asking.length} channels ready, ${paused > 0 ? `${paused} paused, ` : ""}${waiting} waiting`;
}

/** Returns true when at least one channel for customers works, or none is configured. An inactive agent
 *  does not count as a failure: an operator deactivated it, and its messages are stored. */
export function isReady(channels: readonly ChannelReport[]): boolean {
  const asking = channels.filter(isAsking);
  return asking.length === 0 || asking.some(works);
}

/** A node on standby asks, sends and serves webhooks, so it counts as working. */
const works = ({ state, key_rejected: rejected, settings_unread: isUnread }: ChannelReport): boolean =>
  (state === "ready" || state === "standby") && !rejected && isUnread !== true;

/** Returns the reason why the store is not writable; null when it is. Called for /readyz; costs at most
 *  one fsync. `freeBytes` checks the disk of an SQLite store, because a write that fits into the
 *  existing WAL file succeeds on a full disk. The store has to answer within `patienceMs`. */
export async function storeProblem(
  db: Database,
  clock: Clock,
  freeBytes: (() => Promise<number>) | null,
  patienceMs: number,
): Promise<string | null> {
  const written = db.tx(proveWritable).then(
    () => null,
    (error: unknown) => `cannot be written: ${error instanceof Error ? error.message : String(error)}`,
  );
  const problem = (await endsWithin(written, patienceMs, clock)) ? await written : "does not answer";
  return problem !== null || freeBytes === null ? problem : diskProblem(freeBytes);
}

async function diskProblem(freeBytes: () => Promise<number>): Promise<string | null> {
  const free = await freeBytes().catch(() => leastFreeBytes);
  if (free >= leastFreeBytes) return null;
  return `its disk is nearly full: ${Math.floor(free / 2 ** 20)} MiB are free, at least ${leastFreeBytes / 2 ** 20} are needed`;
}

/** Minimum free space in bytes. Smaller than one large message with its attachments. */
const leastFreeBytes = 32 * 2 ** 20;

/** Returns a function that returns the problem of the disk as it was at the previous call, and looks at the disk again.
 *  Called inside of transactions, which must not wait for a disk. */
export function watchDisk(freeBytes: (() => Promise<number>) | null): () => string | null | undefined {
  let problem: string | null | undefined = freeBytes === null ? null : undefined;
  let isLooking = false;
  const look = async (read: () => Promise<number>) => {
    isLooking = true;
    problem = await diskProblem(read);
    isLooking = false;
  };
  return () => {
    if (freeBytes !== null && !isLooking) void look(freeBytes);
    return problem;
  };
}

/** Returns the function that reads the free bytes of the store's disk for an unprivileged process; null for a store that is
 *  no file. */
export function freeBytesOf(store: Config["store"]): (() => Promise<number>) | null {
  if (store.kind !== "sqlite" || store.file === ":memory:") return null;
  return async () => {
    const { bavail, bsize } = await statfs(dirname(store.file));
    return bavail * bsize;
  };
}

const isAsking = (channel: ChannelReport): boolean => !channel.notices_only;

/** Returns the channels whose last supervisor tick is older than `limitMs`. Used by the watchdog. */
export function stuckChannels(host: Host, clock: Clock, limitMs: number): string[] {
  const now = clock.monotonic();
  return host
    .running()
    .filter(({ state: { tickedAt } }) => tickedAt !== null && now - tickedAt > limitMs)
    .map(({ config }) => config.id);
}
