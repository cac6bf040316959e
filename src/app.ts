// The composition root: builds all components in order, stops them in reverse order, and replaces what a
// reload changed.

import type { Clock, Log, Route } from "bridgehead/contract";
import { heartbeatStage } from "./calls/node-heartbeat.ts";
import { dropAfterPowerFailure } from "./calls/power-failure.ts";
import { loseSessions, nodeLease } from "./calls/rows.ts";
import { liveSessions } from "./calls/sessions.ts";
import { createAgents } from "./channels/agents.ts";
import { createHost, type Host } from "./channels/host.ts";
import { PauseWatch } from "./channels/pause-watch.ts";
import { pulsesOf } from "./channels/readiness.ts";
import type { Config } from "./config/index.ts";
import type { Policy } from "./domain/policy.ts";
import { RateReserve } from "./engine/rate-reserve.ts";
import { Scheduler } from "./engine/scheduler.ts";
import { linkTo } from "./escalation/link/page.ts";
import { linkHandler } from "./escalation/link/stage.ts";
import { notifyStage } from "./escalation/notify/stage.ts";
import { WebhookRegistrations } from "./escalation/platform-webhook/registration.ts";
import { platformWebhookHandler, platformWebhookStage } from "./escalation/platform-webhook/stage.ts";
import { pollStage } from "./escalation/poll/stage.ts";
import { healthStage } from "./escalation/trigger/health.ts";
import { EscalationHandler } from "./escalation/trigger/stage.ts";
import { webhookChannels } from "./escalation/webhook/adapter.ts";
import { newToken, steadyNow } from "./ops/clock.ts";
import { type Hop, reportCommit } from "./ops/hops.ts";
import { Statistics } from "./ops/statistics.ts";
import { standardTiming, type Timing, type TimingOverrides, timingWith } from "./ops/timing.ts";
import { askStage } from "./pipeline/ask/stage.ts";
import { composeStage } from "./pipeline/compose/stage.ts";
import { fetchStage } from "./pipeline/fetch/stage.ts";
import { routeStage } from "./pipeline/route/stage.ts";
import { sendStage } from "./pipeline/send/stage.ts";
import type { RunningAgent } from "./pipeline/settings.ts";
import { copyBeforeMigration, stampOf } from "./store/backup.ts";
import type { Database } from "./store/driver.ts";
import { type Installation, identifyInstallation, installationWarning } from "./store/installation.ts";
import { dropLease, endLeases } from "./store/leases.ts";
import { type Migration, migrate, migrations, schemaVersion } from "./store/migrate.ts";
import { rateOf } from "./store/rates.ts";
import { lockStore } from "./store/sqlite/lock.ts";
import { openSqlite } from "./store/sqlite.ts";
import { reconsiderEscalations } from "./store/tables/escalations.ts";
import { hasTargets } from "./store/tables/responders.ts";

export interface App {
  readonly db: Database;
  readonly installation: Installation;
  readonly scheduler: Scheduler;
  readonly host: Host;
  /** The running agents. A reload replaces the map. */
  readonly agents: ReadonlyMap<string, RunningAgent>;
  /** Null when the configuration has no responders. */
  readonly policy: Policy | null;
  /** What the listener serves under /platform/ and /escalations/. */
  readonly web: {
    platform(request: Request): Promise<Response>;
    escalations(request: Request): Promise<Response>;
  };
  /** Replaces the agents and channels that changed. Returns the changed keys that require a restart. */
  reload(config: Config): Promise<readonly string[]>;
  /** Stops intake, waits up to `drainMs` for running work, and closes everything. */
  stop(drainMs: number): Promise<void>;
}

export interface AppOptions {
  readonly config: Config;
  /** URL of the platform: configured, or of the embedded one. */
  readonly platformUrl: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Public URL of the listener for providers. Known once it listens. */
  publicUrl(): string;
  /** Closes the sockets of a removed or replaced channel. Absent where no listener runs. */
  retire?(routes: readonly Route[]): Promise<void>;
  /** Opened by `openStore`; opened here when absent. Closed with the app, or when its start fails. */
  readonly store?: OpenedStore;
  /** Called with each hop of a message. Must not throw. */
  onHop?(hop: Hop): void;
  /** Counts the hops of messages. Default: a new one. */
  readonly statistics?: Statistics;
  /** Durations of tests. */
  readonly timing?: TimingOverrides;
}

export interface OpenedStore {
  readonly db: Database;
  readonly unlock: () => void;
  /** Identifies the installation and the generation of the store. */
  readonly installation: Installation;
}

/** Limit of one attachment in bytes. An adapter's own limit is usually lower. */
const mostBytes = 25 * 2 ** 20;

/** Opens the configured store without a lock and without migrations. For commands that run in parallel
 *  to the daemon. */
export async function openDatabase(
  { store }: Pick<Config, "store">,
  clock: Clock,
  timing: Timing = standardTiming,
): Promise<Database> {
  if (store.kind === "sqlite") return openSqlite(store.file, steadyNow(clock), { timing: timing.sqlite });
  // Loaded on demand to save memory: most daemons use SQLite.
  const { openPostgres } = await import("./store/postgres.ts");
  return openPostgres(store.url, { clock, timing: timing.postgres });
}

/** Opens the store exclusively (SQLite) or shared (PostgreSQL), migrates its schema, and identifies the
 *  installation and its generation. `steps` are the migrations; tests add their own. */
export async function openStore(
  config: Pick<Config, "store">,
  clock: Clock,
  log: Log,
  steps: readonly Migration[] = migrations,
  timing: Timing = standardTiming,
): Promise<OpenedStore> {
  const { store } = config;
  const file = store.kind === "sqlite" && store.file !== ":memory:" ? store.file : null;
  const unlock = store.kind === "sqlite" ? lockStore(store.file) : () => undefined;
  let db: Database;
  try {
    db = await openDatabase(config, clock, timing);
  } catch (error) {
    unlock();
    throw error;
  }
  try {
    if (file !== null) await copyIfOutdated(db, file, steps, clock, log);
    const applied = await migrate(db, steps);
    if (applied.length > 0) log.info({ migrations: applied }, "store schema migrated");
    // An SQLite store has one process, so all leases and sessions in it belong to a process that has ended.
    if (store.kind === "sqlite") {
      await db.tx(async (q) => {
        await endLeases(q);
        await loseSessions(q);
        if (await dropAfterPowerFailure(q)) log.info({}, "the machine was restarted: its calls have ended");
      });
    }
    const installation = await identifyInstallation(db, file);
    const warning = installation.changed ? installationWarning(installation) : null;
    const { cause } = installation;
    if (warning !== null)
      log.warn({ cause, store: store.kind, reason: warning }, "store replaced: open work is held");
    return { db, unlock, installation };
  } catch (error) {
    await db.close();
    unlock();
    throw error;
  }
}

/** Copies an existing store before a migration, because migrations cannot be undone. Throws, with
 *  nothing migrated, when the copy fails. */
async function copyIfOutdated(
  db: Database,
  file: string,
  steps: readonly Migration[],
  clock: Clock,
  log: Log,
): Promise<void> {
  const schema = await schemaVersion(db);
  if (schema === 0 || schema >= steps.length) return;
  const copy = copyBeforeMigration(file, schema, stampOf(clock.now()));
  log.info({ copy, schema }, "store copied before migration");
}

/** Resolves when every channel has been started. Channels may still be connecting. */
export async function startApp(options: AppOptions): Promise<App> {
  const { clock, log } = options;
  let { config } = options;
  const timing = timingWith(options.timing);
  const store = options.store ?? (await openStore(config, clock, log, migrations, timing));
  const { db } = store;
  const node = `${config.node}/${newToken(6)}`;
  const statistics = options.statistics ?? new Statistics();
  db.observe((report) => {
    reportCommit(report, log, statistics);
    for (const hop of report.hops) options.onHop?.(hop);
  });
  const { requests, per } = config.platform.rate;
  const rate = new RateReserve({
    db,
    clock,
    log,
    name: "platform",
    rate: rateOf(requests, per, timing.rate),
    timing,
  });
  const lives = new AbortController();

  // A responder may still reply after the policy was removed. The agent must not see that reply.
  let told = await db.read(hasTargets);
  const escalating = { policy: () => config.escalation, lines: () => host.lines(), clock, log, timing };
  const webhooks = { ...escalating, answerMs: timing.escalation.webhookAnswer };
  const escalation = new EscalationHandler({
    ...escalating,
    hasResponders: () => config.escalation !== null || told,
  });
  const pauses = new PauseWatch(log);
  const host = createHost({
    db,
    installation: store.installation,
    escalation,
    scheduler: () => scheduler,
    clock,
    log,
    node,
    timing,
    publicUrl: () => options.publicUrl(),
    statistics,
    retire: async (routes) => options.retire?.(routes),
    paused: (channel) => pauses.of(channel),
  });
  const { platformUrl } = options;
  const agents = createAgents({ db, platformUrl, rate, clock, log, timing, changed: () => scheduler.wake() });
  const deps = {
    lines: () => host.lines(),
    sessions: liveSessions(timing.calls),
    db,
    clock,
    log,
    node,
    timing,
  };
  const scheduler: Scheduler = new Scheduler({
    db,
    clock,
    log,
    timing,
    transactional: [
      routeStage({ ...deps, cancel: (key) => scheduler.cancel(key) }),
      platformWebhookStage(escalating),
      notifyStage({ ...escalating, link: (token) => linkTo(config.http.public_url, token) }),
      composeStage(deps),
      heartbeatStage(deps),
      pauses.stage(),
      healthStage({ ...escalating, pulses: () => pulsesOf(host, clock) }),
    ],
    stages: [
      askStage({
        ...deps,
        rate,
        timeout: config.platform.timeout,
        settleAfter: config.platform.absent_after,
      }),
      sendStage(deps),
      fetchStage({ ...deps, mostBytes }),
      pollStage({ ...escalating, db, rate, node }),
    ],
    capacity: (_stage, channel) => host.lines().get(channel)?.rules.concurrency ?? 0,
  });

  /** Builds all changed components before it modifies running ones. A failure leaves the running state
   *  unchanged. */
  async function apply(next: Config): Promise<void> {
    const nextAgents = await agents.prepare(next);
    let exchange: () => Promise<void>;
    try {
      exchange = await host.prepare([...next.channels, ...webhookChannels(next, webhooks)], (name) =>
        nextAgents.agent(name),
      );
    } catch (error) {
      await nextAgents.discard();
      throw error;
    }
    const using = [...host.lines().values()].filter((line) => nextAgents.replaced.includes(line.agent));
    const retire = nextAgents.begin();
    await exchange();
    retire(Promise.all(using.map(({ channel }) => scheduler.settled(channel))));
  }

  try {
    await apply(config);
  } catch (error) {
    await agents.close();
    await db.close();
    store.unlock();
    throw error;
  }
  await reconsider();
  const sweeping = scheduler.run(lives.signal);
  const registering = new WebhookRegistrations({
    db,
    policy: escalating.policy,
    agents: () => agents.running().values(),
    publicUrl: () => config.http.public_url,
    rate,
    clock,
    log,
    timing,
  });
  const registered = registering.run(lives.signal);
  const isAgent = (name: string) => agents.running().has(name);

  /** Applies the current policy to open escalations at once, before the next step that an earlier policy
   *  has scheduled. */
  async function reconsider(): Promise<void> {
    if (config.escalation === null) return;
    await db.tx(reconsiderEscalations).catch((error: unknown) => {
      log.warn({ err: error }, "open escalations use the new policy from their next step on");
    });
  }

  /** Releases the node lease, so that other nodes take over this node's calls before the lease expires. */
  async function leave(): Promise<void> {
    await db
      .tx((q) => dropLease(q, nodeLease(node), node))
      .catch((error: unknown) => log.warn({ err: error }, "releasing the node lease failed"));
  }

  return {
    db,
    installation: store.installation,
    scheduler,
    host,
    get agents() {
      return agents.running();
    },
    get policy() {
      return config.escalation;
    },
    web: {
      platform: platformWebhookHandler({
        policy: escalating.policy,
        isAgent,
        db,
        scheduler,
        clock,
        log,
        timing,
      }),
      escalations: linkHandler({ ...escalating, db, scheduler }),
    },
    async reload(next) {
      const restart = needRestart(options.config, next);
      await apply(next);
      told ||= config.escalation !== null;
      config = next;
      await reconsider();
      scheduler.wake();
      registering.wake();
      return restart;
    },
    async stop(drainMs) {
      await host.stop();
      await scheduler.drain(drainMs);
      await host.close();
      lives.abort();
      await Promise.all([sweeping, registered]);
      if (db.kind === "postgres") await leave();
      await agents.close();
      await db.close();
      store.unlock();
    },
  };
}

/** Returns the changed keys that require a restart. A running process can replace all others: agents,
 *  channels, retention, log.level. */
function needRestart(before: Config, after: Config): string[] {
  const keys = ["platform", "http", "console", "store", "heartbeat", "otlp", "node"] as const;
  const different = keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
  return before.log.format === after.log.format ? different : [...different, "log.format"];
}
