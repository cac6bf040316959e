// The running channels: builds each channel's adapter, supervises its inbound, and replaces the channels
// that a reload changed.

import { createHash } from "node:crypto";
import type { Adapter, AgentFacts, Channel, ChannelStatus, Inbound, Route } from "bridgehead/contract";
import { type ChannelConfig, channelSecrets, masking } from "../config/index.ts";
import type { Scheduler } from "../engine/scheduler.ts";
import { endsWithin } from "../ops/clock.ts";
import type { Statistics } from "../ops/statistics.ts";
import type { ReaderLease } from "../pipeline/accept/stage.ts";
import { agentProblem, whyNotAsk } from "../pipeline/ask/decide.ts";
import { type ChannelRuntime, type ChannelRuntimes, skillOf } from "../pipeline/channel-runtime.ts";
import type { EscalationHooks } from "../pipeline/escalation.ts";
import type { RunningAgent } from "../pipeline/settings.ts";
import type { Core } from "../store/driver.ts";
import type { Installation } from "../store/installation.ts";
import { ensureChannel } from "../store/tables/events.ts";
import type { ChannelPause } from "../store/tables/pauses.ts";
import { noteDefaultAddress } from "../store/tables/suppressions.ts";
import { type ChannelState, createChannel, isUp } from "./channel.ts";
import { attributed, closeAdapter, createAdapter, throwersOf } from "./loader.ts";
import { type Supervised, supervise } from "./supervisor.ts";

interface HostOptions {
  readonly installation: Installation;
  /** A function, because the scheduler is created later: its stages use this host's `lines`. */
  scheduler(): Scheduler;
  publicUrl(): string;
  readonly statistics: Statistics;
  readonly escalation: EscalationHooks;
  readonly config?: string;
  /** Closes the sockets of a removed channel's routes. Resolves when no adapter serves one of them any more. */
  retire(routes: readonly Route[]): Promise<void>;
  paused(channel: string): ChannelPause | null;
}

/** One channel: its adapter, what the pipeline needs of it, and the supervision of its inbound. */
class RunningChannel {
  readonly config: ChannelConfig;
  readonly adapter: Adapter;
  readonly line: ChannelRuntime;
  readonly state: ChannelState;
  readonly #core: Core;
  readonly #options: HostOptions;
  readonly #agent: RunningAgent;
  readonly #digest: string;
  readonly #mask: (text: string) => string;
  readonly #channel: Channel;
  readonly #abort = new AbortController();
  /** Clock milliseconds (monotonic). */
  readonly #builtAt: number;
  #ended: Promise<void> = Promise.resolve();
  #reader: ReaderLease | null = null;
  /** Ends the present run of its inbound with an error; null without one. */
  #endRun: ((error: unknown) => void) | null = null;
  /** True when the adapter has left an error uncaught since the run began: there may be one for each claim. */
  #hasErred = false;
  /** The status reported for the adapter after `run` ended without a report of its own. */
  #fall: ChannelStatus | null = null;

  /** `siblings`: the ids of the channels that currently run on this store. */
  constructor(
    config: ChannelConfig,
    agent: RunningAgent,
    core: Core,
    options: HostOptions,
    siblings: () => readonly string[],
  ) {
    const { clock } = core;
    const { installation, statistics } = options;
    this.config = config;
    this.#agent = agent;
    this.#digest = digest(config);
    const masked = masking(channelSecrets(config));
    // A reason may quote a page of a provider: 2,000 characters of it are kept.
    const mask = (text: string) => masked(text).slice(0, 2000).toWellFormed();
    this.#mask = mask;
    this.#core = core;
    this.#options = options;
    this.state = {
      status: { state: "connecting" },
      since: clock.now(),
      changedAt: clock.monotonic(),
      lastActivityAt: null,
      warnings: new Map(),
      escalating: new Map(),
      rejections: new WeakSet(),
      tickedAt: null,
      failures: 0,
      retryAt: null,
      isStandby: false,
    };
    this.#channel = createChannel({
      ...core,
      id: config.id,
      adapter: config.adapter.name,
      installation,
      running: siblings,
      scheduler: options.scheduler(),
      publicUrl: options.publicUrl(),
      state: this.state,
      mask: this.#mask,
      reader: () => this.#reader,
      lost: () => statistics.count("connections_lost_total", { channel: config.id }),
      agent: () => agentFacts(this.line, config.core.mode === "shadow" || this.pause !== null),
    });
    this.adapter = createAdapter(config, this.#channel);
    this.#builtAt = clock.monotonic();
    this.line = this.#lineOf(agent);
  }

  /** True when the platform has not answered for the agent for as long as a stuck supervisor is tolerated, and its settings
   *  were never read before. */
  get isAgentUnread(): boolean {
    const { clock, timing } = this.#core;
    const isUnread = agentProblem(this.line) !== null && this.line.settings() === null;
    return isUnread && clock.monotonic() - this.#builtAt > timing.channels.stuck;
  }

  /** Null while the channel is not paused. */
  get pause(): ChannelPause | null {
    return this.#options.paused(this.config.id);
  }

  /** True when a reload keeps the channel: it was built from exactly these, and its login is not rejected. An account that was
   *  corrected at the provider needs no change of the configuration, and the reader tries a rejected login rarely. */
  isKept(config: ChannelConfig, agent: RunningAgent): boolean {
    const isRejected = this.adapter.inbound !== undefined && this.state.status.state === "unauthorized";
    return this.#agent === agent && this.#digest === digest(config) && !isRejected;
  }

  /** Starts its inbound, unless it was stopped in the meantime. */
  begin(): void {
    const { inbound } = this.adapter;
    if (this.#abort.signal.aborted) return;
    if (inbound) {
      this.#ended = supervise(this.#supervised(inbound), this.#abort.signal);
      return;
    }
    // A channel without inbound is ready once its routes are served. A state that the adapter reported
    // takes precedence.
    if (this.state.status.state === "connecting") this.#channel.report({ state: "ready" });
  }

  /** Call it when the channel that it replaces does not end. Until that one has ended, this one does not read. */
  waitForOther(): void {
    const reason = "its adapter still reads with the former configuration: restart the daemon";
    this.#channel.report({ state: "degraded", code: "not-stopped", reason });
  }

  /** Starts its inbound again when its adapter has left this error uncaught. Returns whether it has. */
  surviveError(error: unknown): boolean {
    const { adapter, id } = this.config;
    if (!this.state.rejections.has(Object(error)) && !throwersOf(error).includes(adapter)) return false;
    if (this.#hasErred) return true;
    this.#hasErred = true;
    this.#core.log.error({ channel: id, adapter: adapter.name, err: error }, "adapter left an error uncaught");
    this.#channel.warn("uncaught-error", `its adapter ${adapter.name} leaves errors uncaught: report it to its author`);
    this.#endRun?.(error);
    return true;
  }

  /** Stops its inbound. Resolves when it has stopped. */
  stop(): Promise<void> {
    this.#abort.abort();
    return this.#ended;
  }

  async close(): Promise<void> {
    const { clock, log, timing } = this.#core;
    await closeAdapter(this.adapter, clock, timing.channels).catch((error: unknown) => {
      log.warn({ channel: this.config.id, err: error }, "closing an adapter failed");
    });
  }

  #lineOf(agent: RunningAgent): ChannelRuntime {
    const { config, adapter, state } = this;
    const { clock, timing } = this.#core;
    return {
      channel: config.id,
      agent: agent.name,
      traits: config.adapter.traits,
      config: this.#options.config,
      rules: config.core,
      outbound: adapter.outbound ?? null,
      mask: this.#mask,
      open: adapter.open?.bind(adapter) ?? null,
      client: agent.client,
      address: (text) => config.adapter.address?.(text) ?? (config.adapter.address ? null : text),
      escalation: () => this.#options.escalation,
      catchingUp: () =>
        adapter.inbound !== undefined &&
        state.status.state === "connecting" &&
        clock.monotonic() - this.#builtAt < timing.channels.catchUp,
      settings: () => agent.state.settings,
      problem: () => agent.state.problem,
      refusal: () => agent.state.refusal,
      report: (result, isQuestion) => agent.report(result, isQuestion),
    };
  }

  #supervised(inbound: Inbound): Supervised {
    const { clock, log } = this.#core;
    const { adapter, id } = this.config;
    const { state } = this;
    return {
      ...this.#core,
      channel: id,
      inbound: { run: (...given) => attributed(adapter, () => inbound.run(...given)) },
      setReader: (next, end) => {
        this.#reader = next;
        this.#endRun = end ?? null;
        state.retryAt = null;
        if (next === null) return;
        state.isStandby = false;
        this.#hasErred = false;
      },
      hasWorked: (since) => (state.lastActivityAt ?? 0) >= since,
      tick: () => (state.tickedAt = clock.monotonic()),
      // What this node reported last is outdated.
      standby: (held) => {
        state.isStandby = held;
        state.escalating.clear();
        this.#channel.report({ state: "connecting" });
      },
      fell: (error, againInMs) => {
        state.failures += 1;
        state.retryAt = clock.now() + againInMs;
        const fields = { channel: id, err: error, failures: state.failures, again_in_ms: againInMs };
        log.debug(fields, "channel connection attempt ended, retrying");
        // The adapter's own report of a failure is more precise than the error that left `run`.
        if (!isUp(state.status) && state.status !== this.#fall) return;
        const reason = error instanceof Error ? error.message : String(error);
        this.#channel.report({ state: "degraded", code: "connection", reason });
        this.#fall = state.status;
      },
    };
  }
}

export class Host {
  readonly #core: Core;
  readonly #options: HostOptions;
  readonly #channels = new Map<string, RunningChannel>();
  readonly #lines = new Map<string, ChannelRuntime>();
  /** The channel runtimes for the pipeline, in the order of the configuration. A reload changes this map. */
  readonly lines: ChannelRuntimes = this.#lines;
  readonly #closing = new Set<Promise<void>>();

  constructor(core: Core, options: HostOptions) {
    this.#core = core;
    this.#options = options;
  }

  /** Builds new and changed channels without changing the running ones. Rejects when one cannot be built. Call the
   *  result to start, replace and stop channels until exactly these run; it resolves when they have been started. */
  async prepare(
    configs: readonly ChannelConfig[],
    agentOf: (name: string) => RunningAgent | undefined,
  ): Promise<() => Promise<void>> {
    const wanted = configs.filter((config) => config.core.enabled);
    const built = new Map<string, RunningChannel>();
    try {
      for (const config of wanted) {
        const agent = agentOf(config.core.agent);
        if (!agent) throw new Error(`starting channel ${config.id}: there is no agent ${config.core.agent}`);
        if (this.#channels.get(config.id)?.isKept(config, agent)) continue;
        const siblings = () => [...this.#channels.keys()];
        built.set(config.id, new RunningChannel(config, agent, this.#core, this.#options, siblings));
      }
      for (const { id, core } of wanted) {
        const notified = core.notify && (built.get(core.notify.channel) ?? this.#channels.get(core.notify.channel));
        if (core.notify && !notified?.line.outbound)
          throw new Error(
            `starting channel ${id}: its notifications go through ${core.notify.channel}, which cannot send`,
          );
      }
      await this.#core.db.tx(async (q) => {
        for (const [id, { adapter }] of built) {
          await ensureChannel(q, id);
          await noteDefaultAddress(q, id, adapter.outbound?.ownAddress ?? null);
        }
      });
    } catch (error) {
      await Promise.all([...built.values()].map((channel) => channel.close()));
      throw error;
    }
    const ids = wanted.map((config) => config.id as string);
    return async () => {
      const gone = [...this.#channels.keys()].filter((id) => !ids.includes(id));
      const exchanged = [...gone, ...built.keys()].map((id) => this.#exchange(id, built.get(id) ?? null));
      // In the order of the configuration, which is the display order.
      for (const id of ids) {
        const channel = this.#channels.get(id);
        this.#channels.delete(id);
        if (channel) this.#channels.set(id, channel);
      }
      await Promise.all(exchanged);
    };
  }

  /** Starts the channels again whose foreign adapters have left this error uncaught. Returns whether there are any. */
  surviveError(error: unknown): boolean {
    return this.running().filter((channel) => channel.surviveError(error)).length > 0;
  }

  running(): readonly RunningChannel[] {
    return [...this.#channels.values()];
  }

  /** Stops reading. Replies to accepted messages may still be sent. */
  async stop(): Promise<void> {
    await Promise.all(this.running().map((channel) => channel.stop()));
  }

  /** Closes the adapters. Call it when no send is running any more. */
  async close(): Promise<void> {
    await Promise.all([...this.#closing, ...this.running().map((channel) => channel.close())]);
  }

  /** The pipeline uses the new channel at once. Reading starts when the old channel has stopped, because
   *  both use one lease. A reload does not wait for an adapter that ignores its signal. */
  async #exchange(id: string, next: RunningChannel | null): Promise<void> {
    const old = this.#channels.get(id);
    if (next) {
      this.#channels.set(id, next);
      this.#lines.set(id, next.line);
    } else {
      this.#channels.delete(id);
      this.#lines.delete(id);
    }
    const begun = (async () => {
      if (old) await this.#end(old);
      next?.begin();
    })();
    const { clock, log, timing } = this.#core;
    if (await endsWithin(begun, timing.channels.close, clock)) return;
    log.error({ channel: id }, "channel does not stop reading: its adapter ignores the signal");
    next?.waitForOther();
  }

  /** Resolves when the channel reads no more. Its replies may still be in progress; the adapter is
   *  closed after them. */
  async #end(channel: RunningChannel): Promise<void> {
    await channel.stop();
    const closed = Promise.resolve(this.#options.retire(channel.adapter.routes ?? []))
      .then(() => this.#options.scheduler().idle(channel.config.id))
      .then(() => channel.close())
      .finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }
}

/** Hash of the configuration that a channel is built from. */
const digest = ({ core, settings, adapter }: ChannelConfig): string =>
  createHash("sha256")
    .update(JSON.stringify([core, settings, adapter.name]))
    .digest("hex");

/** Returns the facts about the agent that the adapter receives. `paused`: the channel is paused or in shadow mode. */
function agentFacts(line: ChannelRuntime, paused: boolean): AgentFacts | null {
  const settings = line.settings();
  if (!settings) return null;
  return {
    active: whyNotAsk(line) === null,
    paused,
    name: settings.name,
    introduction: skillOf(line)?.introduction ?? null,
  };
}
