// The agents of the channels, and their replacement at a reload. New agents are built first and started
// when no step can fail any more. Replaced agents are closed when their connections are unused. Also
// derives the request limit of an agent's client.

import { createAgentClient } from "../agent/index.ts";
import type { Config } from "../config/index.ts";
import { createAgent, type RunningAgent } from "../pipeline/settings.ts";
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

export interface RunningAgents {
  running(): ReadonlyMap<string, RunningAgent>;
  /** Builds new and changed agents without changing the running ones. Rejects when one cannot be built. */
  prepare(config: Config): Promise<NextAgents>;
  /** Closes all agents. */
  close(): Promise<void>;
}

export interface NextAgents {
  agent(name: string): RunningAgent | undefined;
  /** Names of running agents that will be replaced or removed. */
  readonly replaced: readonly string[];
  /** Starts the new agents and stops the settings polling of the replaced ones. Call the result with a
   *  promise that resolves when the replaced agents are unused; their connections are closed then. */
  begin(): (unused: Promise<unknown>) => void;
  discard(): Promise<void>;
}

interface AgentEntry {
  readonly agent: RunningAgent;
  readonly digest: string;
  readonly abort: AbortController;
  ended: Promise<void>;
}

interface AgentParts extends Core {
  readonly platformUrl: string;
  readonly rate: RateReserve;
  /** Called when an agent's settings changed. */
  changed(): void;
}

export function createAgents(options: AgentParts): RunningAgents {
  const { db, clock, log, timing } = options;
  let entries = new Map<string, AgentEntry>();
  let agents = new Map<string, RunningAgent>();
  const closing = new Set<Promise<void>>();

  async function build(name: string, config: Config): Promise<AgentEntry> {
    const block = config.agents[name];
    if (!block) throw new Error(`starting agent ${name}: it is not configured`);
    const organizationKey = config.platform.organization_key;
    const client = createAgentClient({
      url: options.platformUrl,
      agentKey: block.key,
      ...(organizationKey === undefined ? {} : { organizationKey }),
      timeoutMs: config.platform.timeout,
      connections: connectionsOf(name, config),
      clock,
      log,
    });
    const { rate } = options;
    const changed = () => options.changed();
    const agent = createAgent({
      name,
      client,
      refreshMs: block.refresh,
      db,
      rate,
      clock,
      log,
      timing,
      changed,
    });
    try {
      await agent.load();
    } catch (error) {
      await client.close();
      throw error;
    }
    return {
      agent,
      digest: JSON.stringify(block),
      abort: new AbortController(),
      ended: Promise.resolve(),
    };
  }

  const end = async (gone: readonly AgentEntry[], unused: Promise<unknown>): Promise<void> => {
    await Promise.allSettled([unused, ...gone.map(({ ended }) => ended)]);
    await Promise.allSettled(gone.map(({ agent }) => agent.client.close()));
  };

  return {
    running: () => agents,
    async prepare(config) {
      const next = new Map<string, AgentEntry>();
      const built: AgentEntry[] = [];
      const discard = async () => void (await Promise.all(built.map(({ agent }) => agent.client.close())));
      try {
        for (const [name, block] of Object.entries(config.agents)) {
          const known = entries.get(name);
          const same = known !== undefined && known.digest === JSON.stringify(block);
          const entry = same ? known : await build(name, config);
          if (!same) built.push(entry);
          next.set(name, entry);
        }
      } catch (error) {
        await discard();
        throw error;
      }
      const gone = [...entries].filter(([name, entry]) => next.get(name) !== entry);
      return {
        agent: (name) => next.get(name)?.agent,
        replaced: gone.map(([name]) => name),
        begin() {
          for (const [, entry] of gone) entry.abort.abort();
          for (const entry of built) entry.ended = entry.agent.run(entry.abort.signal);
          for (const [name, { agent }] of next) agent.client.setConnections(connectionsOf(name, config));
          entries = next;
          agents = new Map([...next].map(([name, { agent }]) => [name, agent]));
          return (unused) => {
            const closed = end(
              gone.map(([, entry]) => entry),
              unused,
            ).finally(() => closing.delete(closed));
            closing.add(closed);
          };
        },
        discard,
      };
    },
    async close() {
      for (const { abort } of entries.values()) abort.abort();
      await Promise.all([end([...entries.values()], Promise.resolve()), ...closing]);
    },
  };
}
