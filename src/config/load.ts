// Loads the whole file into a `Config`, or the part that a command needs: errors in other keys, including secrets
// that are unavailable to it, do not stop the command. Returns all problems at once. Changes nothing.

import { hostname } from "node:os";
import { resolve } from "node:path";
import { type AdapterDefinition, channelId } from "bridgehead/contract";
import * as z from "zod";
import type { Policy } from "../domain/policy.ts";
import {
  type Adapters,
  findAdapters,
  type ReadChannel,
  readSettings,
  remarksOn,
  withDefaults,
} from "./channels.ts";
import {
  databasePath,
  inOrder,
  type LoadOptions,
  type Opened,
  openFile,
  storeConfig,
  withoutUnresolved,
} from "./document.ts";
import { brokenEscalation, policyOf, silentFailures, unauthenticatedResponders } from "./escalation.ts";
import { explain, findingAt, type SchemaFinding } from "./explain.ts";
import type { Config, CoreChannel, Problem, StoreConfig } from "./index.ts";
import { shapeOf } from "./json-schema.ts";
import { nearest } from "./nearest.ts";
import {
  type Block,
  block,
  literalSecrets,
  literalStorePassword,
  pathInPlatform,
  plainPlatform,
  sameListener,
  sharedResources,
  takenNames,
  undefinedAgents,
  unreachableNotify,
  wideListeners,
  wrongStorePath,
} from "./rules.ts";
import { coreChannel } from "./schema/channel.ts";
import { type File, file as fileSchema } from "./schema/file.ts";
import { isReference, referencedFiles } from "./secrets.ts";

export type Loaded =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly Problem[] }
  | (Rejected & { readonly warnings: readonly Problem[] });

/** Reads the configuration at `path`. Never rejects because of the file's content. */
export async function loadConfig(path: string, options: LoadOptions): Promise<Loaded> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, warnings: [], problems: [opened] };
  const { document, folder, located } = opened;
  const faults = opened.told(document.faults);
  if (document.faults.some((fault) => !fault.readable)) return { ok: false, problems: faults, warnings: [] };

  const resolved = opened.resolve(document.value ?? {});
  const { adapters, findings: missing } = await findAdapters(block(resolved.value), (name) =>
    options.adapters(name, folder),
  );
  const whole = withDefaults(resolved.value, adapters);
  const root = fileSchema.safeParse(whole);
  const settings = readSettings(block(resolved.value), block(document.value), adapters);

  const rootShape = shapeOf(fileSchema);
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
      ],
      resolved.problems,
    ),
    ...(options.folderExists ? wrongStorePath(block(resolved.value), folder, options.folderExists) : []),
    ...rules(block(document.value), block(whole), adapters),
    ...sharedResources(block(whole), settings.read),
  ];
  const warnings = located([
    ...resolved.warnings,
    ...remarks.warnings,
    ...plainPlatform(block(resolved.value)),
    ...wideListeners(block(resolved.value)),
    ...silentFailures(block(whole), adapters),
    ...unauthenticatedResponders(block(whole), adapters),
  ]);
  if (!root.success || findings.length > 0 || faults.length > 0) {
    return { ok: false, problems: inOrder([...faults, ...located(findings)]), warnings };
  }
  const config = assemble(opened.file, folder, root.data, settings.read);
  return { ok: true, config, warnings };
}

function rules(raw: Block, resolved: Block, adapters: Adapters): readonly SchemaFinding[] {
  const embedded = block(resolved["platform"])["url"] === "embedded";
  const own = { platform: raw["platform"], agents: raw["agents"] };
  const shape = shapeOf(fileSchema);
  const secrets = embedded ? [] : literalSecrets(own, shape, []);
  return [
    ...secrets,
    ...literalSecrets({ escalation: raw["escalation"] }, shape, []),
    ...literalStorePassword(raw),
    ...takenNames(resolved),
    ...sameListener(resolved),
    ...undefinedAgents(resolved),
    ...unreachableNotify(resolved, adapters),
  ];
}

function assemble(file: string, folder: string, data: File, read: ReadonlyMap<string, ReadChannel>): Config {
  const { embedded } = data.platform;
  const channels = Object.entries(data.channels).flatMap(([id, core]) => {
    const own = read.get(id);
    return own === undefined ? [] : [{ id: channelId(id), core: complete(core, read), ...own }];
  });
  const paths = embedded && {
    ...embedded,
    agents: resolve(folder, embedded.agents),
    database: databasePath(folder, embedded.database),
  };
  return freeze({
    file,
    platform: { ...data.platform, ...(paths && { embedded: paths }) },
    agents: data.agents,
    channels,
    escalation: data.escalation ? policyOf(data.escalation, channels) : null,
    http: { ...data.http, admin_listen: data.http.admin_listen ?? besides(data.http.listen, 1000) },
    console: consoleOf(data),
    store: storeConfig(data.store, folder),
    log: data.log,
    retention: data.retention,
    node: data.node ?? hostname(),
  });
}

/** Default of a listener for operators, derived from http.listen. Port 0 stays 0 and selects a free one. */
const besides = ({ port }: { readonly port: number }, distance: number): { host: string; port: number } => ({
  host: "127.0.0.1",
  port: port === 0 ? 0 : port + (port + distance <= 65_535 ? distance : -distance),
});

const consoleOf = (data: Pick<File, "console" | "http">): Config["console"] => ({
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

interface Rejected {
  readonly ok: false;
  readonly problems: readonly Problem[];
}

export type LoadedStore =
  | { readonly ok: true; readonly file: string; readonly store: StoreConfig }
  | Rejected;

export type LoadedConsole =
  | {
      readonly ok: true;
      readonly file: string;
      readonly store: StoreConfig;
      readonly console: Config["console"];
    }
  | Rejected;

export type LoadedChannel =
  | {
      readonly ok: true;
      readonly file: string;
      readonly store: StoreConfig;
      /** Ids of all channels in the file. */
      readonly ids: readonly string[];
      /** Null when the file has no such channel. */
      readonly channel: {
        readonly agent: string;
        readonly enabled: boolean;
        readonly adapter: AdapterDefinition;
      } | null;
    }
  | Rejected;

export type LoadedPolicy =
  | {
      readonly ok: true;
      readonly file: string;
      readonly store: StoreConfig;
      /** Names of the agents. */
      readonly agents: readonly string[];
      /** In the file's order. */
      readonly channels: readonly {
        readonly id: string;
        readonly agent: string;
        readonly enabled: boolean;
        readonly platform: AdapterDefinition["traits"]["platform"];
      }[];
      /** The policy without headers, keys and the platform's webhooks. A webhook URL that is a reference
       *  is omitted too. Null when the file has no such key. */
      readonly policy: Policy | null;
    }
  | Rejected;

/** Loads the key `store` of the configuration at `path`. */
export async function loadStore(path: string, options: Omit<LoadOptions, "adapters">): Promise<LoadedStore> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, problems: [opened] };
  const part = readPart(opened, fileSchema.pick({ store: true }), {
    store: block(opened.document.value)["store"],
  });
  if (!part.ok) return part;
  return { ok: true, file: opened.file, store: storeConfig(part.value.store, opened.folder) };
}

/** Loads the keys `store` and `console`. */
export async function loadConsole(
  path: string,
  options: Omit<LoadOptions, "adapters">,
): Promise<LoadedConsole> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, problems: [opened] };
  const root = block(opened.document.value);
  const schema = fileSchema.pick({ store: true, console: true }).extend({ http: fileSchema.shape.http });
  const given = Object.fromEntries(["store", "console"].map((key) => [key, root[key]]));
  // Only the port of the listener matters here; its other keys may have references that the command cannot resolve.
  const { listen } = block(root["http"]);
  const part = readPart(opened, schema, { ...given, ...(listen !== undefined && { http: { listen } }) });
  if (!part.ok) return part;
  const { file, folder } = opened;
  return { ok: true, file, store: storeConfig(part.value.store, folder), console: consoleOf(part.value) };
}

/** Returns the absolute paths of the files that the configuration at `path` takes values from; none when it cannot be
 *  read. */
export async function loadSecretFiles(path: string): Promise<readonly string[]> {
  const opened = await openFile(path, { env: {} });
  if ("message" in opened) return [];
  return [...new Set(referencedFiles(opened.document.value, opened.folder))];
}

const channelPart = coreChannel.pick({ adapter: true, agent: true, enabled: true });
const channelParts = z.record(z.string(), channelPart);

/** Loads the key `store`, and the agent and adapter of one channel. */
export async function loadChannel(path: string, id: string, options: LoadOptions): Promise<LoadedChannel> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, problems: [opened] };
  const root = block(opened.document.value);
  const ids = Object.keys(block(root["channels"]));
  const part = readPart(opened, fileSchema.pick({ store: true }).extend({ channels: channelParts }), {
    store: root["store"],
    channels: coreParts(root, (one) => one === id),
  });
  if (!part.ok) return part;
  const { store, channels } = part.value;
  const base = { ok: true, file: opened.file, store: storeConfig(store, opened.folder), ids } as const;
  const channel = channels[id];
  if (!channel) return { ...base, channel: null };
  const found = await findAdapters({ channels }, (name) => options.adapters(name, opened.folder));
  const adapter = found.adapters.get(id);
  if (!adapter) return { ok: false, problems: opened.located(found.findings) };
  return { ...base, channel: { agent: channel.agent, enabled: channel.enabled, adapter } };
}

/** Loads the keys `store` and `escalation`, and the agent and adapter of every channel. */
export async function loadPolicy(path: string, options: LoadOptions): Promise<LoadedPolicy> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, problems: [opened] };
  const root = block(opened.document.value);
  const schema = fileSchema.pick({ store: true, escalation: true }).extend({ channels: channelParts });
  const part = readPart(opened, schema, {
    store: root["store"],
    channels: coreParts(root, () => true),
    ...("escalation" in root && { escalation: withoutKeys(root["escalation"]) }),
  });
  if (!part.ok) return part;
  const { store, channels, escalation } = part.value;
  const { adapters, findings } = await findAdapters({ channels }, (name) =>
    options.adapters(name, opened.folder),
  );
  const broken = brokenEscalation({ ...part.written, agents: root["agents"] }, adapters);
  if (findings.length + broken.length > 0)
    return { ok: false, problems: inOrder(opened.located([...findings, ...broken])) };
  const carriers = Object.entries(channels).flatMap(([id, core]) => {
    const adapter = adapters.get(id);
    return adapter ? [{ id, core, adapter }] : [];
  });
  return {
    ok: true,
    file: opened.file,
    store: storeConfig(store, opened.folder),
    agents: Object.keys(block(root["agents"])),
    channels: carriers.map(({ id, core, adapter }) => ({
      id,
      agent: core.agent,
      enabled: core.enabled,
      platform: adapter.traits.platform,
    })),
    policy: escalation ? policyOf(escalation, carriers) : null,
  };
}

/** `raw`: the selected part of the file as written. `written`: the same with its references resolved. */
function readPart<T extends z.ZodType>(
  opened: Opened,
  schema: T,
  raw: Block,
): { readonly ok: true; readonly value: z.output<T>; readonly written: Block } | Rejected {
  const { document } = opened;
  const faults = document.faults.filter((fault) => !fault.readable || Object.hasOwn(raw, fault.key));
  if (faults.length > 0) return { ok: false, problems: opened.told(faults) };
  const wrong = wrongRoot(document.value, Object.keys(raw));
  if (wrong !== null) return { ok: false, problems: opened.located([wrong]) };
  const resolved = opened.resolve(raw);
  const result = schema.safeParse(resolved.value);
  if (result.success && resolved.problems.length === 0)
    return { ok: true, value: result.data, written: block(resolved.value) };
  const scope = { input: resolved.value, shape: shapeOf(schema) };
  const findings = result.success ? [] : result.error.issues.flatMap((issue) => explain(issue, scope));
  const all = [...resolved.problems, ...withoutUnresolved(findings, resolved.problems)];
  return { ok: false, problems: opened.located(all) };
}

/** Reports a file without keys, and a misspelled key that the command needs: the command would use its default, and
 *  work on another store. */
function wrongRoot(root: unknown, wanted: readonly string[]): SchemaFinding | null {
  const keys = Object.keys(block(root));
  if (keys.length === 0) return findingAt([], "is not a configuration: it has no keys", "name another file");
  const known = Object.keys(fileSchema.shape);
  const missing = wanted.filter((key) => !keys.includes(key));
  for (const key of keys.filter((one) => !known.includes(one))) {
    const guess = nearest(key, missing);
    if (guess !== undefined) return findingAt([key], "is not a known key", `did you mean ${guess}?`, "key");
  }
  return null;
}

/** Returns the keys of `channelPart` for the selected channels. The adapters' keys are ignored. */
function coreParts(root: Block, wanted: (id: string) => boolean): unknown {
  const keys = Object.keys(channelPart.shape);
  const channels = Object.entries(block(root["channels"])).filter(([id]) => wanted(id));
  return Object.fromEntries(
    channels.map(([id, value]) => [
      id,
      Object.fromEntries(Object.entries(block(value)).filter(([key]) => keys.includes(key))),
    ]),
  );
}

/** Removes values that only the service can read. They do not affect who is notified and when. */
function withoutKeys(escalation: unknown): unknown {
  const { platform_webhook: _hook, ...rest } = block(escalation);
  const people = Object.entries(block(rest["responders"])).map(([id, value]) => {
    const person = block(value);
    if (person["webhook"] === undefined) return [id, value];
    const { headers: _headers, secret: _secret, ...webhook } = block(person["webhook"]);
    const hidden = isReference(String(webhook["url"])) && { url: "https://hidden.invalid" };
    return [id, { ...person, webhook: { ...webhook, ...hidden } }];
  });
  return people.length > 0 ? { ...rest, responders: Object.fromEntries(people) } : escalation;
}
