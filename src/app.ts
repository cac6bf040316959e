// The composition root: builds all components in order, stops them in reverse order, and replaces what a
// reload changed.

import type { Clock, Log, Route } from "bridgehead/contract";
import { heartbeatStage } from "./calls/heartbeat/stage.ts";
import { dropAfterPowerFailure } from "./calls/power-failure-rows.ts";
import { loseSessions } from "./calls/rows.ts";
import { CallSessions } from "./calls/sessions.ts";
import { AgentSet } from "./channels/agents.ts";
import { Host } from "./channels/host.ts";
import { PauseWatch } from "./channels/pause-watch.ts";
import { freeBytesOf, pulsesOf, watchDisk } from "./channels/readiness.ts";
import type { Config } from "./config/index.ts";
import type { Policy } from "./domain/policy.ts";
import { Scheduler } from "./engine/scheduler.ts";
import type { EscalationCore } from "./escalation/actions.ts";
import { healthStage } from "./escalation/health/stage.ts";
import { linkTo } from "./escalation/link/page.ts";
import { linkHandler } from "./escalation/link/stage.ts";
import { notifyStage } from "./escalation/notify/stage.ts";
import { WebhookRegistrations } from "./escalation/platform-webhook/registration.ts";
import { platformWebhookHandler, platformWebhookStage } from "./escalation/platform-webhook/stage.ts";
import { pollStage } from "./escalation/poll/stage.ts";
import { EscalationHandler } from "./escalation/trigger/stage.ts";
import { webhookChannels } from "./escalation/webhook/adapter.ts";
import { endsWithin, newToken, steadyNow } from "./ops/clock.ts";
import type { Hop } from "./ops/hops.ts";
import { reportCommit, Statistics } from "./ops/statistics.ts";
import { type Timing, type TimingOverrides, timingWith } from "./ops/timing.ts";
import { askStage } from "./pipeline/ask/stage.ts";
import { composeStage } from "./pipeline/compose/stage.ts";
import { fetchStage } from "./pipeline/fetch/stage.ts";
import { routeStage } from "./pipeline/route/stage.ts";
import { sendStage } from "./pipeline/send/stage.ts";
import type { RunningAgent } from "./pipeline/settings.ts";
import { copyBeforeMigration } from "./store/backup.ts";
import type { Core, Database } from "./store/driver.ts";
import { aheadOfClock, hastenDue, reconsiderWaiting } from "./store/due.ts";
import { type Installation, identifyInstallation, installationWarning } from "./store/installation.ts";
import { dropLease, endLeases, nodeLease } from "./store/leases.ts";
import { type Migration, migrate, migrations, schemaVersion } from "./store/migrate.ts";
import { RateReserve, rateOf } from "./store/rates.ts";
import { StoreCheck } from "./store/sqlite/check.ts";
import { stampOf } from "./store/sqlite/copies.ts";
import { lockStore } from "./store/sqlite/lock.ts";
import { openSqlite } from "./store/sqlite.ts";
import { hasTargets } from "./store/tables/responders.ts";

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
  timing: Timing,
  log?: Log,
  now = steadyNow(clock),
): Promise<Database> {
  if (store.kind === "sqlite") return openSqlite(store.file, now, { timing: timing.sqlite });
  // Loaded on demand to save memory: most daemons use SQLite.
  const { openPostgres } = await import("./store/postgres.ts");
  return openPostgres(store.url, { clock, timing: timing.postgres, log });
}

/** Opens the store exclusively (SQLite) or shared (PostgreSQL), migrates its schema, and identifies the
 *  installation and its generation. `steps` are the migrations; tests add their own. */
export async function openStore(
  config: Pick<Config, "store">,
  clock: Clock,
  log: Log,
  timing: Timing,
  steps: readonly Migration[] = migrations,
): Promise<OpenedStore> {
  const { store } = config;
  const file = store.kind === "sqlite" && store.file !== ":memory:" ? store.file : null;
  const unlock = store.kind === "sqlite" ? lockStore(store.file) : () => undefined;
  let db: Database;
  const most = timing.sqlite.clockStep;
  const stepped = (ms: number) =>
    void db
      .tx((q) => hastenDue(q, ms))
      .then(
        () => log.warn({ step_ms: Math.round(ms) }, "clock went back: due times were moved with it"),
        (error: unknown) =>
          log.error({ step_ms: Math.round(ms), err: error }, "clock went back: moving the due times failed"),
      );
  try {
    db = await openDatabase(config, clock, timing, log, steadyNow(clock, { most, stepped }));
  } catch (error) {
    unlock();
    throw error;
  }
  try {
    if (file !== null) await copyIfOutdated(db, file, steps, clock, log, timing.sqlite.busy);
    const applied = await migrate(db, steps);
    if (applied.length > 0) log.info({ migrations: applied }, "store schema migrated");
    // An SQLite store has one process, so all leases and sessions in it belong to a process that has ended.
    if (store.kind === "sqlite") {
      await db.tx(async (q) => {
        await endLeases(q);
        const lost = await loseSessions(q);
        if (lost > 0) log.info({ sessions: lost }, "daemon restarted: its calls are lost");
        if (await dropAfterPowerFailure(q)) log.info({}, "the machine was restarted: its calls have ended");
        const ahead = await aheadOfClock(q);
        if (ahead <= most) return;
        await hastenDue(q, ahead);
        log.warn({ step_ms: ahead }, "clock went back: due times were moved with it");
      });
    }
    const installation = await identifyInstallation(db, file, timing.commands.copying);
    const warning = installation.changed ? installationWarning(installation) : null;
    const { cause } = installation;
    if (warning !== null) log.warn({ cause, store: store.kind, reason: warning }, "store replaced: open work is held");
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
  busyMs: number,
): Promise<void> {
  const schema = await schemaVersion(db);
  if (schema === 0 || schema >= steps.length) return;
  const copy = copyBeforeMigration(file, schema, stampOf(clock.now()), busyMs);
  log.info({ copy, schema }, "store copied before migration");
}

/** Resolves when every channel has been started. Channels may still be connecting. */
export async function startApp(options: AppOptions): Promise<App> {
  const timing = timingWith(options.timing);
  const { config, clock, log } = options;
  const store = options.store ?? (await openStore(config, clock, log, timing));
  // A responder may still reply after the policy was removed. The agent must not see that reply.
  const app = new App(options, store, timing, await store.db.read(hasTargets));
  await app.start();
  return app;
}

export class App {
  readonly db: Database;
  readonly installation: Installation;
  readonly check: StoreCheck;
  readonly scheduler: Scheduler;
  readonly host: Host;
  /** What the listener serves under /platform/ and /escalations/. */
  readonly web: {
    platform(request: Request): Promise<Response>;
    escalations(request: Request): Promise<Response>;
  };
  readonly #core: Core;
  readonly #options: AppOptions;
  readonly #unlock: () => void;
  readonly #rate: RateReserve;
  readonly #pauses: PauseWatch;
  readonly #agents: AgentSet;
  readonly #registering: WebhookRegistrations;
  /** What the parts of the escalation share. */
  readonly #escalating: Core & EscalationCore;
  readonly #lives = new AbortController();
  #running: readonly Promise<void>[] = [];
  /** True when responders are configured or were. */
  #hasResponders: boolean;
  #config: Config;

  /** `hadTargets`: responders were notified before this start. */
  constructor(options: AppOptions, store: OpenedStore, timing: Timing, hadTargets: boolean) {
    const { clock, log, config, statistics = new Statistics() } = options;
    const { db } = store;
    this.db = db;
    this.installation = store.installation;
    this.#options = options;
    this.#config = config;
    this.#unlock = store.unlock;
    const core = { db, clock, log, node: `${config.node}/${newToken(6)}`, timing };
    this.#core = core;
    this.check = new StoreCheck(core);
    this.#hasResponders = hadTargets || config.escalation !== null;
    db.observe((report) => {
      reportCommit(report, log, statistics);
      for (const hop of report.hops) options.onHop?.(hop);
    });
    const { requests, per } = config.platform.rate;
    const limit = rateOf(requests, per, timing.rate);
    this.#rate = new RateReserve({ ...core, name: "platform", rate: limit });
    this.#pauses = new PauseWatch(log);
    const policy = () => this.#config.escalation;
    this.#escalating = { ...core, policy, lines: () => this.host.lines };
    this.host = new Host(core, {
      installation: store.installation,
      config: config.file,
      escalation: new EscalationHandler({ ...this.#escalating, hasResponders: () => this.#hasResponders }),
      scheduler: () => this.scheduler,
      publicUrl: () => options.publicUrl(),
      statistics,
      retire: async (routes) => options.retire?.(routes),
      paused: (channel) => this.#pauses.of(channel),
    });
    const { platformUrl } = options;
    const changed = () => this.scheduler.wake();
    this.#agents = new AgentSet({ ...core, platformUrl, rate: this.#rate, changed });
    this.scheduler = this.#createScheduler();
    // A changed one takes effect at a restart, here as in the adapters, so that all links lead to the same place.
    const publicUrl = () => config.http.public_url;
    const agents = () => this.agents.values();
    this.#registering = new WebhookRegistrations({ ...core, policy, agents, publicUrl, rate: this.#rate });
    const isAgent = (name: string) => this.agents.has(name);
    const { scheduler } = this;
    this.web = {
      platform: platformWebhookHandler({ ...this.#escalating, isAgent, scheduler }),
      escalations: linkHandler({ ...this.#escalating, scheduler }),
    };
  }

  /** The running agents. A reload replaces the map. */
  get agents(): ReadonlyMap<string, RunningAgent> {
    return this.#agents.running;
  }

  /** Null when the configuration has no responders. */
  get policy(): Policy | null {
    return this.#config.escalation;
  }

  /** Called once. Closes the store when the channels cannot be started. */
  async start(): Promise<void> {
    try {
      await this.db.hold(this.#core.node);
      await this.check.begin();
      await this.#apply(this.#config);
    } catch (error) {
      await this.#close();
      throw error;
    }
    await this.#reconsider();
    const { signal } = this.#lives;
    this.#running = [this.scheduler.run(signal), this.#registering.run(signal)];
  }

  /** Replaces the agents and channels that changed. Returns the changed keys that require a restart. */
  async reload(next: Config): Promise<readonly string[]> {
    const restart = needRestart(this.#options.config, next);
    await this.#apply(next);
    this.#hasResponders ||= this.#config.escalation !== null || next.escalation !== null;
    this.#config = next;
    await this.#reconsider();
    this.scheduler.wake();
    this.#registering.wake();
    return restart;
  }

  /** Stops intake, waits up to `drainMs` for running work, and closes everything. Never resolves while an adapter ignores the
   *  signal of its work; see `unended`. */
  async stop(drainMs: number): Promise<void> {
    const { clock } = this.#core;
    const end = clock.monotonic() + drainMs;
    const stopped = this.host.stop();
    await endsWithin(stopped, drainMs, clock);
    await this.scheduler.drain(Math.max(0, end - clock.monotonic()));
    await stopped;
    await this.host.close();
    this.#lives.abort();
    await Promise.all(this.#running);
    if (this.db.kind === "postgres") await this.#leave();
    await this.check.end();
    await this.#close();
  }

  /** Call during a stop. Returns the channels whose adapter has not ended its reading or its work. */
  async unended(): Promise<string[]> {
    const channels = this.host.running().map(async (channel) => {
      const { id } = channel.config;
      const ended = Promise.all([channel.stop(), this.scheduler.idle(id)]);
      return (await endsWithin(ended, 0, this.#core.clock)) ? [] : [id];
    });
    return (await Promise.all(channels)).flat();
  }

  #createScheduler(): Scheduler {
    const { platform, http } = this.#options.config;
    const lines = () => this.host.lines;
    const core = this.#core;
    const rate = this.#rate;
    const deps = { ...core, lines, sessions: new CallSessions(core.timing.calls) };
    const escalating = this.#escalating;
    const isConfirmed = (agent: string) => this.#agents.isConfirmed(agent);
    const diskProblem = watchDisk(freeBytesOf(this.#options.config.store));
    const limits = { timeout: platform.timeout, absentAfter: platform.absent_after };
    return new Scheduler({
      ...core,
      transactional: [
        routeStage({ ...deps, cancel: (key) => this.scheduler.cancel(key) }),
        platformWebhookStage(escalating),
        notifyStage({ ...escalating, link: (token) => linkTo(http.public_url, token) }),
        composeStage(deps),
        heartbeatStage(core),
        this.#pauses.stage(),
        healthStage({ ...escalating, pulses: () => pulsesOf(this.host, core.clock, { isConfirmed, diskProblem }) }),
      ],
      stages: [
        askStage({ ...deps, rate, ...limits }),
        sendStage(deps),
        fetchStage({ ...deps, mostBytes }),
        pollStage({ ...escalating, rate }),
      ],
      capacity: (_stage, channel) => lines().get(channel)?.rules.concurrency ?? 0,
    });
  }

  /** Builds all changed components before it modifies running ones. A failure leaves the running state unchanged. */
  async #apply(next: Config): Promise<void> {
    const channels = [...next.channels, ...webhookChannels(next, this.#escalating)];
    const agents = await this.#agents.prepare(next);
    let exchange: () => Promise<void>;
    try {
      exchange = await this.host.prepare(channels, (name) => agents.agent(name));
    } catch (error) {
      await agents.discard();
      throw error;
    }
    const using = [...this.host.lines.values()].filter((line) => agents.replaced.includes(line.agent));
    const retire = agents.begin();
    await exchange();
    retire(Promise.all(using.map(({ channel }) => this.scheduler.idle(channel))));
  }

  /** Applies the configuration at once to what waits by the rules of an earlier one. */
  async #reconsider(): Promise<void> {
    const hasPolicy = this.policy !== null;
    await this.db
      .tx((q) => reconsiderWaiting(q, hasPolicy))
      .catch((error: unknown) =>
        this.#options.log.warn({ err: error }, "what waits uses the new configuration from its next step on"),
      );
  }

  /** Releases the node lease, so that other nodes take over this node's calls before the lease expires. */
  async #leave(): Promise<void> {
    await this.db
      .tx((q) => dropLease(q, nodeLease(this.#core.node), this.#core.node))
      .catch((error: unknown) => this.#options.log.warn({ err: error }, "releasing the node lease failed"));
  }

  async #close(): Promise<void> {
    await this.#agents.close();
    try {
      await this.db.close();
    } finally {
      this.#unlock();
    }
  }
}

/** Returns the changed keys that require a restart. A running process can replace all others: agents,
 *  channels, retention, log.level. */
function needRestart(before: Config, after: Config): string[] {
  const keys = ["platform", "http", "console", "store", "heartbeat", "otlp", "node"] as const;
  const different = keys.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
  return before.log.format === after.log.format ? different : [...different, "log.format"];
}
