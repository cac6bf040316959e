// Loads single keys of the configuration file, for commands that do not need the rest of it.

import * as z from "zod";
import { findAdapters } from "./channels.ts";
import { inOrder, type LoadOptions, type Opened, openFile, storeConfig, withoutUnresolved } from "./document.ts";
import { embeddedDatabase, longForm } from "./embedded.ts";
import { brokenEscalation, policyOf } from "./escalation.ts";
import { explain, findingAt, type SchemaFinding } from "./explain.ts";
import type { Problem, StoreConfig } from "./index.ts";
import { shapeOf } from "./json-schema.ts";
import { adminListenOf, consoleOf, type Rejected } from "./load.ts";
import { nearest } from "./nearest.ts";
import { type Block, block } from "./rules.ts";
import { coreChannel } from "./schema/channel.ts";
import { file as fileSchema } from "./schema/file.ts";
import { isReference, referencedFiles } from "./secrets.ts";
import { withTypes } from "./typed.ts";

/** A channel of the file as it is written. */
export interface ChannelSummary {
  readonly id: string;
  readonly adapter: string;
  readonly agent: string;
  readonly enabled: boolean;
  readonly mode: "live" | "shadow";
}

type Environment = Omit<LoadOptions, "adapters">;
/** `file`: absolute path. */
type Usable<Part> = { readonly ok: true; readonly file: string } & Part;

/** Reads the keys that `select` takes from the file, validates them with `schema`, and returns what `build` makes of
 *  them. `written`: the selected keys with their references resolved. */
async function loadPart<Schema extends z.ZodType, Part extends object>(
  path: string,
  options: Environment,
  schema: Schema,
  select: (root: Block) => Block,
  build: (
    value: z.output<Schema>,
    opened: Opened & { readonly root: Block; readonly written: Block },
  ) => Part | Rejected | Promise<Part | Rejected>,
): Promise<Usable<Part> | Rejected> {
  const opened = await openFile(path, options);
  if ("message" in opened) return rejected([opened]);
  const root = block(opened.document.value);
  const read = readPart(opened, schema, select(root));
  if (!read.ok) return read;
  const built = await build(read.value, { ...opened, root, written: read.written });
  return isRejected(built) ? built : { ok: true, file: opened.file, ...built };
}

const isRejected = (part: object): part is Rejected => "problems" in part;
const rejected = (problems: readonly Problem[]): Rejected => ({ ok: false, problems });

/** Loads the key `store` of the configuration at `path`, and lists its channels in the file's order, disabled ones
 *  included. */
export const loadStore = (path: string, options: Environment) =>
  loadPart(
    path,
    options,
    fileSchema.pick({ store: true }),
    ({ store }) => ({ store }),
    ({ store }, { folder, root }) => ({
      store: storeConfig(store, folder),
      channels: Object.entries(block(root["channels"])).map(summaryOf),
      /** Path of the embedded platform's database; null when the platform is elsewhere. */
      embedded: embeddedIn(root, folder, storeConfig(store, folder)),
    }),
  );

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

export const loadConsole = (path: string, options: Environment) =>
  loadPart(
    path,
    options,
    fileSchema.pick({ store: true, console: true, http: true }),
    ({ store, console, http }) => {
      // Only the port of the listener matters here; its other keys may have references that the command cannot resolve.
      const { listen } = block(http);
      return { store, console, ...(listen !== undefined && { http: { listen } }) };
    },
    (value, { folder }) => ({ store: storeConfig(value.store, folder), console: consoleOf(value) }),
  );

/** Returns the absolute paths of the files that the configuration at `path` takes values from; none when it cannot be
 *  read. */
export async function loadSecretFiles(path: string): Promise<readonly string[]> {
  const opened = await openFile(path, { env: {} });
  if ("message" in opened) return [];
  return [...new Set(referencedFiles(opened.document.value, opened.folder))];
}

export const loadAdminListener = (path: string, options: Environment) =>
  loadPart(
    path,
    options,
    fileSchema.pick({ http: true }),
    ({ http }) => ({ ...(http !== undefined && { http }) }),
    ({ http }) => ({ listen: adminListenOf(http) }),
  );

const channelPart = coreChannel.pick({ adapter: true, agent: true, enabled: true });
const channelParts = z.record(z.string(), channelPart);

/** Loads the key `store`, the ids of all channels, and the agent and adapter of one channel; null when the file has no
 *  such channel. */
export const loadChannel = (path: string, id: string, options: LoadOptions) =>
  loadPart(
    path,
    options,
    fileSchema.pick({ store: true }).extend({ channels: channelParts }),
    (root) => ({ store: root["store"], channels: coreParts(root, (one) => one === id) }),
    async ({ store, channels }, { folder, root, located }) => {
      const blocks = block(root["channels"]);
      const base = { store: storeConfig(store, folder), ids: Object.keys(blocks) };
      const channel = channels[id];
      if (!channel) return { ...base, channel: null };
      const found = await findAdapters({ channels }, (name) => options.adapters(name, folder));
      const adapter = found.adapters.get(id);
      if (!adapter) return rejected(located(found.findings));
      const { agent, enabled } = channel;
      /** `settings`: the channel's block as written, unchecked. */
      return { ...base, channel: { agent, enabled, adapter, settings: block(blocks[id]) } };
    },
  );

/** Loads the keys `store` and `escalation`, and the agent and adapter of every channel. */
export const loadPolicy = (path: string, options: LoadOptions) =>
  loadPart(
    path,
    options,
    fileSchema.pick({ store: true, escalation: true }).extend({ channels: channelParts }),
    (root) => ({
      store: root["store"],
      channels: coreParts(root, () => true),
      ...("escalation" in root && { escalation: withoutKeys(root["escalation"]) }),
    }),
    async ({ store: text, channels, escalation }, { folder, root, located, written }) => {
      const { adapters, findings } = await findAdapters({ channels }, (name) => options.adapters(name, folder));
      const broken = brokenEscalation({ ...written, agents: root["agents"] }, adapters);
      if (findings.length + broken.length > 0) return rejected(inOrder(located([...findings, ...broken])));
      const carriers = Object.entries(channels).flatMap(([id, core]) => {
        const adapter = adapters.get(id);
        return adapter ? [{ id, core, adapter }] : [];
      });
      const store = storeConfig(text, folder);
      const blocks = block(root["channels"]);
      return {
        store,
        agents: Object.keys(block(root["agents"])),
        channels: carriers.map(({ id, core: { agent, enabled }, adapter: { traits } }) => ({
          id,
          agent,
          enabled,
          platform: traits.platform,
        })),
        /** The policy without headers, keys and the platform's webhooks. A webhook URL that is a reference is omitted
         *  too. Null when the file has no such key. */
        policy: escalation ? policyOf(escalation, carriers) : null,
        /** The channels' blocks as written, unchecked. */
        written: carriers.map(({ id, adapter }) => ({ adapter, settings: block(blocks[id]) })),
        /** Path of the embedded platform's database; null when the platform is elsewhere. */
        embedded: embeddedIn(root, folder, store),
      };
    },
  );

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
  if (faults.length > 0) return rejected(opened.toProblems(faults));
  const wrong = wrongRoot(document.value, Object.keys(raw));
  if (wrong !== null) return rejected(opened.located([wrong]));
  const shape = shapeOf(schema);
  const resolved = withTypes(opened.resolve(raw), [{ path: [], shape }]);
  const result = schema.safeParse(resolved.value);
  if (result.success && resolved.problems.length === 0)
    return { ok: true, value: result.data, written: block(resolved.value) };
  const scope = { input: resolved.value, shape };
  const findings = result.success ? [] : result.error.issues.flatMap((issue) => explain(issue, scope));
  const all = [...resolved.problems, ...withoutUnresolved(findings, resolved.problems)];
  return rejected(opened.located(all));
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
