// The composition root: builds everything in order, stops it in reverse, and exchanges what a reload changed.

import type { Clock, Log } from "bridgehead/contract";
import { createAgentClient } from "./agent/index.ts";
import type { Config } from "./config/index.ts";
import { createHost, type Host } from "./host/host.ts";
import { newToken, steadyNow } from "./ops/clock.ts";
import { askStage } from "./pipeline/ask.ts";
import { composeStage } from "./pipeline/compose.ts";
import { routeStage } from "./pipeline/route.ts";
import { sendStage } from "./pipeline/send.ts";
import { type Agent, createAgent } from "./pipeline/settings.ts";
import { createFlow, type Flow } from "./pipeline/step.ts";
import type { Database } from "./store/driver.ts";
import { endLeases } from "./store/lanes.ts";
import { lockStore } from "./store/lock.ts";
import { migrate } from "./store/migrate.ts";
import { rateOf } from "./store/rates.ts";
import { openSqlite } from "./store/sqlite.ts";

export interface App {
  readonly db: Database;
  readonly flow: Flow;
  readonly host: Host;
  readonly agents: ReadonlyMap<string, Agent>;
  /** Exchanges the agents and channels that differ. What else changed needs a restart and is named in the result. */
  reload(config: Config): Promise<readonly string[]>;
  /** Stops intake, lets running work end within `drainMs`, closes everything. */
  stop(drainMs: number): Promise<void>;
}

export interface AppOptions {
  readonly config: Config;
  /** The platform's address: configured, or where the embedded one listens. */
  readonly platformUrl: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Under which address providers reach the listener; known once it listens. */
  publicUrl(): string;
}

const sendTimeout = 120_000;

/** The configured store as it is: no lock, no migration. For commands beside the running daemon. */
export async function openDatabase({ store }: Config, clock: Clock): Promise<Database> {
  if (store.kind === "sqlite") return openSqlite(store.file, steadyNow(clock));
  // Loaded only when wanted: most daemons do without its memory.
  const { openPostgres } = await import("./store/postgres.ts");
  return openPostgres(store.url);
}

/** Opens the store for this process alone (SQLite) or with others (PostgreSQL), and brings its schema up to date. */
export async function openStore(
  config: Config,
  clock: Clock,
  log: Log,
): Promise<{ db: Database; unlock: () => void }> {
  const { store } = config;
  const unlock = store.kind === "sqlite" ? lockStore(store.file) : () => undefined;
  const db = await openDatabase(config, clock);
  try {
    const applied = await migrate(db);
    if (applied.length > 0) log.info({ migrations: applied }, "the store's schema was brought up to date");
    // Nobody else uses an SQLite store: whatever is leased was leased by a process that is gone.
    if (store.kind === "sqlite") await db.tx(endLeases);
  } catch (error) {
    await db.close();
    unlock();
    throw error;
  }
  return { db, unlock };
}

/** Resolves when every channel has been started (not: connected). */
export async function startApp(options: AppOptions): Promise<App> {
  const { clock, log } = options;
  let { config } = options;
  const { db, unlock } = await openStore(config, clock, log);
  const node = `${config.node}/${newToken(6)}`;
  const rate = rateOf(config.platform.rate.requests, config.platform.rate.per);
  const agents = new Map<string, Agent>();
  const refreshing = new Map<string, { abort: AbortController; ended: Promise<void>; digest: string }>();
  const lives = new AbortController();

  const host = createHost({
    db,
    flow: () => flow,
    clock,
    log,
    node,
    publicUrl: () => options.publicUrl(),
    agent: (name) => agents.get(name),
  });
  const deps = { lines: () => host.lines(), db, clock, log, node };
  const flow = createFlow({
    db,
    clock,
    log,
    pure: [routeStage(deps), composeStage(deps)],
    stages: [
      askStage({
        ...deps,
        rate,
        timeout: config.platform.timeout,
        settleAfter: config.platform.settle_after,
      }),
      sendStage({ ...deps, timeout: sendTimeout }),
    ],
    concurrency: (_stage, channel) => host.lines().get(channel)?.rules.concurrency ?? 0,
  });

  /** Returns what ends the replaced agents' connections, for when no channel uses them any more. */
  async function applyAgents(next: Config): Promise<() => Promise<void>> {
    const replaced: Agent[] = [];
    for (const [name, { abort, ended, digest }] of Array.from(refreshing)) {
      if (digest === JSON.stringify(next.agents[name])) continue;
      abort.abort();
      await ended;
      refreshing.delete(name);
      const agent = agents.get(name);
      if (agent) replaced.push(agent);
      agents.delete(name);
    }
    for (const [name, block] of Object.entries(next.agents)) {
      if (agents.has(name)) continue;
      const agent = await buildAgent(name, next);
      agents.set(name, agent);
      const abort = new AbortController();
      const ended = agent.run(AbortSignal.any([lives.signal, abort.signal]));
      refreshing.set(name, { abort, ended, digest: JSON.stringify(block) });
    }
    return async () => {
      for (const agent of replaced) await agent.client.close();
    };
  }

  async function buildAgent(name: string, from: Config): Promise<Agent> {
    const block = from.agents[name];
    if (!block) throw new Error(`starting agent ${name}: it is not configured`);
    const organizationKey = from.platform.organization_key;
    const client = createAgentClient({
      url: options.platformUrl,
      agentKey: block.key,
      ...(organizationKey === undefined ? {} : { organizationKey }),
      timeoutMs: from.platform.timeout,
      clock,
      log,
    });
    const agent = createAgent({
      name,
      client,
      refreshMs: block.refresh,
      db,
      rate,
      clock,
      log,
      changed: () => flow.wake(),
    });
    await agent.load();
    return agent;
  }

  await applyAgents(config);
  await host.apply(config.channels);
  const sweeping = flow.run(lives.signal);

  return {
    db,
    flow,
    host,
    agents,
    async reload(next) {
      const restart = needRestart(config, next);
      const closeReplaced = await applyAgents(next);
      await host.apply(next.channels);
      await closeReplaced();
      config = next;
      flow.wake();
      return restart;
    },
    async stop(drainMs) {
      await host.stop();
      await flow.drain(drainMs);
      await host.close();
      lives.abort();
      await Promise.all([sweeping, ...[...refreshing.values()].map(({ ended }) => ended)]);
      await Promise.all([...agents.values()].map((agent) => agent.client.close()));
      await db.close();
      unlock();
    },
  };
}

/** The keys a running process cannot exchange. */
function needRestart(before: Config, after: Config): string[] {
  const keys = ["platform", "http", "store", "node", "log"] as const;
  return keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
}
