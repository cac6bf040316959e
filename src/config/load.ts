// The file -> Config, or everything that is wrong with it at once. Reads the file and what it refers to; changes nothing.

import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { dirname, resolve } from "node:path";
import { type AdapterDefinition, channelId } from "bridgehead/contract";
import type { ChannelConfig, Config, Problem, StoreConfig } from "./config.ts";
import { type Document, type Path, readDocument } from "./document.ts";
import { explain, type Finding } from "./explain.ts";
import {
  block,
  literalSecrets,
  literalStorePassword,
  plainConnections,
  plainPlatform,
  undefinedAgents,
} from "./rules.ts";
import { coreChannel } from "./schema/channel.ts";
import { type File, file as fileSchema } from "./schema/file.ts";
import { resolveReferences } from "./secrets.ts";
import { shapeOf } from "./shape.ts";

export interface LoadOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where systemd put the credentials; default: CREDENTIALS_DIRECTORY of `env`. */
  readonly credentialsDirectory?: string;
  /** Finds an adapter by the name in the file, from the file's folder. Rejects with a message for the operator; an
   *  error's `fix`, if it has one, is shown as the cure. */
  readonly adapters: (name: string, fromFolder: string) => Promise<AdapterDefinition>;
}

export type Loaded =
  | { readonly ok: true; readonly config: Config; readonly warnings: readonly Problem[] }
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly warnings: readonly Problem[] };

const coreKeys = Object.keys(coreChannel.shape);

/** Reads the configuration at `path`. Never rejects for what is in the file. */
export async function loadConfig(path: string, options: LoadOptions): Promise<Loaded> {
  const file = resolve(path);
  const document = await openDocument(file);
  if ("message" in document) return { ok: false, warnings: [], problems: [document] };
  const faults = document.faults.map(({ line, column, key, message, fix }) => ({
    file,
    line,
    column,
    key,
    message,
    fix,
  }));
  if (document.faults.some((fault) => !fault.readable)) return { ok: false, problems: faults, warnings: [] };

  const folder = dirname(file);
  const credentialsDirectory = options.credentialsDirectory ?? options.env["CREDENTIALS_DIRECTORY"];
  const resolved = resolveReferences(document.value ?? {}, {
    env: options.env,
    credentialsDirectory,
    folder,
  });
  const root = fileSchema.safeParse(resolved.value);
  const channels = await readChannels(block(resolved.value), block(document.value), folder, options);

  const rootShape = shapeOf(fileSchema);
  const schemaFindings = root.success
    ? []
    : root.error.issues.flatMap((issue) => explain(issue, { input: resolved.value, shape: rootShape }));
  const findings = [
    ...resolved.problems,
    ...withoutUnresolved([...schemaFindings, ...channels.findings], resolved.problems),
    ...rules(block(document.value), block(resolved.value)),
  ];
  const located = (list: readonly Finding[]): Problem[] =>
    list.map((finding) => locate(finding, document, file));
  const warnings = located([...resolved.warnings, ...plainPlatform(block(resolved.value))]);
  if (!root.success || findings.length > 0 || faults.length > 0) {
    return { ok: false, problems: inOrder([...faults, ...located(findings)]), warnings };
  }
  const config = assemble(file, folder, root.data, channels.read);
  return { ok: true, config, warnings };
}

export type LoadedStore =
  | { readonly ok: true; readonly file: string; readonly store: StoreConfig }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** The key `store` of the configuration at `path`, for commands that need nothing else: whatever stands in the other
 *  keys, secrets that cannot be had here included, does not stop them. */
export async function loadStore(path: string, options: Omit<LoadOptions, "adapters">): Promise<LoadedStore> {
  const file = resolve(path);
  const document = await openDocument(file);
  if ("message" in document) return { ok: false, problems: [document] };
  const faults = document.faults.filter((fault) => !fault.readable || fault.key === "store");
  if (faults.length > 0) {
    const told = faults.map(({ line, column, key, message, fix }) => ({
      file,
      line,
      column,
      key,
      message,
      fix,
    }));
    return { ok: false, problems: told };
  }
  const folder = dirname(file);
  const resolved = resolveReferences(
    { store: block(document.value)["store"] },
    {
      env: options.env,
      credentialsDirectory: options.credentialsDirectory ?? options.env["CREDENTIALS_DIRECTORY"],
      folder,
    },
  );
  const schema = fileSchema.pick({ store: true });
  const result = schema.safeParse(resolved.value);
  if (result.success && resolved.problems.length === 0)
    return { ok: true, file, store: storeConfig(result.data.store, folder) };
  const shape = shapeOf(schema);
  const issues = result.success ? [] : result.error.issues;
  const findings = issues.flatMap((issue) => explain(issue, { input: resolved.value, shape }));
  const all = [...resolved.problems, ...withoutUnresolved(findings, resolved.problems)];
  return { ok: false, problems: all.map((finding) => locate(finding, document, file)) };
}

async function openDocument(file: string): Promise<Document | Problem> {
  try {
    return readDocument(await readFile(file, "utf8"));
  } catch (error) {
    return unreadable(file, error as NodeJS.ErrnoException);
  }
}

type Read = Pick<ChannelConfig, "adapter" | "settings">;

/** The adapters' own keys of every channel block. */
async function readChannels(
  root: Record<string, unknown>,
  raw: Record<string, unknown>,
  folder: string,
  options: LoadOptions,
): Promise<{ read: ReadonlyMap<string, Read>; findings: readonly Finding[] }> {
  const read = new Map<string, Read>();
  const findings: Finding[] = [];
  for (const [id, value] of Object.entries(block(root["channels"]))) {
    const base: Path = ["channels", id];
    const name = block(value)["adapter"];
    if (typeof name !== "string" || name === "") continue; // reported by the schema
    let adapter: AdapterDefinition;
    try {
      adapter = await options.adapters(name, folder);
    } catch (error) {
      const fix =
        (error as { fix?: string }).fix ?? "correct the name, or install the package beside this file";
      findings.push({
        path: [...base, "adapter"],
        of: "value",
        message: (error as Error).message,
        fix,
      });
      continue;
    }
    const input = ownKeys(value);
    const shape = shapeOf(adapter.config);
    const result = adapter.config.safeParse(input);
    if (result.success) read.set(id, { adapter, settings: result.data });
    else {
      const explained = result.error.issues.flatMap((issue) =>
        explain(issue, { input, shape, otherKeys: coreKeys }),
      );
      findings.push(...explained.map((finding) => ({ ...finding, path: [...base, ...finding.path] })));
    }
    findings.push(...literalSecrets(ownKeys(block(raw["channels"])[id]), shape, base));
    const told = new Set(findings.map((finding) => finding.path.join(".")));
    findings.push(...plainConnections(input, base).filter((finding) => !told.has(finding.path.join("."))));
  }
  return { read, findings };
}

const ownKeys = (channel: unknown): Record<string, unknown> =>
  Object.fromEntries(Object.entries(block(channel)).filter(([key]) => !coreKeys.includes(key)));

function rules(raw: Record<string, unknown>, resolved: Record<string, unknown>): readonly Finding[] {
  const embedded = block(resolved["platform"])["url"] === "embedded";
  const own = { platform: raw["platform"], agents: raw["agents"] };
  const secrets = embedded ? [] : literalSecrets(own, shapeOf(fileSchema), []);
  return [...secrets, ...literalStorePassword(raw), ...undefinedAgents(resolved)];
}

/** A value that could not be found is reported once, not again for the shape it does not have. */
function withoutUnresolved(findings: readonly Finding[], unresolved: readonly Finding[]): readonly Finding[] {
  const missing = new Set(unresolved.map((finding) => finding.path.join("\0")));
  return findings.filter((finding) => !missing.has(finding.path.join("\0")));
}

function locate({ path, of, message, fix }: Finding, document: Document, file: string): Problem {
  return { file, ...document.locate(path, of), key: keyText(path), message, fix };
}

const keyText = (path: Path): string =>
  path.reduce<string>(
    (text, step) => (typeof step === "number" ? `${text}[${step}]` : text === "" ? step : `${text}.${step}`),
    "",
  );

const inOrder = (problems: readonly Problem[]): Problem[] =>
  [...problems].sort((a, b) => a.line - b.line || a.column - b.column);

function unreadable(file: string, { code }: NodeJS.ErrnoException): Problem {
  const fix = code === "ENOENT" ? "name another one with --config" : "let the daemon's user read it";
  const message = code === "ENOENT" ? "there is no such file" : `cannot be read (${code})`;
  return { file, line: 0, column: 0, key: "", message, fix };
}

function assemble(file: string, folder: string, data: File, read: ReadonlyMap<string, Read>): Config {
  const { embedded } = data.platform;
  const channels = Object.entries(data.channels).flatMap(([id, core]) => {
    const own = read.get(id);
    return own === undefined ? [] : [{ id: channelId(id), core, ...own }];
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
    http: data.http,
    store: storeConfig(data.store, folder),
    log: data.log,
    retention: data.retention,
    node: data.node ?? hostname(),
  });
}

const databasePath = (folder: string, path: string): string =>
  path === ":memory:" ? path : resolve(folder, path);

function storeConfig(text: string, folder: string): StoreConfig {
  if (!text.startsWith("sqlite:")) return { kind: "postgres", url: text };
  return { kind: "sqlite", file: databasePath(folder, text.slice("sqlite:".length)) };
}

/** Freezes records and lists all the way down; adapters and other objects with an identity are left alone. */
function freeze<T>(value: T): T {
  if (value === null || typeof value !== "object" || Object.isFrozen(value)) return value;
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null && !Array.isArray(value)) return value;
  for (const [key, inner] of Object.entries(value)) if (key !== "adapter") freeze(inner);
  return Object.freeze(value);
}
