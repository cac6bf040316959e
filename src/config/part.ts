// A part of the configuration, for commands that need nothing else: whatever stands in the other keys, secrets that
// cannot be had here included, does not stop them.

import type { AdapterDefinition } from "bridgehead/contract";
import * as z from "zod";
import { findAdapters } from "./channels.ts";
import type { Problem, StoreConfig } from "./config.ts";
import { explain } from "./explain.ts";
import { type LoadOptions, type Opened, openFile, storeConfig, withoutUnresolved } from "./opened.ts";
import { block } from "./rules.ts";
import { coreChannel } from "./schema/channel.ts";
import { file as fileSchema } from "./schema/file.ts";
import { shapeOf } from "./shape.ts";

export type LoadedStore =
  | { readonly ok: true; readonly file: string; readonly store: StoreConfig }
  | { readonly ok: false; readonly problems: readonly Problem[] };

export type LoadedChannel =
  | {
      readonly ok: true;
      readonly file: string;
      readonly store: StoreConfig;
      /** Every channel of the file. */
      readonly ids: readonly string[];
      /** Null when the file has no such channel. */
      readonly channel: {
        readonly agent: string;
        readonly enabled: boolean;
        readonly adapter: AdapterDefinition;
      } | null;
    }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** The key `store` of the configuration at `path`. */
export async function loadStore(path: string, options: Omit<LoadOptions, "adapters">): Promise<LoadedStore> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, problems: [opened] };
  const part = readPart(opened, fileSchema.pick({ store: true }), ["store"]);
  if (!part.ok) return part;
  return { ok: true, file: opened.file, store: storeConfig(part.value.store, opened.folder) };
}

const channelPart = coreChannel.pick({ adapter: true, agent: true, enabled: true });

/** The key `store`, and of one channel who answers there and by which adapter. */
export async function loadChannel(path: string, id: string, options: LoadOptions): Promise<LoadedChannel> {
  const opened = await openFile(path, options);
  if ("message" in opened) return { ok: false, problems: [opened] };
  const ids = Object.keys(block(block(opened.document.value)["channels"]));
  const schema = fileSchema.pick({ store: true }).extend({ channels: z.record(z.string(), channelPart) });
  const part = readPart(opened, schema, ["store", "channels"], id);
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

function readPart<T extends z.ZodType>(
  opened: Opened,
  schema: T,
  keys: readonly string[],
  channel?: string,
):
  | { readonly ok: true; readonly value: z.output<T> }
  | { readonly ok: false; readonly problems: readonly Problem[] } {
  const { document } = opened;
  const faults = document.faults.filter((fault) => !fault.readable || keys.includes(fault.key));
  if (faults.length > 0) return { ok: false, problems: opened.told(faults) };
  const root = block(document.value);
  const wanted = channel === undefined ? undefined : { [channel]: corePart(root, channel) };
  const resolved = opened.resolve({
    store: root["store"],
    ...(wanted && { channels: wanted[channel ?? ""] === undefined ? {} : wanted }),
  });
  const result = schema.safeParse(resolved.value);
  if (result.success && resolved.problems.length === 0) return { ok: true, value: result.data };
  const scope = { input: resolved.value, shape: shapeOf(schema) };
  const findings = result.success ? [] : result.error.issues.flatMap((issue) => explain(issue, scope));
  const all = [...resolved.problems, ...withoutUnresolved(findings, resolved.problems)];
  return { ok: false, problems: opened.located(all) };
}

/** The keys of `channelPart` alone: the adapter's are not looked at. */
function corePart(root: ReturnType<typeof block>, id: string): unknown {
  const value = block(root["channels"])[id];
  if (value === undefined) return undefined;
  const keys = Object.keys(channelPart.shape);
  return Object.fromEntries(Object.entries(block(value)).filter(([key]) => keys.includes(key)));
}
