// The channel blocks: loads their adapters, applies the adapters' defaults, and validates the adapters' own keys.

import type { AdapterDefinition, Remark, Surroundings } from "bridgehead/contract";
import * as z from "zod";
import type { Path } from "./document.ts";
import { explain, type SchemaFinding } from "./explain.ts";
import type { ChannelConfig } from "./index.ts";
import { shapeOf } from "./json-schema.ts";
import { channelSecrets, masking } from "./mask.ts";
import { type Block, block, literalSecrets, plainConnections, resourcesOf } from "./rules.ts";
import { coreChannel } from "./schema/channel.ts";

export type Adapters = ReadonlyMap<string, AdapterDefinition>;
export type ReadChannel = Pick<ChannelConfig, "adapter" | "settings">;

const coreKeys = Object.keys(coreChannel.shape);

/** The core's keys for which an adapter may set defaults: all except those that name another item of the file. */
const settable = z.strictObject(coreChannel.omit({ adapter: true, agent: true, notify: true }).partial().shape);

/** Loads the adapter of every channel that names one, and validates its defaults. */
export async function findAdapters(
  root: Block,
  load: (name: string) => Promise<AdapterDefinition>,
): Promise<{ adapters: Adapters; findings: readonly SchemaFinding[] }> {
  const adapters = new Map<string, AdapterDefinition>();
  const findings: SchemaFinding[] = [];
  const owners = new Map<string, string>();
  for (const [id, value] of Object.entries(block(root["channels"]))) {
    const name = block(value)["adapter"];
    if (typeof name !== "string" || name === "") continue; // reported by the schema
    const refuse = (message: string, fix: string) =>
      findings.push({ path: ["channels", id, "adapter"], of: "value", message, fix });
    try {
      const adapter = await load(name);
      const owner = owners.get(adapter.name) ?? name;
      owners.set(adapter.name, owner);
      const wrong = wrongDefaults(adapter);
      const reserved = Object.keys(shapeOf(adapter.config).properties ?? {}).filter((key) => coreKeys.includes(key));
      if (reserved.length > 0) {
        const fix = "its author: name them otherwise, or set their defaults in traits.defaults";
        refuse(`the config of the adapter ${name} has keys that belong to the core: ${reserved.join(", ")}`, fix);
      } else if (owner !== name) {
        const message = `the adapters ${owner} and ${name} have the same name, ${adapter.name}, and would share stored secrets`;
        refuse(message, "its author: give it another name; of one adapter: write it the same way in each channel");
      } else if (wrong === null) adapters.set(id, adapter);
      else refuse(`the adapter ${name} has wrong defaults: ${wrong}`, "its author: see Traits.defaults");
    } catch (error) {
      const fix = (error as { fix?: string }).fix;
      refuse((error as Error).message, fix ?? "correct the name, or install the package beside this file");
    }
  }
  return { adapters, findings };
}

function wrongDefaults({ traits }: AdapterDefinition): string | null {
  const result = settable.safeParse(traits.defaults ?? {});
  if (result.success) return null;
  const scope = { input: traits.defaults, shape: shapeOf(settable) };
  const found = result.error.issues.flatMap((issue) => explain(issue, scope));
  return found.map(({ path, message }) => `${path.join(".")} ${message}`).join("; ");
}

/** Returns the file's content with missing channel keys set to their adapters' defaults. */
export function withDefaults(root: unknown, adapters: Adapters): unknown {
  const whole = block(root);
  const channels = Object.entries(block(whole["channels"]));
  if (channels.length === 0) return root;
  const filled = channels.map(([id, value]) => [id, under(adapters.get(id)?.traits.defaults, value)]);
  return { ...whole, channels: Object.fromEntries(filled) };
}

/** Merges key by key; written values take precedence. A list counts as one value. */
function under(defaults: unknown, written: unknown): unknown {
  if (!isBlock(defaults) || !isBlock(written)) return written;
  const known = Object.entries(defaults).map(([key, value]) => [
    key,
    key in written ? under(value, written[key]) : value,
  ]);
  return { ...written, ...Object.fromEntries(known) };
}

const isBlock = (value: unknown): value is Block =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/** Collects the adapters' remarks about their enabled channels. `root` is the file with references resolved. */
export function remarksOn(
  root: Block,
  read: ReadonlyMap<string, ReadChannel>,
): { readonly errors: readonly SchemaFinding[]; readonly warnings: readonly SchemaFinding[] } {
  const http = block(root["http"]);
  const url = http["public_url"];
  const around: Surroundings = {
    publicUrl: typeof url === "string" ? URL.parse(url) : null,
    trial: typeof http["listen"] === "string" && http["listen"].endsWith(":0"),
  };
  const remarks = [...read].flatMap(([id, channel]) =>
    block(block(root["channels"])[id])["enabled"] === false
      ? []
      : remarksOf(channel, around).map(({ severity, path, message, fix }) => {
          const whole = path[0] === "..";
          // As many steps up as the author counted.
          const at = whole ? path.slice(path.findIndex((step) => step !== "..")) : ["channels", id, ...path];
          // A key outside the channel's block is reported once for all channels that need it.
          const of = path.length === 0 ? ("key" as const) : ("value" as const);
          return { severity, finding: { path: at, of, message, fix } };
        }),
  );
  const of = (wanted: Remark["severity"]): readonly SchemaFinding[] => {
    const found = remarks.filter(({ severity }) => severity === wanted).map(({ finding }) => finding);
    const place = ({ path, of, message }: SchemaFinding) => [...path, ...(of === "key" ? [message] : [])].join("\0");
    return [...new Map(found.map((finding) => [place(finding), finding])).values()];
  };
  return { errors: of("error"), warnings: of("warning") };
}

/** A review that throws, or that returns no remarks, is reported, and does not stop the daemon's start. The same holds for
 *  `exclusive`. */
function remarksOf({ adapter, settings }: ReadChannel, around: Surroundings): readonly Remark[] {
  const mask = masking(channelSecrets({ adapter, settings }));
  const flawed = (message: string): Remark => ({
    severity: "warning",
    path: [],
    message,
    fix: "report it to the author of the adapter",
  });
  const resources = resourcesOf({ adapter, settings });
  const unnamed =
    typeof resources === "string"
      ? [
          flawed(
            `was not compared with other channels: exclusive of the adapter ${adapter.name} ${mask(resources)}; both would answer on one account`,
          ),
        ]
      : [];
  let flaw = "returned no array of { severity, path, message, fix }";
  try {
    const remarks: unknown = adapter.review?.(settings, around) ?? [];
    if (Array.isArray(remarks) && remarks.every(isRemark))
      return [...unnamed, ...remarks.map((one) => ({ ...one, message: mask(one.message), fix: mask(one.fix) }))];
  } catch (error) {
    flaw = `threw: ${mask(error instanceof Error ? error.message : String(error))}`;
  }
  return [...unnamed, flawed(`was not reviewed: review of the adapter ${adapter.name} ${flaw}`)];
}

/** False for what an adapter without types may return, such as a promise or a remark without a path. */
function isRemark(given: unknown): given is Remark {
  const { severity, path, message, fix } = Object(given) as { readonly [key in keyof Remark]?: unknown };
  const isKnown = severity === "error" || severity === "warning";
  return isKnown && Array.isArray(path) && typeof message === "string" && typeof fix === "string";
}

/** Validates the adapters' own keys of every channel block. `raw`: the file before references were resolved. */
export function readSettings(
  root: Block,
  raw: Block,
  adapters: Adapters,
): { read: ReadonlyMap<string, ReadChannel>; findings: readonly SchemaFinding[] } {
  const read = new Map<string, ReadChannel>();
  const findings: SchemaFinding[] = [];
  for (const [id, adapter] of adapters) {
    const base: Path = ["channels", id];
    const input = ownKeys(block(root["channels"])[id]);
    const shape = shapeOf(adapter.config);
    const result = parsed(adapter, input);
    if ("threw" in result) {
      const message = `cannot be read: the config of the adapter ${adapter.name} threw: ${result.threw}`;
      const fix = "its author: throw no error in the schema, and check nothing asynchronously";
      findings.push({ path: base, of: "key", message, fix });
    } else if (result.success) read.set(id, { adapter, settings: result.data });
    else {
      const explained = result.error.issues.flatMap((issue) => explain(issue, { input, shape, otherKeys: coreKeys }));
      findings.push(...explained.map((finding) => ({ ...finding, path: [...base, ...finding.path] })));
    }
    findings.push(...literalSecrets(ownKeys(block(raw["channels"])[id]), shape, base));
    const reported = new Set(findings.map((finding) => finding.path.join(".")));
    findings.push(...plainConnections(input, base).filter((finding) => !reported.has(finding.path.join("."))));
  }
  return { read, findings };
}

/** Returns the result of the adapter's schema, or the error that one of its own functions has thrown. `safeParse` loses the
 *  promise of an asynchronous check, and a rejection of it would end the process. */
function parsed({ config }: AdapterDefinition, input: unknown): z.ZodSafeParseResult<unknown> | { threw: string } {
  try {
    const run = config["_zod"].run({ value: input, issues: [] }, { async: true });
    if (!(run instanceof Promise)) return config.safeParse(input);
    run.catch(() => undefined);
    return { threw: "a check returned a promise" };
  } catch (error) {
    return { threw: error instanceof Error ? error.message : String(error) };
  }
}

const ownKeys = (channel: unknown): Record<string, unknown> =>
  Object.fromEntries(Object.entries(block(channel)).filter(([key]) => !coreKeys.includes(key)));
