// bridgehead run: the daemon, from its configuration file until SIGTERM.

import { statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { type App, startApp } from "../app.ts";
import { defineGauges } from "../channels/gauges.ts";
import { loadAdapter } from "../channels/loader.ts";
import {
  isReady,
  reportChannels,
  statusText,
  storeProblem,
  stuckChannels,
  waitingIn,
} from "../channels/readiness.ts";
import { type Config, loadConfig, secretValues } from "../config/index.ts";
import { type Alarm, alarmText, isSilenced } from "../escalation/alarm/decide.ts";
import { type AlarmDeps, defineAlarmGauges, logAlarm, readAlarm } from "../escalation/alarm/stage.ts";
import { askHealth, type Listener, startListener } from "../http/index.ts";
import { systemClock as clock } from "../ops/clock.ts";
import { createLog, type RunningLog } from "../ops/log.ts";
import { allowOptimization, tidyAfterStart } from "../ops/memory.ts";
import type { Metrics } from "../ops/metrics.ts";
import { createNotifier, isJournal, type Notifier, runWatchdog } from "../ops/systemd.ts";
import { taskGroup } from "../ops/tasks.ts";
import { standardTiming, type Timing } from "../ops/timing.ts";
import { advanceGeneration, type Installation, installationWarning } from "../store/installation.ts";
import { answeredBefore, countHeld } from "../store/restored.ts";
import { type Forgotten, forget } from "../store/retention.ts";
import { overview } from "../store/tables/overview.ts";
import { embeddedPlatform } from "./embedded.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { problemLine } from "./problem.ts";
import { reachStore } from "./reach-store.ts";
import { type ReloadOutcome, recordReload } from "./reload.ts";

/** Runs the daemon until `io.signal` aborts. Returns the exit code. Tests pass other durations. */
export async function run(
  options: { readonly config: string },
  io: Io,
  timing: Timing = standardTiming,
): Promise<number> {
  const path = resolve(io.cwd, options.config);
  const load = () => loadConfig(path, { env: io.env, adapters: loadAdapter });
  const loaded = await load();
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    return exitCodes.config;
  }
  const { config } = loaded;
  const log = createLog({
    level: config.log.level,
    format: config.log.format,
    out: process.stderr,
    clock,
    journal: isJournal(io.env["JOURNAL_STREAM"], 2),
  });
  log.setSecrets(secretValues(config));
  io.onCrash((error) => log.error({ err: error }, "uncaught exception (a defect)"));
  for (const warning of loaded.warnings)
    log.warn({ key: warning.key, line: warning.line, fix: warning.fix }, warning.message);

  const notifier = createNotifier(io.env, log, timing.health);
  const platform = await embeddedPlatform(config, clock, log);
  let app: App | null = null;
  let listener: Listener | null = null;
  try {
    listener = await startListener({
      listen: config.http.listen,
      adminListen: config.http.admin_listen,
      clock,
      log,
      timing: timing.http,
      publicUrl: config.http.public_url,
      routes: (channel) =>
        app?.host.running().find((running) => running.config.id === channel)?.adapter.routes ?? null,
      serving: () => app !== null,
      platform: (request) => webOf(app).platform(request),
      escalations: (request) => webOf(app).escalations(request),
      ready: async () => readiness(app, config, timing),
      metrics: scraper(
        () => app,
        () => listener,
      ),
    });
    const { publicUrl, url } = listener;
    log.info({ url, admin_url: listener.adminUrl }, "listening for http");
    // Without a listener SIGHUP would end the process, and the wait for the store may take long.
    io.onHangup(() => {
      if (!app) log.warn({}, "the configuration was not reloaded: the daemon is still starting");
    });
    const store = await reachStore(config, { clock, log, timing, notifier, signal: io.signal });
    if (!store) return exitCodes.ok;
    app = await startApp({
      config,
      store,
      platformUrl: platform?.url ?? config.platform.url,
      clock,
      log,
      timing,
      publicUrl: () => publicUrl,
      retire: async (routes) => listener?.retire(routes),
    });
    await serve(app, { config, url, load, notifier, log, io, timing });
    await notifier.stopping();
    return exitCodes.ok;
  } finally {
    const began = clock.monotonic();
    // Calls end first: their last utterances are still answered and stored.
    await listener?.drain();
    await app?.stop(Math.max(0, timing.shutdown.drain - (clock.monotonic() - began)));
    await listener?.close();
    await platform?.close();
    log.info({}, "stopped");
  }
}

/** Returns the handler of a scrape. The first one creates the metrics, so that a daemon without scrapes does not load
 *  their packages. Before the app has started, only the process is measured. */
function scraper(
  running: () => App | null,
  listener: () => Listener | null,
): () => ReturnType<Metrics["expose"]> {
  let creating: Promise<Metrics> | undefined;
  let defined = false;
  return async () => {
    creating ??= import("../ops/metrics.ts").then(({ createMetrics }) => createMetrics());
    const metrics = await creating;
    const [app, listening] = [running(), listener()];
    if (app && listening && !defined) {
      defined = true;
      defineGauges(metrics, app, clock);
      defineAlarmGauges(metrics, alarmed(app));
      defineSocketGauge(metrics, listening);
    }
    return metrics.expose();
  };
}

function defineSocketGauge(metrics: Metrics, listener: Listener): void {
  metrics.gauge({
    name: "sockets",
    help: "Websockets open or being let in.",
    sample: (gauge) => gauge.set(listener.sockets()),
  });
}

interface Service {
  /** The configuration as last loaded. */
  config: Config;
  /** URL of the listener itself. */
  readonly url: string;
  readonly load: () => ReturnType<typeof loadConfig>;
  readonly notifier: Notifier;
  readonly log: RunningLog;
  readonly io: Io;
  readonly timing: Timing;
}

/** Runs everything outside the app that lives as long as the service. Resolves when the service is asked
 *  to stop. */
async function serve(app: App, service: Service): Promise<void> {
  const { notifier, log, io, timing } = service;
  const tasks = taskGroup(io.signal, { clock, log, timing: timing.health });
  const ended = new Promise<void>((done) => {
    if (io.signal.aborted) done();
    io.signal.addEventListener("abort", () => done(), { once: true });
  });
  let reloading = Promise.resolve();
  io.onHangup(() => {
    reloading = reloading.then(() => reload(app, service));
  });
  try {
    await firstTries(app, timing.startup, io.signal);
    allowOptimization();
    if (io.signal.aborted) return; // SIGTERM during the start: READY would be wrong
    const channels = reportChannels(app.host, app.agents);
    log.info({ channels: channels.length }, "ready");
    await notifier.ready(statusText(channels, 0));
    noteReload(service, { result: "applied", lines: [] });
    tasks.start("memory", (signal) => tidyAfterStart(clock, timing.startup.quiet, signal), {
      restart: "never",
    });
    tasks.start("alarm", (signal) => logAlarm({ ...alarmed(app), clock, log, timing }, signal));
    tasks.start("status", (signal) => tellStatus(app, service, signal));
    tasks.start("generation", (signal) => keepGeneration(app, service, signal));
    tasks.start("retention", (signal) => keepTidy(app, service, signal));
    if (notifier.watchdogMs !== null) {
      const watchdog = {
        clock,
        log,
        timing: timing.health,
        intervalMs: notifier.watchdogMs,
        feed: () => notifier.watchdog(),
        probes: {
          "the store": async () =>
            void (await app.db.tx((q) => q.run("UPDATE meta SET value = value WHERE name = 'schema'"))),
          "the listener": (signal: AbortSignal) => askHealth(service.url, signal),
        },
        stuck: () => stuckChannels(app.host, clock, timing.channels.stuck),
      };
      tasks.start("watchdog", (signal) => runWatchdog(watchdog, signal));
    }
    await ended;
  } finally {
    await reloading;
    await tasks.stop();
  }
}

async function firstTries(
  app: App,
  { firstConnections, firstConnectionsCheck }: Timing["startup"],
  signal: AbortSignal,
): Promise<void> {
  const began = clock.monotonic();
  const trying = () =>
    app.host.running().some(({ state, standby }) => state.status.state === "connecting" && !standby);
  while (trying() && clock.monotonic() - began < firstConnections && !signal.aborted)
    await clock.sleep(firstConnectionsCheck, signal);
}

async function tellStatus(app: App, { notifier, timing }: Service, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await notifier.status(await statusOf(app, waitingIn(await app.db.read(overview))));
    await clock.sleep(timing.upkeep.status, signal);
  }
}

const statusOf = async (app: App, waiting: number): Promise<string> =>
  alarmText(await readAlarm(alarmed(app))) + statusText(reportChannels(app.host, app.agents), waiting);

async function keepTidy(app: App, service: Service, signal: AbortSignal): Promise<void> {
  const timing = service.timing.upkeep;
  while (!signal.aborted) {
    const { raw, events } = service.config.retention;
    const ages = { rawMs: raw, eventsMs: events };
    // One small batch per transaction, so that a large clean-up never blocks the store for long.
    while (
      !signal.aborted &&
      forgotSomething(await app.db.tx((q) => forget(q, ages, timing.retentionRecheck)))
    )
      await clock.sleep(timing.retentionPause, signal);
    while (!signal.aborted && (await app.db.maintain())) await clock.sleep(timing.maintenancePause, signal);
    await clock.sleep(timing.retention, signal);
  }
}

const forgotSomething = (counts: Forgotten): boolean => Object.values(counts).some((count) => count > 0);

/** Advances the generation regularly, so that the next start detects a store that was replaced by an
 *  older copy. */
async function keepGeneration(
  app: App,
  { config, log, timing }: Service,
  signal: AbortSignal,
): Promise<void> {
  const { store } = config;
  if (store.kind !== "sqlite" || store.file === ":memory:") return;
  for (;;) {
    await clock.sleep(timing.upkeep.generation, signal);
    if (signal.aborted) return;
    await advanceGeneration(app.db, store.file, app.installation.id).catch((error: unknown) =>
      log.warn({ err: error }, "updating the installation file failed"),
    );
  }
}

/** Returns warnings about the store for the operator. */
async function storeWarnings(
  app: App,
  installation: Installation,
  { storeChanged }: Timing["upkeep"],
): Promise<readonly string[]> {
  const held = await app.db.read(countHeld);
  const changed = installationWarning(installation);
  const isRecent = clock.now() - installation.since < storeChanged;
  const warning = changed !== null && (isRecent || held.messages + held.replies > 0) ? [changed] : [];
  if (held.messages + held.replies === 0) return warning;
  const counts = `${held.messages} messages and ${held.replies} replies are held as ${answeredBefore}`;
  return [
    ...warning,
    `${counts}: see inbox list --code ${answeredBefore}, then inbox answer --all or inbox drop --all`,
  ];
}

/** Data of /readyz; open escalations come first. */
async function readiness(app: App | null, { store }: Config, timing: Timing) {
  if (!app) return { ready: false, reason: "starting" };
  const channels = reportChannels(app.host, app.agents);
  const disk = store.kind === "sqlite" && store.file !== ":memory:" ? freeBytes(store.file) : null;
  try {
    const problem = await storeProblem(app.db, clock, disk, timing.health.store);
    if (problem !== null) return { ready: false, channels, store: problem };
    const alarm = await readAlarm(alarmed(app));
    const ready = isReady(channels) && !isSilenced(alarm);
    const warnings = await storeWarnings(app, app.installation, timing.upkeep);
    const store = await app.db.read(overview);
    return { ...told(alarm), ready, ...(warnings.length > 0 && { warnings }), channels, store };
  } catch (error) {
    return { ready: false, channels, store: `cannot be read: ${String(error)}` };
  }
}

/** Free bytes of the file's disk for an unprivileged process. */
const freeBytes = (file: string) => async (): Promise<number> => {
  const { bavail, bsize } = await statfs(dirname(file));
  return bavail * bsize;
};

const told = (alarm: Alarm | null): { readonly escalations?: Alarm & { readonly says: string } } =>
  alarm === null ? {} : { escalations: { says: alarmText(alarm), ...alarm } };

/** A connecting channel does not count as down. */
const alarmed = (app: App): AlarmDeps => ({
  db: app.db,
  policy: () => app.policy,
  isDown: (channel) => {
    const state = app.host.running().find(({ config }) => config.id === channel)?.state.status.state;
    return state !== "ready" && state !== "connecting";
  },
});

/** The listener does not serve these routes before the app has started. */
function webOf(app: App | null): App["web"] {
  if (app === null) throw new Error("serving a request before the start");
  return app.web;
}

/** Handles SIGHUP. An error leaves the running state unchanged. Never rejects. */
async function reload(app: App, service: Service): Promise<void> {
  const { notifier } = service;
  await notifier.reloading();
  const outcome = await tryReload(app, service);
  const channels = () => statusText(reportChannels(app.host, app.agents), 0);
  await notifier.ready(await statusOf(app, 0).catch(channels));
  // Written last: it ends systemd's reload command, and systemd must have received READY before.
  noteReload(service, outcome);
}

async function tryReload(app: App, service: Service): Promise<ReloadOutcome> {
  const { load, log, io } = service;
  try {
    const next = await load();
    if (next.ok) {
      const secrets = secretValues(next.config);
      log.setSecrets([...secretValues(service.config), ...secrets]);
      const restart = await app.reload(next.config);
      service.config = next.config;
      log.setSecrets(secrets);
      log.setLevel(next.config.log.level);
      log.info({ channels: next.config.channels.length }, "configuration reloaded");
      if (restart.length === 0) return { result: "applied", lines: [] };
      log.warn({ keys: restart }, "these keys take effect at the next restart");
      return {
        result: "applied",
        lines: [`these keys take effect at the next restart: ${restart.join(", ")}`],
      };
    }
    log.error({ problems: next.problems.length }, "the configuration was not reloaded: it is refused");
    const lines = next.problems.map(problemLine);
    for (const line of lines) io.err(line);
    return { result: "rejected", lines };
  } catch (error) {
    log.error({ err: error }, "the configuration was not reloaded: what runs goes on as it was");
    return { result: "failed", lines: [error instanceof Error ? error.message : String(error)] };
  }
}

function noteReload({ io, log }: Service, outcome: ReloadOutcome): void {
  try {
    recordReload(io.env, outcome);
  } catch (error) {
    log.warn({ err: error }, "recording the outcome of a reload failed");
  }
}
