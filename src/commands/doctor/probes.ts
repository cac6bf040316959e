// The connections of `bridgehead doctor --online`: ports, agents, channels, responders. Sends and changes nothing.

import { createServer } from "node:net";
import {
  type Adapter,
  type Channel,
  type ChannelFinding,
  type ChannelStatus,
  type Cursor,
  type Probed,
  type TlsServer,
  wrongFieldText,
  wrongStatus,
} from "bridgehead/contract";
import type { AgentSettings } from "../../agent/calls.ts";
import { createAgentClient } from "../../agent/index.ts";
import { closeAdapter, createAdapter } from "../../channels/loader.ts";
import { type ChannelConfig, type Config, channelSecrets, masking } from "../../config/index.ts";
import { bindRemedy, hostOf } from "../../ops/address.ts";
import { systemClock } from "../../ops/clock.ts";
import { skillNamed, startable } from "../../pipeline/channel-runtime.ts";
import { readSecret, writeSecret } from "../../store/secrets.ts";
import { get, hostPort, isServed } from "../http.ts";
import { probeLimit, type Requesting, silentLog, standInChannel } from "../io.ts";
import { adapterDiagnosis, type Diagnosis, diagnosis } from "./catalogue.ts";
import { certificateProblems, clockProblems, publicUrlProblems } from "./connections.ts";
import { readCursor } from "./rows.ts";
import { useStored } from "./stored.ts";

/** Returns all checks of connections; they may run concurrently. `runs`: whether the daemon answers. */
export function onlineChecks(
  config: Config,
  io: Requesting,
): readonly ((runs: boolean) => Promise<readonly Diagnosis[]>)[] {
  const { http, console: web, platform, model } = config;
  const now = () => systemClock.now();
  const publicUrl = http.public_url;
  return [
    ...Object.entries({
      "http.listen": http.listen,
      "http.admin_listen": http.admin_listen,
      ...(web.enabled && { "console.listen": web.listen }),
    })
      .filter(([, { port }]) => port !== 0)
      .map(
        ([key, address]) =>
          () =>
            portProblems(key, address, io),
      ),
    ...(platform.url === "embedded" ? [] : [() => clockProblems(platform.url, now, io)]),
    ...(publicUrl === undefined ? [] : [(runs: boolean) => publicUrlProblems(publicUrl, runs, io)]),
    ...httpsServers(config).map(
      ([server, place]) =>
        () =>
          certificateProblems(server, place, now(), io),
    ),
    ...Object.keys(config.agents).map((name) => () => agentProblems(config, name, io)),
    ...(model === null ? [] : [() => modelProblems(model, io)]),
    ...config.channels
      .filter(({ core }) => core.enabled)
      .map((channel) => async () => (await channelProblems(config, channel, io)).map(masked(channel))),
    ...responderUrls(config).map(
      ([id, url]) =>
        () =>
          responderProblems(id, url, io),
    ),
  ];
}

/** The platform and our own public URL. */
function httpsServers({ platform, http }: Config): readonly (readonly [TlsServer, string])[] {
  const urls = [
    ["platform.url", platform.url],
    ["http.public_url", http.public_url ?? ""],
  ] as const;
  return urls.flatMap(([part, text]) => {
    const url = URL.parse(text);
    if (url?.protocol !== "https:") return [];
    const port = Number(url.port || 443);
    return [[{ part, host: hostOf(url), port, tls: "implicit" }, part] as const];
  });
}

/** Binds the port and releases it. A port in use by a running Bridgehead is accepted, because this
 *  command may run in parallel to it. */
async function portProblems(
  place: string,
  { host, port }: { readonly host: string; readonly port: number },
  io: Requesting,
): Promise<readonly Diagnosis[]> {
  const address = hostPort(host, port);
  const server = createServer();
  const error = await new Promise<NodeJS.ErrnoException | null>((resolve) => {
    server.once("error", resolve);
    server.listen(port, host, () => resolve(null));
  });
  if (error === null) {
    await new Promise((resolve) => server.close(resolve));
    return [];
  }
  const remedy = `${place}: ${bindRemedy(error, port)}`;
  if (error.code !== "EADDRINUSE")
    return [diagnosis("port-taken", place, `${address} cannot be bound: ${error.message}`, remedy)];
  if (await isServed(`http://${address}`, io.timing.commands.probeDaemon, io)) return [];
  return [diagnosis("port-taken", place, `${address} is occupied by another program`, remedy)];
}

async function agentProblems(config: Config, name: string, io: Requesting): Promise<readonly Diagnosis[]> {
  const { platform, agents } = config;
  if (platform.url === "embedded") return [];
  const place = `agent ${name}`;
  const client = createAgentClient({
    url: platform.url,
    agentKey: agents[name]?.key ?? "",
    ...(platform.organization_key !== undefined && { organizationKey: platform.organization_key }),
    timeoutMs: Math.min(platform.timeout, io.timing.commands.probe),
    clock: systemClock,
    log: silentLog,
    timing: io.timing,
  });
  const result = await client.describe(io.signal); // never rejects
  await client.close();
  if (result.kind === "ok") return settingsProblems(place, name, result.value, skillsOf(config, name));
  if (["unauthorized", "missing", "refused"].includes(result.kind)) {
    const organization = platform.organization_key === undefined ? "" : " and platform.organization_key";
    const remedy = `correct agents.${name}.key${organization}, then: sudo systemctl restart bridgehead`;
    return [diagnosis("agent-key-rejected", place, `the platform rejects its key: ${result.reason}`, remedy)];
  }
  const cause = `the platform cannot be reached: ${result.reason}`;
  return [diagnosis("platform-unreachable", place, cause, `check platform.url: curl -i ${platform.url}`)];
}

/** Asks the model of the embedded platform one short question. */
async function modelProblems(model: NonNullable<Config["model"]>, io: Requesting): Promise<readonly Diagnosis[]> {
  const { probeModel } = await import("../../platform/index.ts");
  const failure = await probeModel(model, systemClock, io.signal);
  if (failure === null) return [];
  const cause = `the model ${model.name} gives no answer: ${failure.reason}`;
  return [diagnosis("model-unreachable", "model", cause, failure.fix)];
}

/** The skills of the platform that the agent's channels use. */
const skillsOf = ({ channels }: Config, agent: string): ReadonlySet<string> =>
  new Set(
    channels
      .filter(({ core }) => core.agent === agent && core.enabled)
      .flatMap(({ adapter: { traits } }) => traits.platform ?? []),
  );

function settingsProblems(place: string, name: string, agent: AgentSettings, skills: ReadonlySet<string>): Diagnosis[] {
  const inactive = (cause: string) =>
    diagnosis("agent-inactive", place, cause, `activate the agent of agents.${name} on the platform`);
  return [
    ...(agent.status === "active" ? [] : [inactive(`is ${agent.status}: nothing will be asked`)]),
    ...[...skills].flatMap((skill) => {
      const settings = skillNamed(agent, skill);
      if (settings?.status === "active") return [];
      // Only mail and texts need their skill; others that are inactive disable their channels (pipeline/ask/decide.ts).
      if (settings === null && (!startable(skill) || skill === "voice")) return [];
      const cause = settings === null ? `has no ${skill} skill` : `its ${skill} skill is ${settings.status}`;
      const remedy = `add and activate the skill ${skill.toUpperCase()} of this agent on the platform`;
      return [diagnosis("agent-skill-missing", place, cause, remedy)];
    }),
  ];
}

/** Masks the secrets of the channel, which its adapter may quote. */
function masked(channel: ChannelConfig): (found: Diagnosis) => Diagnosis {
  const mask = masking(channelSecrets(channel));
  return ({ cause, remedy, ...rest }) => ({ ...rest, cause: mask(cause), remedy: mask(remedy) });
}

async function channelProblems(
  config: Config,
  { id, adapter, settings }: ChannelConfig,
  io: Requesting,
): Promise<readonly Diagnosis[]> {
  const place = `channel ${id}`;
  const limit = probeLimit(io);
  let built: Adapter | null = null;
  try {
    built = createAdapter({ id, adapter, settings }, probeChannel(config, id, adapter.name, io));
    const parts = built.probe === undefined ? [] : partsOf(adapter.name, await endedBy(limit, built.probe(limit)));
    const found = parts.flatMap(({ part, status: one, fix }) =>
      statusProblems(part === "" ? place : `${place} ${part}`, id, one, fix),
    );
    // An adapter that cannot connect has reported this already.
    const examined = found.length > 0 ? [] : await examine(built, await committedCursor(config, id, io), limit);
    const certificates = await Promise.all(
      (built.servers ?? []).map((server) =>
        certificateProblems(server, `${place} ${server.part}`, systemClock.now(), io),
      ),
    );
    return [
      ...found,
      ...examined.map((one) => adapterDiagnosis({ ...one, fix: inChannel(id, one.fix) }, place)),
      ...certificates.flat(),
    ];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return statusProblems(place, id, { state: "degraded", code: "", reason }, undefined);
  } finally {
    const { commands, channels } = io.timing;
    const limits = { close: commands.probeDaemon, closeGrace: channels.closeGrace };
    if (built !== null) await closeAdapter(built, systemClock, limits).catch(() => undefined);
  }
}

/** Returns the result of each side. Throws when an adapter without types has returned none. */
function partsOf(adapter: string, status: Awaited<ReturnType<NonNullable<Adapter["probe"]>>>): readonly Probed[] {
  const { parts: listed } = Object(status) as { readonly parts?: unknown };
  const parts: readonly Probed[] = Array.isArray(listed) ? listed : [{ part: "", status }];
  for (const part of parts) {
    const wrong = wrongStatus((Object(part) as Partial<Probed>).status);
    if (wrong !== null) throw new Error(`probe of the adapter ${adapter} returned ${wrongFieldText(wrong)}`);
  }
  return parts;
}

async function examine(built: Adapter, cursor: Cursor | null, limit: AbortSignal): Promise<readonly ChannelFinding[]> {
  const found = await endedBy(limit, built.examine?.(cursor, limit)).catch(() => []);
  return Array.isArray(found) ? found : [];
}

/** Returns the result of `work`; rejects when the signal aborts, which an adapter may ignore. */
async function endedBy<T>(limit: AbortSignal, work: T | Promise<T>): Promise<T> {
  limit.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const end = () => reject(new Error("did not get through in time"));
  limit.addEventListener("abort", end, { once: true });
  return Promise.race([work, promise]).finally(() => limit.removeEventListener("abort", end));
}

/** Adapters report keys relative to their own block, so the channel's path is added. */
const inChannel = (id: string, fix: string): string => `${fix} (keys under channels.${id})`;

function statusProblems(
  place: string,
  id: string,
  status: ChannelStatus,
  fix = "check its credentials and servers",
): Diagnosis[] {
  const remedy = inChannel(id, fix);
  switch (status.state) {
    case "ready":
      return [];
    case "connecting":
      return [diagnosis("channel-unreachable", place, "did not get through in time", remedy)];
    case "degraded":
      return [diagnosis("channel-unreachable", place, status.reason, remedy)];
    case "unauthorized":
      return [diagnosis("channel-login-rejected", place, status.reason, remedy)];
  }
}

async function committedCursor(config: Config, id: string, io: Requesting): Promise<Cursor | null> {
  return useStored(config, io, (db) => db.read((q) => readCursor(q, id))).catch(() => null);
}

function probeChannel(config: Config, id: ChannelConfig["id"], adapter: string, io: Requesting): Channel {
  const base = config.http.public_url ?? "http://127.0.0.1";
  return {
    ...standInChannel(id, adapter, io),
    url: (path) => new URL(`${base.replace(/\/$/, "")}/channels/${id}${path}`),
    // The secrets in the daemon's store: a login neither fails because of a rotated token, nor loses a new one.
    secrets: {
      read: (name) => useStored(config, io, (db) => db.read((q) => readSecret(q, `${adapter}/${name}`))),
      write: async (name, value) =>
        void (await useStored(config, io, (db) => db.tx((q) => writeSecret(q, `${adapter}/${name}`, value)))),
    },
  };
}

function responderUrls({ escalation }: Config): readonly (readonly [string, URL])[] {
  return [...(escalation?.responders.values() ?? [])].flatMap(({ id, webhook }) =>
    webhook === null ? [] : [[id, new URL(webhook.url)] as const],
  );
}

/** Connects to the host of a responder's webhook. Only its root is requested, because the path may contain a key and
 *  have an effect. Any response counts as reachable. */
async function responderProblems(id: string, url: URL, io: Requesting): Promise<readonly Diagnosis[]> {
  const root = new URL("/", url);
  const error = await get(root, io).then(
    () => null,
    (cause: Error) => cause,
  );
  if (error === null) return [];
  const cause = `the server of the webhook cannot be reached: ${error.message}`;
  return [
    diagnosis(
      "responder-unreachable",
      `escalation.responders.${id}`,
      cause,
      `correct its url, or start the server: curl -i ${root.href}`,
    ),
  ];
}
