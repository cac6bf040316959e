// Loads the whole file into a `Config`, or the part that a command needs: errors in other keys, including secrets
// that are unavailable to it, do not stop the command. Returns all problems at once. Changes nothing.

import { hostname } from "node:os";
import { channelId } from "bridgehead/contract";
import { type Adapters, findAdapters, type ReadChannel, readSettings, remarksOn, withDefaults } from "./channels.ts";
import { inOrder, type LoadOptions, openFile, storeConfig, withoutUnresolved } from "./document.ts";
import { embeddedConfig, embeddedProblems, embeddedWarnings, longForm } from "./embedded.ts";
import { brokenEscalation, policyOf, silentFailures, unauthenticatedResponders } from "./escalation.ts";
import { explain, type SchemaFinding } from "./explain.ts";
import type { Config, CoreChannel, Problem } from "./index.ts";
import { shapeOf } from "./json-schema.ts";
import {
  type Block,
  block,
  literalSecrets,
  literalStorePassword,
  pathInPlatform,
  plainPlatform,
  plainStore,
  sameListener,
  sharedResources,
  takenNames,
  undefinedAgents,
  unreachableNotify,
  wideListeners,
  wrongStorePaths,
} from "./rules.ts";
import { type File, file as fileSchema } from "./schema/file.ts";
import { withTypes } from "./typed.ts";

/** A configuration that cannot be used. */
export interface Rejected {
  readonly ok: false;
  readonly problems: readonly Problem[];
}

export type Loaded =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly Problem[] }
  | (Rejected & { readonly warnings: readonly Problem[] });

/** Reads the configuration at `path`. Never rejects because of the file's content. */
export async function loadConfig(path: string, options: LoadOptions): Promise<Loaded> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, warnings: [], problems: [opened] };
  const { document, folder, located } = opened;
  const faults = opened.toProblems(document.faults);
  if (document.faults.some((fault) => !fault.readable)) return { ok: false, problems: faults, warnings: [] };

  const texts = opened.resolve(document.value ?? {});
  const { adapters, findings: missing } = await findAdapters(block(texts.value), (name) =>
    options.adapters(name, folder),
  );
  const rootShape = shapeOf(fileSchema);
  const channelShapes = [...adapters].map(([id, { config }]) => ({ path: ["channels", id], shape: shapeOf(config) }));
  const resolved = withTypes(texts, [{ path: [], shape: rootShape }, ...channelShapes]);
  const whole = longForm(withDefaults(resolved.value, adapters));
  const root = fileSchema.safeParse(whole);
  const settings = readSettings(block(resolved.value), block(document.value), adapters);

  const schemaFindings = root.success
    ? []
    : root.error.issues.flatMap((issue) => explain(issue, { input: whole, shape: rootShape }));
  const remarks = remarksOn(block(whole), settings.read);
  const findings = [
    ...resolved.problems,
    ...withoutUnresolved(
      [
        ...schemaFindings,
        ...missing,
        ...settings.findings,
        ...remarks.errors,
        ...brokenEscalation(block(whole), adapters),
        ...pathInPlatform(block(resolved.value)),
        ...embeddedProblems(block(whole)),
      ],
      resolved.problems,
    ),
    ...(options.disk ? wrongStorePaths(block(resolved.value), folder, options.disk) : []),
    ...rules(block(document.value), block(whole), adapters),
    ...sharedResources(block(whole), settings.read),
  ];
  const warnings = located([
    ...resolved.warnings,
    ...remarks.warnings,
    ...plainPlatform(block(resolved.value)),
    ...plainStore(block(resolved.value)),
    ...embeddedWarnings(block(whole)),
    ...wideListeners(block(resolved.value)),
    ...silentFailures(block(whole), adapters),
    ...unauthenticatedResponders(block(whole), adapters),
  ]);
  if (!root.success || findings.length > 0 || faults.length > 0) {
    return { ok: false, problems: inOrder([...faults, ...located(findings)]), warnings };
  }
  const config = assemble(opened.file, folder, root.data, settings.read, block(block(whole)["platform"]));
  return { ok: true, config, warnings };
}

function rules(raw: Block, resolved: Block, adapters: Adapters): readonly SchemaFinding[] {
  const embedded = block(resolved["platform"])["url"] === "embedded";
  const own = { platform: raw["platform"], agents: raw["agents"] };
  const shape = shapeOf(fileSchema);
  const secrets = embedded ? [] : literalSecrets(own, shape, []);
  return [
    ...secrets,
    ...literalSecrets({ model: raw["model"] }, shape, []),
    ...literalSecrets({ escalation: raw["escalation"], otlp: raw["otlp"] }, shape, []),
    ...literalStorePassword(raw),
    ...takenNames(resolved),
    ...sameListener(resolved),
    ...undefinedAgents(resolved),
    ...unreachableNotify(resolved, adapters),
  ];
}

function assemble(
  file: string,
  folder: string,
  data: File,
  read: ReadonlyMap<string, ReadChannel>,
  writtenPlatform: Block,
): Config {
  const channels = Object.entries(data.channels).flatMap(([id, core]) => {
    const own = read.get(id);
    return own === undefined ? [] : [{ id: channelId(id), core: complete(core, read), ...own }];
  });
  const store = storeConfig(data.store, folder);
  return freeze({
    file,
    ...embeddedConfig(data, folder, store, writtenPlatform),
    model: data.model ?? null,
    channels,
    escalation: data.escalation ? policyOf(data.escalation, channels) : null,
    http: { ...data.http, admin_listen: adminListenOf(data.http) },
    console: consoleOf(data),
    store,
    log: data.log,
    retention: data.retention,
    heartbeat: data.heartbeat ?? null,
    otlp: data.otlp ?? null,
    node: data.node ?? hostname(),
  });
}

/** Default of a listener for operators, derived from http.listen. Port 0 stays 0 and selects a free one. */
const besides = ({ port }: { readonly port: number }, distance: number): { host: string; port: number } => ({
  host: "127.0.0.1",
  port: port === 0 ? 0 : port + (port + distance <= 65_535 ? distance : -distance),
});

export const adminListenOf = ({ listen, admin_listen }: File["http"]): Config["http"]["admin_listen"] =>
  admin_listen ?? besides(listen, 1000);

export const consoleOf = (data: Pick<File, "console" | "http">): Config["console"] => ({
  ...data.console,
  listen: data.console.listen ?? besides(data.http.listen, 2),
});

/** Adds defaults that depend on other keys. */
function complete(core: File["channels"][string], read: ReadonlyMap<string, ReadChannel>): CoreChannel {
  const on_new_message = core.on_new_message ?? (core.debounce > 0 ? "drop" : "send");
  if (!core.notify) return { ...core, on_new_message };
  const { channel, to } = core.notify;
  const adapter = read.get(channel)?.adapter;
  return {
    ...core,
    on_new_message,
    notify: { channel, to: to.map((one) => adapter?.address?.(one) ?? one) },
  };
}

/** Freezes records and lists recursively. Adapters and other class instances are left unchanged. */
function freeze<T>(value: T): T {
  if (value === null || typeof value !== "object" || Object.isFrozen(value)) return value;
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null && !Array.isArray(value)) return value;
  for (const [key, inner] of Object.entries(value)) if (key !== "adapter") freeze(inner);
  return Object.freeze(value);
}
