// bridgehead check: validates the configuration and, with --online, probes everything that it names. Sends
// nothing. bridgehead schema: prints the configuration's JSON Schema, for editors.

import { existsSync } from "node:fs";
import { access, constants, readFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, resolve } from "node:path";
import type { Channel, ChannelStatus, Log } from "bridgehead/contract";
import { type AgentSettings, type CallResult } from "../../agent/calls.ts";
import { createAgentClient } from "../../agent/index.ts";
import { openDatabase } from "../../app.ts";
import { builtIn, loadAdapter } from "../../channels/loader.ts";
import {
  type ChannelConfig,
  type Config,
  jsonSchema,
  loadConfig,
  maskSecrets,
  type Problem,
} from "../../config/index.ts";
import { askHealth } from "../../http/health.ts";
import { systemClock } from "../../ops/clock.ts";
import { standardTiming } from "../../ops/timing.ts";
import { startable } from "../../pipeline/channel-runtime.ts";
import { readAgents } from "../../platform/index.ts";
import type { Database } from "../../store/driver.ts";
import { migrations, schemaVersion } from "../../store/migrate.ts";
import { openPostgres } from "../../store/postgres.ts";
import { readSecret, writeSecret } from "../../store/secrets.ts";
import { openSqlite } from "../../store/sqlite.ts";
import type { Io } from "../io.ts";
import { type Command, exitCodes, problemLine } from "../io.ts";

export interface CheckOptions {
  readonly config: string;
  readonly online?: boolean;
  readonly json?: boolean;
}

export async function run(options: CheckOptions, io: Io): Promise<number> {
  const loaded = await loadConfig(resolve(io.cwd, options.config), {
    env: io.env,
    adapters: loadAdapter,
    folderExists: existsSync,
  });
  const print = options.json === true ? () => undefined : io.out;
  const warnings = loaded.ok ? [...loaded.warnings, ...nobodyTold(loaded.config)] : loaded.warnings;
  for (const warning of warnings) print(`warning: ${problemLine(warning)}`);
  const problems = loaded.ok ? await agentsProblems(loaded.config) : loaded.problems.map(problemLine);
  let findings: readonly ProbeFinding[] = [];
  let code: number = exitCodes.ok;
  if (problems.length > 0 || !loaded.ok) {
    for (const problem of problems) print(problem);
    print(`${problems.length} ${problems.length === 1 ? "problem" : "problems"}`);
    code = exitCodes.config;
  } else {
    const { channels, file } = loaded.config;
    print(`${file}: ok, ${channels.length} ${channels.length === 1 ? "channel" : "channels"}`);
    if (options.online === true) {
      findings = await probeAll(loaded.config, io.signal, (finding) => print(findingLine(finding)));
      code = worst(findings);
    }
  }
  if (options.json === true) {
    const problemsOut = loaded.ok ? problems : loaded.problems;
    io.out(
      JSON.stringify({
        ok: code === exitCodes.ok,
        problems: problemsOut,
        warnings,
        checks: findings,
        ...(loaded.ok && { config: maskSecrets(loaded.config) }),
      }),
    );
  }
  return code;
}

const findingLine = ({ subject, state, message, fix }: ProbeFinding): string =>
  `${state.padEnd(11)} ${subject}: ${message}${fix === undefined ? "" : ` (${fix})`}`;

/** Warns when no responders are configured. This is not an error, because the agent may never need a
 *  human, but the operator should know before an escalation occurs. */
function nobodyTold({ escalation, file }: Config): readonly Problem[] {
  if (escalation !== null) return [];
  const message = "is missing: when the agent cannot or must not answer, no responder is notified";
  return [
    {
      file,
      line: 0,
      column: 0,
      key: "escalation",
      message,
      fix: "add the key escalation, and try it with bridgehead policy test",
    },
  ];
}

/** Checks the separate file with the embedded platform's agents. */
async function agentsProblems({ platform }: Config): Promise<readonly string[]> {
  if (platform.embedded === undefined) return [];
  const path = platform.embedded.agents;
  try {
    readAgents(await readFile(path, "utf8"), path);
    return [];
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return code === undefined ? message.split("\n") : [`${path}: cannot be read (${code})`];
  }
}

function worst(findings: readonly ProbeFinding[]): number {
  if (findings.some(({ state }) => state === "newer")) return exitCodes.newerSchema;
  if (findings.some(({ state }) => state === "failed")) return exitCodes.failed;
  return findings.some(({ state }) => state === "unreachable") ? exitCodes.unreachable : exitCodes.ok;
}

interface ProbeFinding {
  /** For example `store`, `agent support`, `channel support-mail`. */
  readonly subject: string;
  /** failed: an operator must act; unreachable: possibly temporary; newer: the store's schema is newer
   *  than this program. */
  readonly state: "ok" | "warning" | "unreachable" | "failed" | "newer";
  readonly message: string;
  /** The required action, in terms of the configuration's keys. */
  readonly fix?: string;
}

const { probe: patience, probeDaemon } = standardTiming.commands;
const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Runs all probes concurrently. Calls `tell` with each finding as it arrives. */
async function probeAll(
  config: Config,
  signal: AbortSignal,
  tell: (finding: ProbeFinding) => void,
): Promise<readonly ProbeFinding[]> {
  const one = (probe: Promise<ProbeFinding>) => probe.then((finding) => [finding]);
  const probes: Promise<readonly ProbeFinding[]>[] = [
    one(probeStore(config)),
    ...(["listen", "admin_listen"] as const)
      .filter((key) => config.http[key].port !== 0)
      .map((key) => one(probePort(key, config.http[key], signal))),
    ...Object.keys(config.agents).map((name) => one(probeAgent(config, name, signal))),
    ...config.channels
      .filter(({ core }) => core.enabled)
      .map((channel) => probeChannel(config, channel, signal)),
  ];
  const found = await Promise.all(
    probes.map(async (probe) => {
      const findings = await probe;
      for (const finding of findings) tell(finding);
      return findings;
    }),
  );
  return found.flat();
}

/** Binds the port and releases it. A port in use by a running Bridgehead is accepted, because this
 *  command may run in parallel to it. */
async function probePort(
  key: "listen" | "admin_listen",
  { host, port }: { readonly host: string; readonly port: number },
  signal: AbortSignal,
): Promise<ProbeFinding> {
  const subject = `http.${key}`;
  const place = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const server = createServer();
  const error = await new Promise<NodeJS.ErrnoException | null>((resolve) => {
    server.once("error", resolve);
    server.listen(port, host, () => resolve(null));
  });
  if (error === null) {
    await new Promise((resolve) => server.close(resolve));
    return { subject, state: "ok", message: `${place} is free` };
  }
  if (error.code !== "EADDRINUSE") {
    const fix = error.code === "EACCES" ? "use a port above 1023" : "use an address of this machine";
    return { subject, state: "failed", message: `${place} cannot be bound: ${error.message}`, fix };
  }
  const ours = await askHealth(
    `http://${place}`,
    AbortSignal.any([signal, AbortSignal.timeout(probeDaemon)]),
  ).then(
    () => true,
    () => false,
  );
  if (ours) return { subject, state: "ok", message: `${place} is in use by a daemon that is well` };
  const fix = `end the other program, or choose another port for http.${key}`;
  return { subject, state: "failed", message: `${place} is occupied by another program`, fix };
}

async function probeStore({ store }: Config): Promise<ProbeFinding> {
  const subject = "store";
  try {
    if (store.kind === "sqlite") {
      const exists = await access(store.file, constants.R_OK | constants.W_OK).then(
        () => true,
        (error: NodeJS.ErrnoException) => error.code !== "ENOENT",
      );
      if (!exists) {
        await access(dirname(store.file), constants.W_OK);
        return { subject, state: "ok", message: `${store.file} will be created` };
      }
    }
    const database =
      store.kind === "sqlite"
        ? openSqlite(store.file, () => systemClock.now())
        : await openPostgres(store.url);
    let version: number;
    try {
      version = await schemaVersion(database);
    } finally {
      await database.close();
    }
    if (version > migrations.length) {
      return {
        subject,
        state: "newer",
        message: `has schema ${version}, this version knows up to ${migrations.length}`,
      };
    }
    return {
      subject,
      state: "ok",
      message: version === 0 ? "empty" : `schema ${version} of ${migrations.length}`,
    };
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    return {
      subject,
      state: code === "ECONNREFUSED" ? "unreachable" : "failed",
      message: message || String(code),
    };
  }
}

async function probeAgent(config: Config, name: string, signal: AbortSignal): Promise<ProbeFinding> {
  const subject = `agent ${name}`;
  const { platform, agents } = config;
  if (platform.url === "embedded")
    return { subject, state: "ok", message: "answered by the embedded platform" };
  const client = createAgentClient({
    url: platform.url,
    agentKey: agents[name]?.key ?? "",
    ...(platform.organization_key !== undefined && { organizationKey: platform.organization_key }),
    timeoutMs: Math.min(platform.timeout, patience),
    clock: systemClock,
    log: quiet,
  });
  const result = await client.describe(signal); // never rejects
  await client.close();
  if (result.kind === "ok") return judgeAgent(subject, result.value, skillsOf(config, name));
  const fix =
    result.kind === "unauthorized"
      ? `check agents.${name}.key${platform.organization_key === undefined ? "" : " and platform.organization_key"}`
      : `check platform.url: ${platform.url}`;
  return { subject, state: certain(result) ? "failed" : "unreachable", message: result.reason, fix };
}

const certain = ({ kind }: CallResult<unknown>): boolean =>
  ["unauthorized", "missing", "refused"].includes(kind);

/** The skills of the platform that the agent's channels use. */
const skillsOf = ({ channels }: Config, agent: string): ReadonlySet<"email" | "sms" | "voice"> =>
  new Set(
    channels
      .filter(({ core }) => core.agent === agent && core.enabled)
      .flatMap(({ adapter: { traits } }) => (startable(traits.platform) ? [traits.platform] : [])),
  );

function judgeAgent(
  subject: string,
  agent: AgentSettings,
  skills: ReadonlySet<"email" | "sms" | "voice">,
): ProbeFinding {
  const warnings = [
    ...(agent.status === "active" ? [] : [`is ${agent.status}: nothing will be asked`]),
    ...[...skills].flatMap((skill) => {
      const settings = agent[skill];
      // Calls need no VOICE skill (pipeline/line.ts).
      if (settings === null) return skill === "voice" ? [] : [`has no ${skill} skill`];
      return settings.status === "active" ? [] : [`its ${skill} skill is ${settings.status}`];
    }),
  ];
  if (warnings.length > 0)
    return { subject, state: "warning", message: `${agent.name} ${warnings.join("; ")}` };
  return { subject, state: "ok", message: `${agent.name}, active` };
}

async function probeChannel(
  config: Config,
  { id, adapter, settings }: ChannelConfig,
  signal: AbortSignal,
): Promise<readonly ProbeFinding[]> {
  const subject = `channel ${id}`;
  const base = config.http.public_url ?? "http://127.0.0.1";
  const channel: Channel = {
    id,
    log: quiet,
    clock: systemClock,
    url: (path) => new URL(`${base}/channels/${id}${path}`),
    accept: () => Promise.reject(new Error("nothing is accepted while checking")),
    addresses: async () => [],
    known: async () => new Set(),
    session: async () => null,
    agent: () => null,
    identity: async () => ({ since: new Date(), mark: "check00000", ownerOf: () => "foreign" as const }),
    secrets: secretsOf(config, adapter.name),
    report: () => {},
    warn: () => {},
  };
  try {
    const built = adapter.create(channel, settings);
    if (built.probe === undefined)
      return [{ subject, state: "ok", message: "its adapter has nothing to probe" }];
    const status = await built.probe(AbortSignal.any([signal, AbortSignal.timeout(patience)]));
    if (status.parts === undefined) return [judgeChannel(subject, status)];
    return status.parts.map(({ part, status: found, fix }) => ({
      ...judgeChannel(`${subject} ${part}`, found),
      ...(fix !== undefined && { fix: inChannel(id, fix) }),
    }));
  } catch (error) {
    return [{ subject, state: "unreachable", message: (error as Error).message }];
  }
}

/** Uses the secrets in the daemon's store. A login then neither fails because of a rotated token, nor
 *  loses a new one. */
function secretsOf(config: Config, adapter: string): Channel["secrets"] {
  const { store } = config;
  const use = async <T>(work: (db: Database) => Promise<T>): Promise<T | null> => {
    if (store.kind === "sqlite" && !existsSync(store.file)) return null;
    const db = await openDatabase(config, systemClock);
    try {
      return (await schemaVersion(db)) === migrations.length ? await work(db) : null;
    } finally {
      await db.close();
    }
  };
  return {
    read: (name) => use((db) => db.read((q) => readSecret(q, `${adapter}/${name}`))),
    write: async (name, value) =>
      void (await use((db) => db.tx((q) => writeSecret(q, `${adapter}/${name}`, value)))),
  };
}
/** Adapters report keys relative to their own block, so the channel's path is added. */
const inChannel = (id: string, fix: string): string => `under channels.${id}: ${fix}`;

function judgeChannel(subject: string, status: ChannelStatus): ProbeFinding {
  switch (status.state) {
    case "ready":
      return { subject, state: "ok", message: "ready" };
    case "connecting":
      return { subject, state: "unreachable", message: "did not get through in time" };
    case "degraded":
      return { subject, state: "unreachable", message: status.reason };
    case "unauthorized":
      return { subject, state: "failed", message: status.reason };
  }
}

/** Prints the configuration's JSON Schema. */
export const schema: Command<object> = {
  async run(_options, io) {
    const adapters = await Promise.all(
      builtIn.map(async (name) => [name, await loadAdapter(name, io.cwd)] as const),
    );
    io.out(JSON.stringify(jsonSchema(Object.fromEntries(adapters)), null, 2));
    return exitCodes.ok;
  },
};
