// bridgehead run: starts the daemon from its configuration file, and stops it at SIGTERM. `Daemon` runs it in between.

import { mkdir, readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Clock, Log } from "bridgehead/contract";
import { type App, type OpenedStore, openStore, startApp } from "../app.ts";
import { defineGauges } from "../channels/gauges.ts";
import { loadAdapter, throwersOf } from "../channels/loader.ts";
import { freeBytesOf, reportChannels } from "../channels/readiness.ts";
import { type Config, loadConfig, located, masking, type Problem, secretValues } from "../config/index.ts";
import type { ConsoleContext } from "../console/page.ts";
import { startConsole, type WebConsole } from "../console/start.ts";
import { commandText } from "../domain/command-text.ts";
import { defineAlarmGauges } from "../escalation/alarm/stage.ts";
import { kindOf } from "../escalation/reply/decide.ts";
import { type Listener, startListener } from "../http/listener.ts";
import { systemClock as clock, endsWithin, jitter } from "../ops/clock.ts";
import { createLog, LogOutput } from "../ops/log.ts";
import type { Metrics } from "../ops/metrics.ts";
import { Statistics } from "../ops/statistics.ts";
import { createNotifier, isJournal, type Notifier } from "../ops/systemd.ts";
import type { Timing } from "../ops/timing.ts";
import type { TraceExport } from "../ops/traces.ts";
import type { AgentDefinition, InlineAgent, Platform } from "../platform/index.ts";
import { migrations } from "../store/migrate.ts";
import { isUnreachable } from "../store/postgres/unreachable.ts";
import { startLocked } from "../store/sqlite/lock.ts";
import { alarmed, Daemon, logWarnings, readiness, type Service, storeState } from "./daemon.ts";
import { aborted, exitCodes, fail, type Io, packageVersion, problemLine } from "./io.ts";
import { whileStarting } from "./running/start-timeout.ts";
import { load } from "./store/open.ts";

/** The parts of the daemon that have been started. */
interface RunningParts {
  platform: Platform | null;
  listener: Listener | null;
  traces: TraceExport | null;
  app: App | null;
  webConsole: WebConsole | null;
  /** True when SIGHUP reloads the configuration. */
  isReloadable: boolean;
}

/** Runs the daemon until `io.signal` aborts. Returns the exit code. */
export async function runDaemon(options: { readonly config: string }, io: Io): Promise<number> {
  const { timing } = io;
  const path = resolve(io.cwd, options.config);
  const parts: RunningParts = {
    platform: null,
    listener: null,
    traces: null,
    app: null,
    webConsole: null,
    isReloadable: false,
  };
  const logging = Promise.withResolvers<Log>();
  // Without a listener SIGHUP would end the process, and the wait for the store may take long.
  io.onHangup(() => {
    if (parts.isReloadable) return;
    void logging.promise.then((log) => log.warn({}, "configuration reload rejected: the daemon is still starting"));
  });
  const loadAgain = () => loadConfig(path, { env: io.env, adapters: loadAdapter });
  const { config, warnings } = await load(loadAgain, options, io);
  const log = createLog({
    level: config.log.level,
    format: config.log.format,
    out: new LogOutput(timing.upkeep),
    clock,
    journal: isJournal(io.env["JOURNAL_STREAM"], 2),
  });
  log.setMask(masking(secretValues(config)));
  logging.resolve(log);
  io.onCrash((error) => {
    if (parts.app?.host.surviveError(error)) return true;
    // One of an adapter that no channel runs with: it was loaded for a reload that failed.
    const [adapter] = throwersOf(error);
    if (adapter === undefined) log.error({ err: error }, "uncaught exception");
    else log.error({ adapter: adapter.name, err: error }, "adapter left an error uncaught");
    return adapter !== undefined;
  });
  logWarnings(log, warnings);
  const notifier = createNotifier(io.env, log, timing.health);
  const statistics = new Statistics();
  const service: Service = { config, log, timing, statistics, notifier, io, load: loadAgain };
  parts.platform = await embeddedPlatform(service);
  try {
    await serve(service, parts);
    return exitCodes.ok;
  } finally {
    await stop(service, parts);
  }
}

/** Starts all parts, and runs the daemon until the service is asked to stop. */
async function serve(service: Service, parts: RunningParts): Promise<void> {
  const { config, log, timing, notifier, io, statistics } = service;
  const listener = await listen(service, parts);
  parts.listener = listener;
  log.info({ url: listener.url, admin_url: listener.adminUrl }, "listening for http");
  const store = await whileStarting(io.env, timing, () =>
    reachStore(config, { clock, log, timing, notifier, signal: io.signal }),
  );
  if (!store) return;
  const traces = await tracesOf(config, store.installation.id, log, timing);
  parts.traces = traces;
  const app = await startApp({
    config,
    store,
    platformUrl: parts.platform?.url ?? config.platform.url,
    clock,
    log,
    timing,
    publicUrl: () => listener.publicUrl,
    statistics,
    ...(traces && { onHop: (hop) => traces.hop(hop) }),
    retire: async (routes) => listener.retire(routes),
  });
  parts.app = app;
  parts.webConsole = await serveConsole(app, config, log, timing);
  const redefine = async (next: Config) => parts.platform?.redefine(await embeddedAgents(next)) ?? (() => {});
  parts.isReloadable = true;
  await new Daemon(app, service, listener.url, redefine).run();
  await notifier.stopping();
}

const listen = (service: Service, parts: RunningParts): Promise<Listener> =>
  startListener({
    listen: service.config.http.listen,
    adminListen: service.config.http.admin_listen,
    clock,
    log: service.log,
    timing: service.timing.http,
    publicUrl: service.config.http.public_url,
    routes: (channel) =>
      parts.app?.host.running().find((running) => running.config.id === channel)?.adapter.routes ?? null,
    serving: () => parts.app !== null,
    platform: (request) => webOf(parts.app).platform(request),
    escalations: (request) => webOf(parts.app).escalations(request),
    ready: async () => readiness(parts.app, service.config, service.timing),
    metrics: scraper(service, parts),
  });

/** Ends the parts. What does not end in time is left as at a kill: its attempts are recorded, and the next start looks their
 *  outcomes up. */
async function stop(service: Service, parts: RunningParts): Promise<void> {
  const { timing, log } = service;
  if (await endsWithin(endParts(service, parts), timing.shutdown.longest, clock)) return log.info({}, "stopped");
  const channels = await parts.app?.unended();
  log.error({ channels }, "stopped without waiting for an adapter that does not end");
}

async function endParts({ timing }: Service, parts: RunningParts): Promise<void> {
  const began = clock.monotonic();
  await parts.webConsole?.close();
  // Calls end first: their last utterances are still answered and stored.
  await parts.listener?.drain();
  await parts.app?.stop(Math.max(0, timing.shutdown.drain - (clock.monotonic() - began)));
  await parts.listener?.close();
  await parts.platform?.close();
  await parts.traces?.close();
}

/** Returns the handler of a scrape. The first one creates the metrics, so that a daemon without scrapes does not load
 *  their packages. Before the app has started, only the process is measured. */
function scraper({ statistics, config }: Service, parts: RunningParts): () => ReturnType<Metrics["expose"]> {
  let creating: Promise<Metrics> | undefined;
  let defined = false;
  return async () => {
    creating ??= import("../ops/metrics.ts").then(({ Metrics }) => new Metrics(statistics));
    const metrics = await creating;
    const { app, listener } = parts;
    if (app && listener && !defined) {
      defined = true;
      const versions = { version: packageVersion(), node: process.versions.node };
      const build = { ...versions, store: app.db.kind, schema: String(migrations.length) };
      defineGauges(metrics, app, clock, build, freeBytesOf(config.store));
      defineAlarmGauges(metrics, alarmed(app));
      defineSocketGauge(metrics, listener);
    }
    return metrics.expose();
  };
}

/** Call once per registry. */
export function defineSocketGauge(metrics: Metrics, listener: Listener): void {
  metrics.gauge({
    name: "sockets",
    help: "Websockets open or being let in.",
    sample: (gauge) => gauge.set(listener.sockets()),
  });
}

/** Starts the web console; null when it is disabled, or when its port is not free: mail is answered without it. */
async function serveConsole(app: App, config: Config, log: Log, timing: Timing): Promise<WebConsole | null> {
  const { enabled, listen, public_url: publicUrl } = config.console;
  if (!enabled) return null;
  const context = consoleContext(app, config, log, timing);
  try {
    const started = await startConsole({ context, listen, publicUrl });
    log.info({ url: started.url, login: commandText("console", config.file) }, "console listening");
    return started;
  } catch (error) {
    log.error({ err: error }, "console not available");
    return null;
  }
}

/** Returns what the pages of the console see of the running app. */
export const consoleContext = (app: App, config: Config, log: Log, timing: Timing): ConsoleContext => ({
  db: app.db,
  commit: (write) => app.scheduler.commit(write),
  clock,
  log,
  timing,
  channels: () => reportChannels(app.host, app.agents),
  config: config.file,
  storeState: cached(() => storeState(app, config, timing), timing.console.storeCheck),
  kindOf: (channel) => kindOf(app.host.lines.get(channel)),
  policy: () => app.policy,
});

/** Repeats a result for `ms`, because the check costs a write and every open page asks. */
function cached<T>(read: () => Promise<T>, ms: number): () => Promise<T> {
  let last: { readonly result: Promise<T>; readonly at: number } | null = null;
  return () => {
    const now = clock.monotonic();
    if (last === null || now - last.at >= ms) last = { result: read(), at: now };
    return last.result;
  };
}

/** The listener does not serve these routes before the app has started. */
function webOf(app: App | null): App["web"] {
  if (app === null) throw new Error("serving a request before the start");
  return app.web;
}

/** Opens the export of traces when it is configured. OpenTelemetry is loaded only then. */
async function tracesOf(
  { otlp, node }: Config,
  installation: string,
  log: Log,
  { upkeep: timing }: Timing,
): Promise<TraceExport | null> {
  if (otlp === null) return null;
  const { openTraces } = await import("../ops/traces.ts");
  return openTraces({ ...otlp, installation, version: packageVersion(), node, clock, log, timing });
}

/** Starts the embedded platform when it is configured; returns null otherwise. Rejects with the problems of its
 *  agents. */
async function embeddedPlatform({ config, log, timing, io }: Service): Promise<Platform | null> {
  const { embedded, rate } = config.platform;
  if (!embedded) return null;
  // Loaded on demand: a daemon with an external platform does not need it.
  const { startPlatform } = await import("../platform/index.ts");
  await mkdir(dirname(embedded.database), { recursive: true, mode: 0o700 });
  const agents = await embeddedAgents(config);
  // A second platform on the file would replace the keys of the agents, and answer open questions again.
  const start = () =>
    startPlatform({
      file: embedded.database,
      listen: { ...embedded.listen, setting: "platform.embedded.listen" },
      agents,
      clock,
      log,
      rate: { requests: rate.requests, perSeconds: rate.per / 1000 },
    });
  const platform = await whileStarting(io.env, timing, () => startLocked(embedded.database, start));
  log.info({ url: platform.url }, "embedded platform listening");
  return platform;
}

/** Returns the agents of the embedded platform. Fails with one line for each problem. */
export async function embeddedAgents(config: Config): Promise<readonly AgentDefinition[]> {
  const { agents, problems } = await readEmbeddedAgents(config);
  return problems.length === 0 ? agents : fail(problems.map(problemLine).join("\n"), exitCodes.config);
}

/** Reads the agents of the embedded platform: those of its file, or of this configuration. */
export async function readEmbeddedAgents(
  config: Config,
): Promise<{ readonly agents: readonly AgentDefinition[]; readonly problems: readonly Problem[] }> {
  const { InvalidAgents, inlineAgents, readAgents } = await import("../platform/index.ts");
  const { model } = config;
  const file = config.platform.embedded?.agents;
  try {
    if (file !== undefined) return { agents: readAgents(await readFile(file, "utf8"), file), problems: [] };
    if (model === null) return { agents: [], problems: [] };
    const seconds = { timeout: model.timeout / 1000, total_timeout: model.total_timeout / 1000 };
    return { agents: inlineAgents(inlineBlocks(config), { ...model, ...seconds }, config.file), problems: [] };
  } catch (error) {
    const fix = "docs/platform.md describes the keys of an agent";
    if (error instanceof InvalidAgents)
      return {
        agents: [],
        problems:
          file === undefined
            ? await located(
                config.file,
                error.problems.map((one) => ({
                  ...one,
                  path: one.path.map((step) => (typeof step === "number" ? step : String(step))),
                  of: "key",
                  fix,
                })),
              )
            : error.problems.map(({ line, key, message }) => ({ file, line, column: 1, key, message, fix })),
      };
    const { code } = error as NodeJS.ErrnoException;
    if (file === undefined || code === undefined) throw error;
    const at = { file, line: 0, column: 0, key: "" };
    const remedy = "correct platform.embedded.agents, or let the daemon's user read it";
    return { agents: [], problems: [{ ...at, message: `cannot be read (${code})`, fix: remedy }] };
  }
}

function inlineBlocks({ agents, channels, escalation, retention }: Config): InlineAgent[] {
  return Object.entries(agents).map(([name, { key, instructions, knowledge, skills }]) => {
    const own = channels.filter(({ core }) => core.enabled && core.agent === name);
    const addressOn = (kind: "email" | "sms") => {
      const channel = own.find(({ adapter }) => adapter.traits.platform === kind);
      if (channel === undefined) return {};
      // Adapters name their address in one of these keys; it is shown, and not used for delivery.
      const { address, number, imap } = channel.settings as {
        readonly address?: string;
        readonly number?: string;
        readonly imap?: { readonly user?: string };
      };
      return { [kind]: address ?? number ?? imap?.user ?? channel.id };
    };
    return {
      name,
      key,
      instructions,
      knowledge: knowledge ?? [],
      skills,
      addresses: { ...addressOn("email"), ...addressOn("sms") },
      voice: own.some(({ adapter }) => adapter.traits.platform === "voice"),
      escalates: escalation !== null,
      retentionMs: retention.events,
    };
  });
}

/** Retries until the store is reachable; null when `signal` aborts before. Rejects on an error that a
 *  retry cannot fix. */
export async function reachStore(
  config: Pick<Config, "store">,
  service: {
    readonly clock: Clock;
    readonly log: Log;
    readonly timing: Timing;
    readonly notifier: Pick<Notifier, "status">;
    readonly signal: AbortSignal;
  },
): Promise<OpenedStore | null> {
  const { clock, log, timing, notifier, signal } = service;
  const { storeRetry, storeRetryLongest } = timing.startup;
  const ended = aborted(signal).then(() => null);
  for (let pause = storeRetry; !signal.aborted; pause = Math.min(pause * 2, storeRetryLongest)) {
    const opening = openStore(config, clock, log, timing);
    // At shutdown a running attempt is abandoned.
    void opening.catch(() => undefined);
    try {
      return await Promise.race([opening, ended]);
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      const again = jitter(pause);
      log.warn({ err: error, again_in_ms: again }, "store unreachable: retrying");
      await notifier.status("waiting for the store");
      await clock.sleep(again, signal);
    }
  }
  return null;
}
