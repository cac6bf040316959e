// Loads an adapter by its name in the configuration. Built-in and foreign adapters use the same path. No
// check uses `instanceof`, because an adapter may include its own copy of our contract and of zod.

import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import type { AdapterDefinition } from "bridgehead/contract";
import * as z from "zod";
import { packageEntry, pathEntry } from "./entry.ts";

/** Names of the built-in adapters, as used in the configuration file. */
export const builtIn: readonly string[] = ["email", "sms", "voice"];
const contractNumber = 1;

/** Rejection of `loadAdapter`: a message and a fix for the operator. */
export interface LoadError extends Error {
  readonly fix: string;
}

/** Loads an adapter: `email` is built-in, `./path` and `@acme/fax` are resolved from the configuration's
 *  folder.
 *  Rejects with a `LoadError` when it does not exist, or does not implement this contract. */
export async function loadAdapter(name: string, fromFolder: string): Promise<AdapterDefinition> {
  const entry = builtIn.includes(name) ? builtInEntry(name) : foreignEntry(name, fromFolder);
  let module: { default?: unknown };
  try {
    module = (await import(entry)) as { default?: unknown };
  } catch (error) {
    const message = `cannot load the adapter ${name}: ${(error as Error).message}`;
    throw refusal(message, "repair the package, or install what it needs", error);
  }
  return checked(name, unwrapped(module.default));
}

// The relative path from this file to the adapters is the same in a checkout (.ts) and after a build (.js).
function builtInEntry(name: string): string {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  return new URL(`../../adapters/${name}/index.${extension}`, import.meta.url).href;
}

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
  const local = existsSync(`${fromFolder}/${name}`)
    ? `write ./${name}, if the one beside this file is meant`
    : `npm install ${name}`;
  const message = `there is no adapter ${name}: it is neither built in (${builtIn.join(", ")}) nor installed in ${fromFolder}`;
  throw refusal(message, local);
}

/** CommonJS compiled from TypeScript nests the default export one level deeper. */
function unwrapped(exported: unknown): unknown {
  if (exported === null || typeof exported !== "object" || !("__esModule" in exported)) return exported;
  return "default" in exported ? exported.default : undefined;
}

function checked(name: string, exported: unknown): AdapterDefinition {
  if (exported === null || typeof exported !== "object") {
    throw refusal(
      `the adapter ${name} has no default export`,
      "its author: export default defineAdapter({ ... })",
    );
  }
  const { contract, create, config, traits, name: own } = exported as { readonly [key: string]: unknown };
  if (contract !== contractNumber) {
    const message = `the adapter ${name} was written for contract ${JSON.stringify(contract)}, this is contract ${contractNumber}`;
    throw refusal(message, "install a version of it that fits this one");
  }
  if (typeof create !== "function" || typeof own !== "string" || own === "") {
    throw refusal(
      `the adapter ${name} has no name or no create function`,
      "its author: see bridgehead/contract",
    );
  }
  if (traits === null || typeof traits !== "object") {
    throw refusal(`the adapter ${name} has no traits`, "its author: see bridgehead/contract");
  }
  checkSchema(name, config);
  return exported as AdapterDefinition;
}

/** Requires a strict object schema of zod 4, so that a misspelled key is an error. */
function checkSchema(name: string, config: unknown): void {
  if (config === null || typeof config !== "object" || !("_zod" in config) || !("safeParse" in config)) {
    throw refusal(
      `the config of the adapter ${name} is not a schema of zod 4`,
      "its author: install zod 4 and use z.strictObject",
    );
  }
  const shape = z.toJSONSchema(config as unknown as z.ZodType, { io: "input", unrepresentable: "any" });
  if (shape.type !== "object" || shape.additionalProperties !== false) {
    throw refusal(
      `the config of the adapter ${name} lets unknown keys pass`,
      "its author: use z.strictObject",
    );
  }
}

function refusal(message: string, fix: string, cause?: unknown): LoadError {
  return Object.assign(new Error(message, { cause }), { fix });
}
