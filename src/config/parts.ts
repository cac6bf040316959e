// Loads single keys of the configuration file, for commands that do not need the rest of it.

import type { AdapterDefinition } from "bridgehead/contract";
import * as z from "zod";
import type { Policy } from "../domain/policy.ts";
import { findAdapters } from "./channels.ts";
import {
  inOrder,
  type LoadOptions,
  type Opened,
  openFile,
  storeConfig,
  withoutUnresolved,
} from "./document.ts";
import { embeddedDatabase, longForm } from "./embedded.ts";
import { brokenEscalation, policyOf } from "./escalation.ts";
import { explain, findingAt, type SchemaFinding } from "./explain.ts";
import type { ChannelConfig, Config, StoreConfig } from "./index.ts";
import { shapeOf } from "./json-schema.ts";
import { adminListenOf, consoleOf, type Rejected } from "./load.ts";
import { nearest } from "./nearest.ts";
import { type Block, block } from "./rules.ts";
import { coreChannel } from "./schema/channel.ts";
import { file as fileSchema } from "./schema/file.ts";
import { isReference, referencedFiles } from "./secrets.ts";

export type LoadedStore =
  | {
      readonly ok: true;
      readonly file: string;
      readonly store: StoreConfig;
      /** In the file's order, disabled ones included. */
      readonly channels: readonly ChannelSummary[];
    }
  | Rejected;

/** A channel of the file as it is written. */
export interface ChannelSummary {
  readonly id: string;
  readonly adapter: string;
  readonly agent: string;
  readonly enabled: boolean;
  readonly mode: "live" | "shadow";
}

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
      /** The channels' blocks as written, unchecked. */
      readonly written: readonly Pick<ChannelConfig, "adapter" | "settings">[];
      /** Path of the embedded platform's database; null when the platform is elsewhere. */
      readonly embedded: string | null;
    }
  | Rejected;

/** Loads the key `store` of the configuration at `path`, and lists its channels. */
export async function loadStore(path: string, options: Omit<LoadOptions, "adapters">): Promise<LoadedStore> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, problems: [opened] };
  const part = readPart(opened, fileSchema.pick({ store: true }), {
    store: block(opened.document.value)["store"],
  });
  if (!part.ok) return part;
  const channels = Object.entries(block(block(opened.document.value)["channels"])).map(summaryOf);
  return { ok: true, file: opened.file, store: storeConfig(part.value.store, opened.folder), channels };
}

/** The file is not validated further: an operator can pause a channel whose block has an error. */
function summaryOf([id, value]: readonly [string, unknown]): ChannelSummary {
  const { adapter, agent, enabled, mode } = block(value);
  return {
    id,
    adapter: typeof adapter === "string" ? adapter : "",
    agent: typeof agent === "string" ? agent : "",
    enabled: enabled !== false,
    mode: mode === "shadow" ? "shadow" : "live",
  };
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

export type LoadedAdminListener =
  | { readonly ok: true; readonly listen: Config["http"]["admin_listen"] }
  | Rejected;

/** Loads the address of the admin listener from the configuration at `path`. */
export async function loadAdminListener(
  path: string,
  options: Omit<LoadOptions, "adapters">,
): Promise<LoadedAdminListener> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, problems: [opened] };
  const { http } = block(opened.document.value);
  const part = readPart(opened, fileSchema.pick({ http: true }), { ...(http !== undefined && { http }) });
  if (!part.ok) return part;
  return { ok: true, listen: adminListenOf(part.value.http) };
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
    written: carriers.map(({ id, adapter }) => ({ adapter, settings: block(block(root["channels"])[id]) })),
    embedded: embeddedIn(root, opened.folder, storeConfig(store, opened.folder)),
  };
}

function embeddedIn(root: Block, folder: string, store: StoreConfig): string | null {
  const platform = block(block(longForm(root))["platform"]);
  const { database } = block(platform["embedded"]);
  if (platform["url"] !== "embedded") return null;
  return embeddedDatabase(typeof database === "string" ? database : undefined, folder, store);
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
