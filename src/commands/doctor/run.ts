// bridgehead doctor: checks the configuration, this machine, the store and the running daemon, and with --online every
// server that the configuration names. Sends nothing; changes nothing but file modes and owners, with --fix.

import { dirname, resolve } from "node:path";
import { loadAdapter } from "../../channels/loader.ts";
import { type Config, type Loaded, loadConfig, loadSecretFiles, loadStore, type Problem } from "../../config/index.ts";
import { didYouMean } from "../../config/nearest.ts";
import { systemClock } from "../../ops/clock.ts";
import { sqliteFilesOf } from "../daemon.ts";
import { type CommandOptions, credentialsFor, exitCodes, type Io } from "../io.ts";
import { withProgress } from "../store/progress.ts";
import { catalogue, type Diagnosis, diagnosis, type Severity } from "./catalogue.ts";
import { agentsProblems, disk, withoutResponders } from "./check.ts";
import { daemonProblems, readDaemon } from "./daemon.ts";
import { applyChanges, diskProblems, fileProblems, nodeProblems } from "./machine.ts";
import { onlineChecks } from "./probes.ts";
import { addressesOf, contentProblems, platformProblems, storeProblems } from "./stored.ts";

/** Options of doctor and support-bundle. */
export interface DoctorOptions extends CommandOptions {
  readonly online?: boolean;
  readonly fix?: boolean;
  /** Print only findings with this id. */
  readonly only?: string;
  /** The archive of support-bundle. */
  readonly file?: string;
}

export async function doctor(options: DoctorOptions, io: Io): Promise<number> {
  const found = await diagnose(options, io);
  const listed = found.filter(({ id }) => options.only === undefined || id === options.only);
  const changes = listed.flatMap(({ change }) => (change === undefined ? [] : [change]));
  const { done, failed } = options.fix === true ? applyChanges(changes) : { done: [], failed: [] };
  const isCured = ({ change }: Diagnosis) =>
    options.fix === true && change !== undefined && !failed.some((line) => line.startsWith(`${change.path}: `));
  const left = listed.filter((one) => !isCured(one));
  if (options.json === true) {
    const findings = left.map(({ change, ...rest }) => ({ ...rest, fixable: change !== undefined }));
    io.out(JSON.stringify({ findings, fixed: done, not_fixed: failed }));
  } else {
    for (const line of done) io.out(`fixed      ${line}`);
    for (const line of failed) io.out(`not fixed  ${line}`);
    for (const one of left) io.out(printed(one));
    io.out(summary(left, options));
  }
  return left.some(({ severity }) => severity === "error") ? exitCodes.failed : exitCodes.ok;
}

const order: readonly Severity[] = ["error", "warning", "info"];

/** Returns all findings, errors first. Also used for the support bundle. */
export async function diagnose(options: DoctorOptions, io: Io): Promise<readonly Diagnosis[]> {
  const path = resolve(io.cwd, options.config);
  const loaded = await loadConfig(path, { env: io.env, adapters: loadAdapter, disk, ...credentialsFor(path, io.env) });
  const found = [
    ...(await configProblems(loaded)),
    ...nodeProblems(process.versions.node, systemClock.now(), io.timing.commands.nodeSoon),
    ...(await machineProblems(path, io)),
    ...(loaded.ok ? await systemProblems(loaded.config, options, io) : []),
  ];
  return found.sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
}

const at = ({ file, line, column, key }: Problem): string =>
  `${file}${line === 0 ? "" : `:${line}:${column}`}${key === "" ? "" : ` ${key}`}`;

async function configProblems(loaded: Loaded): Promise<Diagnosis[]> {
  const problems = loaded.ok ? await agentsProblems(loaded.config) : loaded.problems;
  // Modes of secrets are checked below, with those that others cannot read but change.
  const warnings = loaded.warnings.filter(({ fix }) => !fix.startsWith("chmod "));
  return [
    ...problems.map((one) => diagnosis("configuration-invalid", at(one), one.message, one.fix)),
    ...(loaded.ok ? withoutResponders(loaded.config) : []).map((one) =>
      diagnosis("escalation-missing", at(one), one.message, one.fix),
    ),
    ...warnings.map((one) =>
      diagnosis(
        one.key === "escalation.responders" ? "escalation-single-path" : "configuration-warning",
        at(one),
        one.message,
        one.fix,
      ),
    ),
    ...(loaded.ok ? loopProblems(loaded.config) : []),
  ];
}

/** Reports notifications to an own address: the daemon would receive them as messages of a customer. */
function loopProblems({ file, channels, escalation }: Config): Diagnosis[] {
  const own = new Map(channels.flatMap((one) => addressesOf(one).map((address) => [address, one.id] as const)));
  const responders = [...(escalation?.responders.values() ?? [])].flatMap(({ id, email, sms }) =>
    [email, sms].flatMap((address) => (address === null ? [] : [[`escalation.responders.${id}`, address] as const])),
  );
  const notified = channels.flatMap(({ id, core }) =>
    (core.notify?.to ?? []).map((address) => [`channels.${id}.notify`, address] as const),
  );
  return [...responders, ...notified].flatMap(([key, address]) => {
    const channel = own.get(address);
    if (channel === undefined) return [];
    const cause = `notifies the address of channel ${channel}: the agent would answer its own notifications`;
    return [diagnosis("notification-loop", `${file} ${key}`, cause, "name an address that a person reads")];
  });
}

async function machineProblems(path: string, io: Io): Promise<Diagnosis[]> {
  const secrets = await loadSecretFiles(path);
  const stored = await loadStore(path, { env: io.env, ...credentialsFor(path, io.env) });
  const files = stored.ok ? sqliteFilesOf(stored.store, stored.embedded) : [];
  const folders = new Set(files.map((file) => dirname(file)));
  const disks = await Promise.all([...folders].map((folder) => diskProblems(folder)));
  return [...fileProblems(path, secrets, files), ...disks.flat()];
}

function systemProblems(config: Config, { online = false }: DoctorOptions, io: Io): Promise<Diagnosis[]> {
  const checks = online ? onlineChecks(config, io) : [];
  return withProgress(io, "checking", 2 + checks.length, async (progress) => {
    const store = await storeProblems(config, { part: (name) => progress.part(name) }, io);
    progress.part("");
    progress.add(1);
    const unusable = store.some(({ severity }) => severity === "error");
    const daemon = daemonProblems(config, await readDaemon(config, io), io.timing);
    const runs = daemon.every(({ id }) => id !== "daemon-stopped");
    progress.add(1);
    const content = unusable ? [] : await contentProblems(config, io);
    const connected = await Promise.all(checks.map((check) => check(runs).finally(() => progress.add(1))));
    return [...store, ...(await platformProblems(config)), ...daemon, ...content, ...connected.flat()];
  });
}

/** Texts of servers may contain control characters, which a terminal would interpret. */
const oneLine = (text: string): string =>
  text
    .slice(0, 2000)
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, " ")
    .trim();

const printed = ({ id, severity, place, cause, remedy, docs }: Diagnosis): string =>
  [
    `${severity.padEnd(8)} ${id}  ${oneLine(place)}`,
    `         ${oneLine(cause)}`,
    `         remedy: ${oneLine(remedy)}`,
    ...(docs === null ? [] : [`         ${docs}`]),
  ].join("\n");

function summary(left: readonly Diagnosis[], { online, only }: DoctorOptions): string {
  const hint = online === true ? "" : " (--online also connects to the servers)";
  if (left.length === 0 && only !== undefined && !Object.hasOwn(catalogue, only))
    return `no problem ${only} found, and it is no built-in one: ${didYouMean(only, Object.keys(catalogue), "docs/doctor.md lists them")}${hint}`;
  if (left.length === 0) return `no problems found${hint}`;
  const counts = order.flatMap((severity) => {
    const count = left.filter((one) => one.severity === severity).length;
    return count === 0 ? [] : [`${count} ${severity}${count === 1 || severity === "info" ? "" : "s"}`];
  });
  return `${counts.join(", ")}${hint}`;
}
