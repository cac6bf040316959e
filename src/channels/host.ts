// The running channels: builds each channel's adapter, supervises its inbound, and replaces the channels
// that a reload changed.

import { createHash } from "node:crypto";
import type { Adapter, ChannelStatus, Clock, Log, Route } from "bridgehead/contract";
import type { ChannelConfig } from "../config/index.ts";
import type { Scheduler } from "../engine/scheduler.ts";
import type { Statistics } from "../ops/statistics.ts";
import type { Timing } from "../ops/timing.ts";
import type { ReaderLease } from "../pipeline/accept/stage.ts";
import { agentFacts, type ChannelRuntime } from "../pipeline/channel-runtime.ts";
import type { EscalationHooks } from "../pipeline/escalation.ts";
import type { RunningAgent } from "../pipeline/settings.ts";
import type { Database } from "../store/driver.ts";
import type { Installation } from "../store/installation.ts";
import { ensureChannel } from "../store/tables/events.ts";
import type { ChannelPause } from "../store/tables/pauses.ts";
import { type ChannelState, createChannel } from "./channel.ts";
import { supervise } from "./supervisor.ts";

export interface RunningChannel {
  readonly config: ChannelConfig;
  readonly adapter: Adapter;
  readonly state: ChannelState;
  /** Clock milliseconds (monotonic) of the supervisor's last tick; null for a channel without inbound. */
  tickedAt: number | null;
  /** Consecutive failures since the channel was last ready. */
  failures: number;
  /** Clock milliseconds of the next attempt to connect; null while connected or connecting. */
  retryAt: number | null;
  /** True when another node reads the channel. This node still asks, sends and serves the channel's
   *  webhooks. */
  standby: boolean;
  /** Null while the channel is not paused. */
  readonly pause: ChannelPause | null;
}

export interface Host {
  /** Builds new and changed channels without changing the running ones. Rejects when one cannot be
   *  built. Call the result to start, replace and stop channels until exactly these run; it resolves
   *  when they have been started. */
  prepare(
    configs: readonly ChannelConfig[],
    agentOf: (name: string) => RunningAgent | undefined,
  ): Promise<() => Promise<void>>;
  running(): readonly RunningChannel[];
  /** The channel runtimes for the pipeline. */
  lines(): ReadonlyMap<string, ChannelRuntime>;
  /** Stops reading. Replies to accepted messages may still be sent. */
  stop(): Promise<void>;
  /** Closes the adapters. Call it when no send is running any more. */
  close(): Promise<void>;
}

interface ChannelEntry {
  readonly channel: RunningChannel;
  readonly digest: string;
  readonly line: ChannelRuntime;
  readonly abort: AbortController;
  /** Starts its inbound. */
  begin(): void;
  /** Resolves when its inbound has stopped. */
  ended(): Promise<void>;
}

export function createHost(options: {
  readonly db: Database;
  readonly installation: Installation;
  /** A function, because the scheduler is created later: its stages use this host's `lines`. */
  scheduler(): Scheduler;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  readonly timing: Timing;
  publicUrl(): string;
  readonly statistics?: Statistics;
  /** Escalation handling for every channel. Absent only when the host runs without an app. */
  readonly escalation?: EscalationHooks;
  /** Closes the sockets of a removed channel's routes. Resolves when no adapter serves one of them any
   *  more. */
  retire?(routes: readonly Route[]): Promise<void>;
  /** Returns the pause of a channel. Absent only when the host runs without an app. */
  paused?(channel: string): ChannelPause | null;
}): Host {
  const timing = options.timing.channels;
  const entries = new Map<string, ChannelEntry>();
  const lines = new Map<string, ChannelRuntime>();
  const closing = new Set<Promise<void>>();
  const close = async (adapter: Adapter): Promise<void> => {
    await adapter.close?.(AbortSignal.timeout(timing.close)).catch((error: unknown) => {
      options.log.warn({ err: error }, "closing an adapter failed");
    });
  };

  function build(config: ChannelConfig, agent: RunningAgent): ChannelEntry {
    const { clock, db, node } = options;
    const log = options.log;
    let reader: ReaderLease | null = null;
    const builtAt = clock.monotonic();
    const state: ChannelState = {
      status: { state: "connecting" },
      since: clock.now(),
      heardAt: null,
      warnings: new Map(),
    };
    const channel = createChannel({
      id: config.id,
      adapter: config.adapter.name,
      installation: options.installation,
      running: () => [...entries.keys()],
      scheduler: options.scheduler(),
      db,
      clock,
      log,
      publicUrl: options.publicUrl(),
      node,
      state,
      timing: options.timing,
      reader: () => reader,
      lost: () => options.statistics?.count("connections_lost_total", { channel: config.id }),
      agent: () => agentFacts(line, config.core.mode === "shadow" || running.pause !== null),
    });
    const adapter = config.adapter.create(channel, config.settings);
    const running: RunningChannel = {
      config,
      adapter,
      state,
      tickedAt: null,
      failures: 0,
      retryAt: null,
      standby: false,
      get pause() {
        return options.paused?.(config.id) ?? null;
      },
    };
    const abort = new AbortController();
    const { inbound } = adapter;
    let ended = Promise.resolve();
    const begin = () => {
      if (!inbound) {
        // A channel without inbound is ready once its routes are served. A state that the adapter reported
        // takes precedence.
        if (state.status.state === "connecting") channel.report({ state: "ready" });
        return;
      }
      ended = supervise(
        {
          channel: config.id,
          inbound,
          db,
          clock,
          log,
          node,
          timing,
          setReader: (next) => {
            reader = next;
            running.retryAt = null;
            if (next !== null) running.standby = false;
          },
          isReady: () => state.status.state === "ready",
          tick: () => (running.tickedAt = clock.monotonic()),
          // The last state that this node reported is outdated.
          standby: (held) => {
            running.standby = held;
            channel.report({ state: "connecting" });
          },
          fell: (error, againInMs) => {
            running.failures += 1;
            running.retryAt = clock.now() + againInMs;
            const { failures } = running;
            const fields = { channel: config.id, err: error, failures, again_in_ms: againInMs };
            log.debug(fields, "channel connection attempt ended, retrying");
            if (state.status.state !== "unauthorized") channel.report(afterFall(error));
          },
        },
        abort.signal,
      );
    };
    const line: ChannelRuntime = {
      channel: config.id,
      agent: agent.name,
      traits: config.adapter.traits,
      rules: config.core,
      outbound: adapter.outbound ?? null,
      open: adapter.open?.bind(adapter) ?? null,
      client: agent.client,
      address: (text) => config.adapter.address?.(text) ?? (config.adapter.address ? null : text),
      escalation: () => options.escalation ?? null,
      catchingUp: () =>
        inbound !== undefined &&
        state.status.state === "connecting" &&
        clock.monotonic() - builtAt < timing.catchUp,
      settings: () => agent.settings(),
      problem: () => agent.problem(),
      report: (problem) => agent.report(problem),
    };
    return { channel: running, digest: digest(config, agent), line, abort, begin, ended: () => ended };
  }

  /** Resolves when the channel reads no more. Its replies may still be in progress; the adapter is
   *  closed after them. */
  async function end(entry: ChannelEntry): Promise<void> {
    entry.abort.abort();
    await entry.ended();
    const { routes = [] } = entry.channel.adapter;
    const closed = Promise.resolve(options.retire?.(routes))
      .then(() => options.scheduler().settled(entry.channel.config.id))
      .then(() => close(entry.channel.adapter))
      .finally(() => closing.delete(closed));
    closing.add(closed);
  }

  /** The pipeline uses the new channel at once. Reading starts when the old channel has stopped, because
   *  both use one lease. */
  async function exchange(id: string, next: ChannelEntry | null): Promise<void> {
    const old = entries.get(id);
    if (next) {
      entries.set(id, next);
      lines.set(id, next.line);
    } else {
      entries.delete(id);
      lines.delete(id);
    }
    if (old) await end(old);
    if (!next?.abort.signal.aborted) next?.begin();
  }

  return {
    async prepare(configs, agentOf) {
      const wanted = configs.filter((config) => config.core.enabled);
      const built = new Map<string, ChannelEntry>();
      try {
        for (const config of wanted) {
          const agent = agentOf(config.core.agent);
          if (!agent)
            throw new Error(`starting channel ${config.id}: there is no agent ${config.core.agent}`);
          if (entries.get(config.id)?.digest === digest(config, agent)) continue;
          built.set(config.id, build(config, agent));
        }
        for (const { id, core } of wanted) {
          const told = core.notify && (built.get(core.notify.channel) ?? entries.get(core.notify.channel));
          if (core.notify && !told?.line.outbound)
            throw new Error(
              `starting channel ${id}: its notifications go through ${core.notify.channel}, which cannot send`,
            );
        }
        await options.db.tx(async (q) => {
          for (const id of built.keys()) await ensureChannel(q, id);
        });
      } catch (error) {
        await Promise.all([...built.values()].map((entry) => close(entry.channel.adapter)));
        throw error;
      }
      const ids = wanted.map((config) => config.id as string);
      return async () => {
        const gone = [...entries.keys()].filter((id) => !ids.includes(id));
        const all = [...gone, ...built.keys()];
        const exchanged = all.map((id) => exchange(id, built.get(id) ?? null));
        inOrder(entries, ids);
        await Promise.all(exchanged);
      };
    },
    running: () => [...entries.values()].map((entry) => entry.channel),
    lines: () => lines,
    async stop() {
      for (const entry of entries.values()) entry.abort.abort();
      await Promise.all([...entries.values()].map((entry) => entry.ended()));
    },
    async close() {
      await Promise.all([...closing, ...[...entries.values()].map((entry) => close(entry.channel.adapter))]);
    },
  };
}

/** Sorts the map in the order of the configuration, which is the display order. */
function inOrder<T>(map: Map<string, T>, keys: readonly string[]): void {
  for (const key of keys) {
    const value = map.get(key);
    if (value === undefined) continue;
    map.delete(key);
    map.set(key, value);
  }
}

const afterFall = (error: unknown): ChannelStatus => ({
  state: "degraded",
  code: "connection",
  reason: error instanceof Error ? error.message : String(error),
});

const agentNumbers = new WeakMap<RunningAgent, number>();
let nextAgentNumber = 1;

/** Hash of everything that a channel was built from. A reload replaces the channel only when this
 *  differs. */
function digest(config: ChannelConfig, agent: RunningAgent): string {
  let number = agentNumbers.get(agent);
  if (number === undefined) {
    number = nextAgentNumber++;
    agentNumbers.set(agent, number);
  }
  const text = JSON.stringify([config.core, config.settings, config.adapter.name, number]);
  return createHash("sha256").update(text).digest("hex");
}
