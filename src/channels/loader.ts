// Loads an adapter by its name in the configuration. Built-in and foreign adapters use the same path. No
// check uses `instanceof`, because an adapter may include its own copy of our contract and of zod. The entry point of a
// foreign adapter is resolved relative to the configuration's folder; Node's own `import` would resolve it relative to
// this file's folder.

import { AsyncLocalStorage } from "node:async_hooks";
import { existsSync, readFileSync, statSync } from "node:fs";
import { createRequire, findPackageJSON } from "node:module";
import { dirname, extname, isAbsolute, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import {
  type Adapter,
  type AdapterDefinition,
  type Channel,
  type Clock,
  second,
  wrongPart,
  wrongTraits,
} from "bridgehead/contract";
import type { ZodType } from "zod";
import { shapeOf } from "../config/json-schema.ts";
import { channelSecrets, masking } from "../config/mask.ts";
import { nearest } from "../config/nearest.ts";
import { endsWithin, systemClock } from "../ops/clock.ts";
import { standardTiming } from "../ops/timing.ts";

/** Names of the built-in adapters, as used in the configuration file. */
export const builtIn: readonly string[] = ["email", "sms", "voice"];
const contractNumber = 1;

/** Rejection of `loadAdapter`: a message and a fix for the operator. */
export interface LoadError extends Error {
  readonly fix: string;
}

/** Loads an adapter: `email` is built-in, `./path` and `@acme/fax` are resolved from the configuration's folder.
 *  Rejects with a `LoadError` when it does not exist, has not loaded after `loadMs`, or does not implement this contract. */
export async function loadAdapter(
  name: string,
  fromFolder: string,
  loadMs: number = standardTiming.channels.load,
): Promise<AdapterDefinition> {
  // The relative path from this file to the adapters is the same in a checkout (.ts) and after a build (.js).
  const entry = builtIn.includes(name)
    ? new URL(`../../adapters/${name}/index${extname(import.meta.url)}`, import.meta.url).href
    : foreignEntry(name, fromFolder);
  const loading = (import(entry) as Promise<{ default?: unknown }>).catch((error: unknown) => {
    const message = `cannot load the adapter ${name}: ${error instanceof Error ? error.message : String(error)}`;
    throw refusal(message, "repair the package, or install what it needs", error);
  });
  // The timer also keeps a process alive that waits for nothing else: it would end without a word.
  if (!(await endsWithin(loading, loadMs, systemClock))) {
    const message = `the adapter ${name} has not loaded within ${loadMs / second} s`;
    throw refusal(message, "its author: await nothing at the top of its files");
  }
  const definition = checked(name, unwrapped((await loading).default));
  if (!builtIn.includes(name)) folders.set(definition, new URL(".", entry));
  return definition;
}

/** The folders of foreign adapters. */
const folders = new Map<AdapterDefinition, URL>();
const ownFolders = ["src", "adapters"].map((name) => new URL(`../../${name}/`, import.meta.url));

/** The foreign adapter whose `run` has begun what runs now. */
const origin = new AsyncLocalStorage<AdapterDefinition>();

/** Calls `run` so that `throwersOf` attributes the errors of what it begins, also those whose stack names no file of the
 *  adapter: an `error` event without a listener has frames of Node alone. */
export const attributed = <T>(adapter: AdapterDefinition, run: () => T): T =>
  folders.has(adapter) ? origin.run(adapter, run) : run();

/** Returns the foreign adapters to which an error that was caught nowhere belongs: its stack names a file of theirs, or it
 *  names none of ours and the adapter has begun what threw it. Call it where the error is reported. */
export function throwersOf(error: unknown): readonly AdapterDefinition[] {
  if (!(error instanceof Error)) return [];
  const frames = String(error.stack)
    .split("\n")
    .filter((line) => line.startsWith("    at "));
  const isOwn = (frame: string) => ownFolders.some((own) => isIn(frame, own));
  // The folder of a file may contain this package and others.
  const named = [...folders].filter(([, folder]) => frames.some((frame) => isIn(frame, folder) && !isOwn(frame)));
  const begun = origin.getStore();
  if (named.length === 0 && begun !== undefined && !frames.some(isOwn)) return [begun];
  return named.map(([adapter]) => adapter);
}

/** Modules have a URL in a frame, and CommonJS has a path. */
const isIn = (frame: string, folder: URL): boolean =>
  [folder.pathname, fileURLToPath(folder)].some((path) => {
    const at = frame.indexOf(path);
    return at >= 0 && !frame.includes("/node_modules/", at + path.length);
  });

function foreignEntry(name: string, fromFolder: string): string {
  if (name.startsWith("./") || name.startsWith("../") || isAbsolute(name)) {
    const entry = pathEntry(name, fromFolder);
    if (entry !== null) return entry;
    throw refusal(
      `there is no adapter at ${name}, seen from ${fromFolder}`,
      "correct the path; it starts at this file's folder",
    );
  }
  const entry = packageEntry(name, fromFolder);
  if (entry !== null) return entry;
  const guess = nearest(name, builtIn);
  const fix = existsSync(`${fromFolder}/${name}`)
    ? `write ./${name}, if the one beside this file is meant`
    : `${guess === undefined ? "" : `did you mean ${guess}? If not: `}npm install ${name}`;
  const message = `there is no adapter ${name}: it is neither built in (${builtIn.join(", ")}) nor installed in ${fromFolder}`;
  throw refusal(message, fix);
}

/** CommonJS compiled from TypeScript nests the default export one level deeper. */
function unwrapped(exported: unknown): unknown {
  if (exported === null || typeof exported !== "object" || !("__esModule" in exported)) return exported;
  return "default" in exported ? exported.default : undefined;
}

function checked(name: string, exported: unknown): AdapterDefinition {
  if (exported === null || typeof exported !== "object") {
    const what = exported === undefined ? "has no default export" : "has a default export that is no definition";
    throw refusal(`the adapter ${name} ${what}`, "its author: export default defineAdapter({ ... })");
  }
  const { contract, create, config, traits, name: own } = exported as { readonly [key: string]: unknown };
  if (contract !== contractNumber) {
    const message = `the adapter ${name} was written for contract ${JSON.stringify(contract)}, this is contract ${contractNumber}`;
    throw refusal(message, "install a version of it that fits this one");
  }
  if (typeof own !== "string" || own === "") {
    throw refusal(`the adapter ${name} has no name`, 'its author: add a text, such as name: "fax"');
  }
  if (typeof create !== "function") {
    throw refusal(`the adapter ${name} has no create function`, "its author: add create(channel, config) { ... }");
  }
  if (traits === null || typeof traits !== "object") {
    throw refusal(`the adapter ${name} has no traits`, "its author: add traits, described in bridgehead/contract");
  }
  const wrong = wrongTraits(traits).map(({ trait, form }) => `${trait}: ${form}`);
  if (wrong.length > 0)
    throw refusal(`the adapter ${name} has wrong traits`, `its author: in traits, write ${wrong.join("; ")}`);
  // The adapters of one name share stored secrets.
  if (builtIn.includes(own) && !builtIn.includes(name))
    throw refusal(`the adapter ${name} has the name of a built-in one: ${own}`, "its author: give it another name");
  if (isAsynchronous(exported as AdapterDefinition))
    throw refusal(`the adapter ${name} has an asynchronous address`, "its author: return the text or null, no promise");
  checkSchema(name, config);
  return withSafeMembers(exported as AdapterDefinition);
}

/** True when `address` returns a promise: commands would blame every address that they are given. */
function isAsynchronous(definition: AdapterDefinition): boolean {
  try {
    const form: unknown = definition.address?.("");
    if (form instanceof Promise) form.catch(() => undefined);
    return form instanceof Promise;
  } catch {
    return false;
  }
}

/** Returns the adapter with an `address` that never throws: it is called for persons of all channels, so one adapter would
 *  break commands and notifications that do not concern it. An exception, and what is no text, counts as null. A member that
 *  is asynchronous by mistake returns a promise, which its caller reports; a rejection of it would end the process. */
function withSafeMembers(definition: AdapterDefinition): AdapterDefinition {
  const known = guarded.get(definition);
  if (known !== undefined) return known;
  const call = (name: (typeof members)[number], given: readonly unknown[]): unknown => {
    const result: unknown = Reflect.apply(definition[name] as () => unknown, definition, given);
    if (result instanceof Promise) result.catch(() => undefined);
    return result;
  };
  const address = (text: string): string | null => {
    try {
      const form = call("address", [text]);
      return typeof form === "string" ? form : null;
    } catch {
      return null;
    }
  };
  const safe = members
    .filter((name) => typeof definition[name] === "function")
    .map((name) => [name, name === "address" ? address : (...given: readonly unknown[]) => call(name, given)] as const);
  // A definition may be an object of a class, whose methods are not its own.
  const guard = Object.assign(Object.create(definition), Object.fromEntries(safe)) as AdapterDefinition;
  guarded.set(definition, guard);
  return guard;
}

const members = ["address", "ownAddresses", "startProblem", "exclusive", "review", "create"] as const;
/** The result of `withSafeMembers` by definition: an adapter that is loaded again is the same. */
const guarded = new WeakMap<AdapterDefinition, AdapterDefinition>();

/** Creates the adapter of one channel. Throws an error that names the channel, the adapter and the remedy. */
export function createAdapter(
  { id, adapter, settings }: { readonly id: string; readonly adapter: AdapterDefinition; readonly settings: unknown },
  channel: Channel,
): Adapter {
  const what = `channel ${id}: create of the adapter ${adapter.name}`;
  let made: unknown;
  try {
    made = adapter.create(channel, settings);
  } catch (error) {
    const fix = `correct channels.${id}, or repair the adapter`;
    const message = masking(channelSecrets({ adapter, settings }))(
      error instanceof Error ? error.message : String(error),
    );
    throw new Error(`${what} threw: ${message}: ${fix}`, { cause: error });
  }
  if (made === null || typeof made !== "object" || "then" in made) {
    const fix = "its author must return { inbound, outbound, routes, probe }, and no promise";
    throw new Error(`${what} returned no adapter: ${fix}`);
  }
  const wrong = wrongPart(made);
  if (wrong !== null) throw new Error(`${what} returned a wrong adapter: ${wrong}`);
  return made;
}

/** Closes an adapter. Rejects when its `close` throws, and when it goes on although its signal has aborted: a reload and the
 *  end of the process wait no longer. `close` and `closeGrace`: milliseconds until the abort, and from there. */
export async function closeAdapter(
  adapter: Pick<Adapter, "close">,
  clock: Pick<Clock, "sleep">,
  { close, closeGrace }: { readonly close: number; readonly closeGrace: number },
): Promise<void> {
  const end = new AbortController();
  const closed = (async () => adapter.close?.(end.signal))();
  if (await endsWithin(closed, close, clock)) return;
  end.abort(new DOMException("the time to close is over", "TimeoutError"));
  if (!(await endsWithin(closed, closeGrace, clock)))
    throw new Error("close of the adapter has not ended after its signal");
}

/** Requires a strict object schema of zod 4, so that a misspelled key is an error. */
function checkSchema(name: string, config: unknown): void {
  if (config === null || typeof config !== "object" || !("_zod" in config) || !("safeParse" in config)) {
    throw refusal(
      `the config of the adapter ${name} is not a schema of zod 4`,
      "its author: install zod 4 and use z.strictObject",
    );
  }
  const shape = shapeOf(config as unknown as ZodType);
  if (shape.type !== "object" || shape.additionalProperties !== false) {
    throw refusal(`the config of the adapter ${name} lets unknown keys pass`, "its author: use z.strictObject");
  }
}

function refusal(message: string, fix: string, cause?: unknown): LoadError {
  return Object.assign(new Error(message, { cause }), { fix });
}

/** Resolves a file, or a folder with a package.json or an index. Returns a file URL, or null when
 *  nothing exists there. */
function pathEntry(path: string, fromFolder: string): string | null {
  const base = resolve(fromFolder, path);
  if (!existsSync(base)) return null;
  if (!statSync(base).isDirectory()) return pathToFileURL(base).href;
  const manifest = join(base, "package.json");
  if (existsSync(manifest)) return manifestEntry(manifest);
  const index = ["index.js", "index.mjs", "index.ts"].map((file) => join(base, file)).find((file) => existsSync(file));
  return index === undefined ? null : pathToFileURL(index).href;
}

/** Resolves an installed package, with or without a subpath. Returns a file URL, or null when it is not installed. */
function packageEntry(name: string, fromFolder: string): string | null {
  const from = pathToFileURL(join(fromFolder, "config.js"));
  try {
    if (/^(@[^/]+\/)?[^/]+$/.test(name)) {
      const manifest = findPackageJSON(name, from);
      return manifest === undefined ? null : manifestEntry(manifest);
    }
    return pathToFileURL(createRequire(from).resolve(name)).href;
  } catch {
    return null;
  }
}

function manifestEntry(manifest: string): string | null {
  const { exports, main } = JSON.parse(readFileSync(manifest, "utf8")) as {
    exports?: unknown;
    main?: string;
  };
  const entry = exported(exports) ?? main ?? "index.js";
  const file = [entry, `${entry}.js`, join(entry, "index.js")]
    .map((path) => join(dirname(manifest), path))
    .find((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
  return file === undefined ? null : pathToFileURL(file).href;
}

/** Returns the main entry of an `exports` map, with the conditions of `import`. */
function exported(exports: unknown): string | undefined {
  if (typeof exports === "string") return exports;
  if (exports === null || typeof exports !== "object") return undefined;
  for (const [condition, target] of Object.entries(exports)) {
    if (![".", "node", "import", "module-sync", "default"].includes(condition)) continue;
    const found = exported(target);
    if (found !== undefined) return found;
  }
  return undefined;
}
