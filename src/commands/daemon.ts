// The running daemon: its background tasks, SIGHUP, and the data of /readyz. Ends when the service is asked to stop.

import type { Log } from "bridgehead/contract";
import type { App } from "../app.ts";
import {
  freeBytesOf,
  isReady,
  reportChannels,
  statusText,
  storeProblem,
  strandedWork,
  stuckChannels,
  waitingIn,
} from "../channels/readiness.ts";
import { type Config, type loadConfig, masking, type Problem, secretValues } from "../config/index.ts";
import { counted } from "../domain/duration-text.ts";
import { stricter } from "../domain/retention.ts";
import { alarmText, isSilenced } from "../escalation/alarm/decide.ts";
import { type AlarmDeps, logAlarm, readAlarm } from "../escalation/alarm/stage.ts";
import { askHealth } from "../http/health.ts";
import { systemClock as clock } from "../ops/clock.ts";
import type { RunningLog } from "../ops/log.ts";
import { allowOptimization, optimizeWhenBusy, tidyAfterStart } from "../ops/memory.ts";
import type { Statistics } from "../ops/statistics.ts";
import { type Notifier, runWatchdog } from "../ops/systemd.ts";
import { TaskGroup } from "../ops/tasks.ts";
import type { Timing } from "../ops/timing.ts";
import type { RunningAgent } from "../pipeline/settings.ts";
import { advanceGeneration, installationWarning } from "../store/installation.ts";
import { overview, proveWritable } from "../store/operators/overview.ts";
import { answeredBefore, countHeld } from "../store/restored.ts";
import { forget, type RetentionRules } from "../store/retention.ts";
import { deleteOldCopies } from "../store/sqlite/copies.ts";
import { aborted, type Io, problemLine } from "./io.ts";
import { type ReloadOutcome, recordReload } from "./reload.ts";
import { beat } from "./running/heartbeat.ts";
import { LogLevels } from "./running/log-level.ts";

/** What is needed to start the parts of the daemon. */
export interface Service {
  /** The configuration that the app is started with. */
  readonly config: Config;
  readonly log: RunningLog;
  readonly timing: Timing;
  readonly statistics: Statistics;
  readonly notifier: Notifier;
  readonly io: Io;
  readonly load: () => ReturnType<typeof loadConfig>;
}

/** Everything outside the app that lives as long as the service. */
export class Daemon {
  readonly #app: App;
  readonly #service: Service;
  /** URL of the listener itself. */
  readonly #url: string;
  /** Gives the embedded platform the agents of a configuration, and returns a function that gives it the earlier ones
   *  again, as they were read. Rejects when one is invalid. */
  readonly #redefine: (config: Config) => Promise<() => void>;
  /** The configuration as last loaded. */
  #config: Config;
  readonly #logLevels: LogLevels;

  constructor(app: App, service: Service, url: string, redefine: (config: Config) => Promise<() => void>) {
    this.#app = app;
    this.#service = service;
    this.#url = url;
    this.#redefine = redefine;
    this.#config = service.config;
    this.#logLevels = new LogLevels(service.log, () => this.#config.log.level, clock);
  }

  /** Reports READY after the first connection attempts. Resolves when the service is asked to stop. */
  async run(): Promise<void> {
    const { notifier, log, io, timing } = this.#service;
    const tasks = new TaskGroup(io.signal, { clock, log, timing: timing.health });
    let reloading = Promise.resolve();
    // A terminal that closes after Ctrl-C sends one during the shutdown, which must not start channels.
    io.onHangup(() => {
      if (!io.signal.aborted) reloading = reloading.then(() => this.#reload());
    });
    try {
      await this.#firstTries();
      allowOptimization();
      if (io.signal.aborted) return; // SIGTERM during the start: READY would be wrong
      const channels = reportChannels(this.#app.host, this.#app.agents);
      log.info({ channels: channels.length }, "ready");
      await notifier.ready(statusText(channels, 0));
      if (io.signal.aborted) return; // SIGTERM while systemd was notified
      this.#noteReload({ result: "applied", lines: [] });
      this.#startTasks(tasks);
      await aborted(io.signal);
    } finally {
      await reloading;
      await tasks.stop();
    }
  }

  #startTasks(tasks: TaskGroup): void {
    const { notifier, log, timing, statistics } = this.#service;
    const app = this.#app;
    tasks.start("memory", (signal) => tidyAfterStart(clock, timing.startup.quiet, signal), {
      restart: "never",
    });
    const { busy: busyMs, busyCheck: checkMs } = timing.startup;
    tasks.start("optimization", (signal) => optimizeWhenBusy(clock, { busyMs, checkMs }, signal), {
      restart: "never",
    });
    tasks.start("alarm", (signal) => logAlarm({ ...alarmed(app), clock, log, timing }, signal));
    if (notifier.isUsed) tasks.start("status", (signal) => this.#reportStatus(signal));
    tasks.start("log-level", (signal) => this.#logLevels.follow(app.db, timing.upkeep, signal));
    const { heartbeat } = this.#config;
    if (heartbeat !== null) {
      const ready = async () => (await readiness(app, this.#config, timing)).ready;
      const options = { ...heartbeat, timeout: timing.upkeep.heartbeat, clock, log, ready, statistics };
      tasks.start("heartbeat", (signal) => beat(options, signal));
    }
    tasks.start("store-check", (signal) => app.check.run(signal), { restart: "never" });
    tasks.start("generation", (signal) => this.#keepGeneration(signal));
    tasks.start("retention", (signal) => this.#keepRetention(signal));
    if (notifier.watchdogMs === null) return;
    const watchdog = {
      clock,
      log,
      timing: timing.health,
      intervalMs: notifier.watchdogMs,
      feed: () => notifier.watchdog(),
      probes: {
        "the store": () => app.db.tx(proveWritable),
        "the listener": (signal: AbortSignal) => askHealth(this.#url, signal),
      },
      stuck: () => stuckChannels(app.host, clock, timing.channels.stuck),
    };
    tasks.start("watchdog", (signal) => runWatchdog(watchdog, signal));
  }

  /** Waits until every channel has tried to connect once, or for `timing.startup.firstConnections`. */
  async #firstTries(): Promise<void> {
    const { io, timing } = this.#service;
    const { firstConnections, firstConnectionsCheck } = timing.startup;
    const began = clock.monotonic();
    const trying = () =>
      this.#app.host.running().some(({ state }) => state.status.state === "connecting" && !state.isStandby);
    while (trying() && clock.monotonic() - began < firstConnections && !io.signal.aborted)
      await clock.sleep(firstConnectionsCheck, io.signal);
  }

  async #reportStatus(signal: AbortSignal): Promise<void> {
    const { notifier, timing } = this.#service;
    while (!signal.aborted) {
      await notifier.status(await this.#status(waitingIn(await this.#app.db.read(overview))));
      await clock.sleep(timing.upkeep.status, signal);
    }
  }

  async #status(waiting: number): Promise<string> {
    const alarm = await readAlarm(alarmed(this.#app));
    return alarmText(alarm) + statusText(reportChannels(this.#app.host, this.#app.agents), waiting);
  }

  async #keepRetention(signal: AbortSignal): Promise<void> {
    const { db } = this.#app;
    const timing = this.#service.timing.upkeep;
    // One small batch per transaction, so that a large clean-up never blocks the store for long.
    const batch = async (): Promise<boolean> => {
      const rules = retentionRules(this.#config, this.#app.agents);
      const counts = await db.tx((q) => forget(q, rules, timing.retentionRecheck));
      return Object.values(counts).some((count: number) => count > 0);
    };
    // A clock that is ahead when the machine starts is corrected by then. What it makes old is not erased.
    await clock.sleep(timing.retentionFirst, signal);
    while (!signal.aborted) {
      await this.#deleteCopies();
      while (!signal.aborted && (await batch())) await clock.sleep(timing.retentionPause, signal);
      while (!signal.aborted && (await db.maintain())) await clock.sleep(timing.maintenancePause, signal);
      await clock.sleep(timing.retention, signal);
    }
  }

  /** Deletes old copies next to the databases: raw messages are in them. */
  async #deleteCopies(): Promise<void> {
    const { config, log, timing } = this.#service;
    const rules = retentionRules(this.#config, this.#app.agents);
    const raw = [rules, ...(rules.channels?.values() ?? []), ...(rules.agents?.values() ?? [])].map(
      ({ rawMs }) => rawMs,
    );
    const age = Math.max(timing.upkeep.copiesLeast, Math.min(...raw));
    for (const file of sqliteFilesOf(config.store, config.platform.embedded?.database)) {
      try {
        for (const copy of await deleteOldCopies(file, age, clock.now()))
          log.info({ copy }, "old copy of the store deleted");
      } catch (error) {
        log.warn({ err: error, store: file }, "deleting an old copy of the store failed");
      }
    }
  }

  /** Advances the generation regularly, so that the next start detects a store that was replaced by an older copy. */
  async #keepGeneration(signal: AbortSignal): Promise<void> {
    const { config, log, timing } = this.#service;
    const { store } = config;
    if (store.kind !== "sqlite" || store.file === ":memory:") return;
    for (;;) {
      await clock.sleep(timing.upkeep.generation, signal);
      if (signal.aborted) return;
      await advanceGeneration(this.#app.db, store.file, this.#app.installation.id).catch((error: unknown) =>
        log.warn({ err: error }, "updating the installation file failed"),
      );
    }
  }

  /** Handles SIGHUP. An error leaves the running state unchanged. Never rejects. */
  async #reload(): Promise<void> {
    const { notifier } = this.#service;
    await notifier.reloading();
    const outcome = await this.#tryReload();
    const channels = () => statusText(reportChannels(this.#app.host, this.#app.agents), 0);
    await notifier.ready(await this.#status(0).catch(channels));
    // Written last: it ends systemd's reload command, and systemd must have received READY before.
    this.#noteReload(outcome);
  }

  async #tryReload(): Promise<ReloadOutcome> {
    const { load, log } = this.#service;
    try {
      const next = await load();
      if (!next.ok) {
        const lines = next.problems.map(problemLine);
        for (const problem of lines) log.error({ problem }, "configuration problem");
        log.error({ problems: next.problems.length }, "configuration rejected, the old one stays in use");
        return { result: "rejected", lines };
      }
      logWarnings(log, next.warnings);
      const secrets = secretValues(next.config);
      log.setMask(masking([...secretValues(this.#config), ...secrets]));
      const restart = await this.#apply(next.config);
      this.#config = next.config;
      log.setMask(masking(secrets));
      this.#logLevels.reset();
      log.info({ channels: next.config.channels.length }, "configuration reloaded");
      if (restart.length === 0) return { result: "applied", lines: [] };
      log.warn({ keys: restart }, "these keys take effect at the next restart");
      const keys = restart.join(", ");
      return { result: "applied", lines: [`these keys take effect at the next restart: ${keys}`] };
    } catch (error) {
      log.error({ err: error }, "reloading the configuration failed, the old one stays in use");
      return { result: "failed", lines: [error instanceof Error ? error.message : String(error)] };
    }
  }

  /** Replaces what the configuration has changed. Returns the keys that take effect at the next restart. After an error
   *  everything is as before. */
  async #apply(next: Config): Promise<readonly string[]> {
    // First, because the app reads the settings of its new agents with the new keys.
    const restoreAgents = await this.#redefine(next);
    try {
      return await this.#app.reload(next);
    } catch (error) {
      // The running clients have the keys of the earlier agents.
      restoreAgents();
      throw error;
    }
  }

  #noteReload(outcome: ReloadOutcome): void {
    try {
      recordReload(this.#service.io.env, outcome);
    } catch (error) {
      this.#service.log.warn({ err: error }, "recording the outcome of a reload failed");
    }
  }
}

export function logWarnings(log: Log, warnings: readonly Problem[]): void {
  for (const { key, line, message, fix } of warnings)
    log.warn({ key, line, reason: message, fix }, "configuration warning");
}

/** Returns the SQLite files of the store and of the embedded platform. */
export const sqliteFilesOf = (store: Config["store"], embedded: string | null | undefined): string[] =>
  [store.kind === "sqlite" ? store.file : ":memory:", embedded ?? ":memory:"].filter((file) => file !== ":memory:");

/** Returns why the store cannot be written, and its warnings, for /readyz and the console. */
export async function storeState(app: App, { store }: Config, timing: Timing) {
  const problem = app.db.damage() ?? (await storeProblem(app.db, clock, freeBytesOf(store), timing.health.store));
  if (problem !== null) return { problem, warnings: [] };
  return { problem, warnings: await storeWarnings(app, timing.upkeep) };
}

/** Returns the ages of all data: those of the configuration, or of the agent's DATA_RETENTION skill where it is stricter. */
export function retentionRules(
  { retention, channels }: Pick<Config, "retention" | "channels">,
  agents: ReadonlyMap<string, Pick<RunningAgent, "state">>,
): RetentionRules {
  const { raw, events } = retention;
  const configured = { rawMs: raw, eventsMs: events, peopleMs: events };
  const ages = (agent: string) => stricter(configured, agents.get(agent)?.state.settings?.retention);
  return {
    ...configured,
    channels: new Map(channels.map(({ id, core }) => [id, ages(core.agent)])),
    agents: new Map([...agents.keys()].map((agent) => [agent, ages(agent)])),
  };
}

/** Returns warnings about the store for the operator. */
async function storeWarnings(
  { db, installation }: App,
  { storeChanged }: Timing["upkeep"],
): Promise<readonly string[]> {
  const held = await db.read(countHeld);
  const changed = installationWarning(installation);
  const isRecent = clock.now() - installation.since < storeChanged;
  const warning = changed !== null && (isRecent || held.messages + held.replies > 0) ? [changed] : [];
  if (held.messages + held.replies === 0) return warning;
  const counts = `${counted(held.messages, "message")} and ${counted(held.replies, "reply", "replies")} are held as ${answeredBefore}`;
  return [
    ...warning,
    `${counts}: see inbox list --code ${answeredBefore}, then inbox answer --all or inbox drop --all`,
  ];
}

/** Data of /readyz; open escalations come first. */
export async function readiness(app: App | null, config: Config, timing: Timing) {
  if (!app) return { ready: false, reason: "starting" };
  const channels = reportChannels(app.host, app.agents);
  try {
    const { problem, warnings } = await storeState(app, config, timing);
    if (problem !== null) return { ready: false, channels, store: problem };
    const alarm = await readAlarm(alarmed(app));
    const ready = isReady(channels) && !isSilenced(alarm);
    const store = await app.db.read(overview);
    const all = [...warnings, ...strandedWork(store, (channel) => app.host.lines.has(channel))];
    const escalations = alarm && { escalations: { says: alarmText(alarm), ...alarm } };
    return { ...escalations, ready, ...(all.length > 0 && { warnings: all }), channels, store };
  } catch (error) {
    return { ready: false, channels, store: `cannot be read: ${String(error)}` };
  }
}

/** A connecting channel does not count as down. */
export const alarmed = (app: App): AlarmDeps => ({
  db: app.db,
  policy: () => app.policy,
  isDown: (channel) => {
    const state = app.host.running().find(({ config }) => config.id === channel)?.state.status.state;
    return state !== "ready" && state !== "connecting";
  },
});
