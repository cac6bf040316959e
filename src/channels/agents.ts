// The agents of the channels, and their replacement at a reload. New agents are built first and started
// when no step can fail any more. Replaced agents are closed when their connections are unused. Also
// derives the request limit of an agent's client.

import { createAgentClient } from "../agent/index.ts";
import type { Config } from "../config/index.ts";
import { RunningAgent } from "../pipeline/settings.ts";
import type { Core } from "../store/driver.ts";
import type { RateReserve } from "../store/rates.ts";

/** Polls of conversations per channel (stage watch) that run in parallel to its questions. */
const looksPerChannel = 4;
/** Requests that belong to no channel: settings, webhook registrations. */
const requestsOfAgent = 4;

/** Limit of concurrent requests of an agent. Every enabled channel contributes its full `concurrency`,
 *  which the scheduler never exceeds. No channel can use the share of another one: a burst of mails
 *  leaves connections for calls. */
function connectionsOf(name: string, { channels }: Pick<Config, "channels">): number {
  const own = channels.filter(({ core }) => core.enabled && core.agent === name);
  return own.reduce((sum, { core }) => sum + core.concurrency + looksPerChannel, requestsOfAgent);
}

interface AgentEntry {
  readonly agent: RunningAgent;
  /** True when the platform has answered with the agent's settings since it was built. */
  isConfirmed: boolean;
  readonly digest: string;
  readonly abort: AbortController;
  ended: Promise<void>;
}

interface AgentSetParts extends Core {
  readonly platformUrl: string;
  readonly rate: RateReserve;
  /** Called when an agent's settings changed. */
  changed(): void;
}

export class AgentSet {
  readonly #parts: AgentSetParts;
  #entries: ReadonlyMap<string, AgentEntry> = new Map();
  #running: ReadonlyMap<string, RunningAgent> = new Map();
  readonly #closing = new Set<Promise<void>>();

  constructor(parts: AgentSetParts) {
    this.#parts = parts;
  }

  /** A reload replaces the map. */
  get running(): ReadonlyMap<string, RunningAgent> {
    return this.#running;
  }

  /** True when the platform has accepted the agent's key since the start, or since the key was changed. Before that, settings
   *  from the store say nothing about the key. */
  isConfirmed(name: string): boolean {
    return this.#entries.get(name)?.isConfirmed === true;
  }

  /** Builds new and changed agents without changing the running ones. Rejects when one cannot be built. */
  async prepare(config: Config) {
    const next = new Map<string, AgentEntry>();
    const built: AgentEntry[] = [];
    const discard = async () => void (await Promise.all(built.map(({ agent }) => agent.client.close())));
    try {
      for (const [name, block] of Object.entries(config.agents)) {
        const known = this.#entries.get(name);
        const same = known !== undefined && known.digest === JSON.stringify(block);
        const entry = same ? known : await this.#build(name, config);
        if (!same) built.push(entry);
        next.set(name, entry);
      }
    } catch (error) {
      await discard();
      throw error;
    }
    const gone = [...this.#entries].filter(([name, entry]) => next.get(name) !== entry);
    return {
      agent: (name: string): RunningAgent | undefined => next.get(name)?.agent,
      /** Names of running agents that will be replaced or removed. */
      replaced: gone.map(([name]) => name),
      /** Starts the new agents and stops the settings polling of the replaced ones. Call the result with a promise that
       *  resolves when the replaced agents are unused; their connections are closed then. */
      begin: () => {
        for (const [, entry] of gone) entry.abort.abort();
        for (const entry of built) entry.ended = entry.agent.run(entry.abort.signal);
        for (const [name, { agent }] of next) agent.client.setConnections(connectionsOf(name, config));
        this.#entries = next;
        this.#running = new Map([...next].map(([name, { agent }]) => [name, agent]));
        return (unused: Promise<unknown>): void => {
          const replaced = gone.map(([, entry]) => entry);
          const closed = end(replaced, unused).finally(() => this.#closing.delete(closed));
          this.#closing.add(closed);
        };
      },
      discard,
    };
  }

  async close(): Promise<void> {
    const entries = [...this.#entries.values()];
    for (const { abort } of entries) abort.abort();
    await Promise.all([end(entries, Promise.resolve()), ...this.#closing]);
  }

  async #build(name: string, config: Config): Promise<AgentEntry> {
    const { platformUrl, clock, log, timing } = this.#parts;
    const block = config.agents[name];
    if (!block) throw new Error(`starting agent ${name}: it is not configured`);
    const organizationKey = config.platform.organization_key;
    const client = createAgentClient({
      url: platformUrl,
      agentKey: block.key,
      ...(organizationKey === undefined ? {} : { organizationKey }),
      timeoutMs: config.platform.timeout,
      connections: connectionsOf(name, config),
      clock,
      log,
      timing,
    });
    const changed = () => {
      entry.isConfirmed = true;
      this.#parts.changed();
    };
    const agent = new RunningAgent({ ...this.#parts, name, client, refreshMs: block.refresh, changed });
    const entry: AgentEntry = {
      agent,
      isConfirmed: false,
      digest: JSON.stringify(block),
      abort: new AbortController(),
      ended: Promise.resolve(),
    };
    try {
      await agent.load();
    } catch (error) {
      await client.close();
      throw error;
    }
    return entry;
  }
}

/** Closes the clients of these agents when they are unused. */
async function end(gone: readonly AgentEntry[], unused: Promise<unknown>): Promise<void> {
  await Promise.allSettled([unused, ...gone.map(({ ended }) => ended)]);
  await Promise.allSettled(gone.map(({ agent }) => agent.client.close()));
}
