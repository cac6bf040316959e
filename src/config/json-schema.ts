// zod schemas as JSON Schema (draft 2020-12): for editors, and for the checks that need keys, descriptions and secrets.
// No check uses `instanceof`, so schemas of another copy of zod work too.

import type { AdapterDefinition } from "bridgehead/contract";
import * as z from "zod";
import type { Path } from "./document.ts";
import { coreChannel } from "./schema/channel.ts";
import { file } from "./schema/file.ts";

/** Returns the schema of the whole file. A channel is one of the named adapters' blocks; a channel with any other
 *  adapter is checked only for the core's keys. `adapters`: the name in the file -> its definition. */
export function jsonSchema(adapters: Readonly<Record<string, AdapterDefinition>>): Shape {
  const root = shapeOf(file);
  const core = shapeOf(coreChannel);
  const blocks = Object.entries(adapters).map(([name, { config, traits }]) =>
    channelBlock(withDefaults(core, traits.defaults), name, shapeOf(config)),
  );
  const foreign = {
    ...channelBlock(core, "", {}),
    properties: {
      ...core.properties,
      adapter: { ...core.properties?.["adapter"], not: { enum: Object.keys(adapters) } },
    },
    additionalProperties: true,
  };
  const { channels, platform: { type: _object, ...platform } = {} } = root.properties ?? {};
  // The keywords for objects do not apply to the short form, a text.
  const bothForms = { ...platform, anyOf: [{ type: "object" }, { const: "embedded" }] };
  const withBlocks = { ...channels, additionalProperties: { oneOf: [...blocks, foreign] } };
  return withReferences({
    ...root,
    title: "Bridgehead's configuration",
    properties: { ...root.properties, platform: bothForms, channels: withBlocks },
  });
}

/** Adds that a number, and true or false, may be a reference (`typed.ts`). */
function withReferences(shape: Shape): Shape {
  const { description, default: value, ...bare } = shape;
  if (["number", "integer", "boolean"].includes(String(shape.type))) {
    const outer = { ...(description !== undefined && { description }), ...(value !== undefined && { default: value }) };
    return { ...outer, anyOf: [bare, { type: "string", pattern: "^\\$\\{[^{}]*\\}$" }] };
  }
  const each = (shapes: Readonly<Record<string, Shape>>) =>
    Object.fromEntries(Object.entries(shapes).map(([key, inner]) => [key, withReferences(inner)]));
  const { properties, $defs, items, additionalProperties: rest, anyOf, oneOf, allOf } = shape;
  return {
    ...shape,
    ...(properties && { properties: each(properties) }),
    ...($defs && { $defs: each($defs) }),
    ...(items && { items: withReferences(items) }),
    ...(typeof rest === "object" && { additionalProperties: withReferences(rest) }),
    ...(anyOf && { anyOf: anyOf.map(withReferences) }),
    ...(oneOf && { oneOf: oneOf.map(withReferences) }),
    ...(allOf && { allOf: allOf.map(withReferences) }),
  };
}

/** Adds the defaults of an adapter's kind of channel to the keys. */
function withDefaults(shape: Shape, defaults: unknown): Shape {
  if (defaults === null || typeof defaults !== "object" || Array.isArray(defaults)) return shape;
  const changed = Object.entries(defaults).flatMap(([key, value]: [string, unknown]) => {
    const known = shape.properties?.[key];
    if (known === undefined) return [];
    return [[key, known.properties ? withDefaults(known, value) : { ...known, default: value }] as const];
  });
  return { ...shape, properties: { ...shape.properties, ...Object.fromEntries(changed) } };
}

function channelBlock(core: Shape, name: string, own: Shape): Shape {
  return {
    type: "object",
    properties: {
      ...core.properties,
      adapter: { ...core.properties?.["adapter"], const: name },
      ...own.properties,
    },
    required: [...(core.required ?? []), ...(own.required ?? [])],
    additionalProperties: false,
  };
}

export interface Shape {
  readonly $ref?: string;
  readonly $defs?: { readonly [name: string]: Shape };
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly secret?: boolean;
  /** Quantity of the value (`units` of the contract). */
  readonly unit?: string;
  readonly default?: unknown;
  readonly properties?: { readonly [key: string]: Shape };
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Shape;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
  readonly oneOf?: readonly Shape[];
  readonly allOf?: readonly Shape[];
  readonly const?: unknown;
  readonly [keyword: string]: unknown;
}

const shapes = new WeakMap<z.ZodType, Shape>();

/** Returns the schema of the file's values: the input side of every transformation. Converts each schema once; a file has
 *  many channels of the same adapter. */
export function shapeOf(schema: z.ZodType): Shape {
  const known = shapes.get(schema);
  if (known !== undefined) return known;
  const shape = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Shape;
  shapes.set(schema, shape);
  return shape;
}

/** Returns every alternative of the schema at a path; the schema itself for the empty path. */
function shapesAt(root: Shape, path: Path): readonly Shape[] {
  let here = alternatives(root, root);
  for (const step of path) {
    here = here.flatMap((shape) => {
      const inner = typeof step === "number" ? shape.items : (shape.properties?.[step] ?? shape.additionalProperties);
      return typeof inner === "object" ? alternatives(inner, root) : [];
    });
  }
  return here;
}

function alternatives(shape: Shape, root: Shape): readonly Shape[] {
  const target = shape.$ref?.startsWith("#/$defs/") ? root.$defs?.[shape.$ref.slice(8)] : undefined;
  const branches = [
    ...(shape.anyOf ?? []),
    ...(shape.oneOf ?? []),
    ...(shape.allOf ?? []),
    ...(target ? [target] : []),
  ];
  return [shape, ...branches.flatMap((branch) => alternatives(branch, root))];
}

/** Returns the valid keys of the block at a path. */
export function knownKeys(root: Shape, path: Path): readonly string[] {
  return [...new Set(shapesAt(root, path).flatMap((shape) => Object.keys(shape.properties ?? {})))];
}

export function descriptionAt(root: Shape, path: Path): string | undefined {
  return shapesAt(root, path).find((shape) => shape.description !== undefined)?.description;
}

/** Returns `duration` or `size` when a quantity is expected, also as one of several alternatives. */
export function unitAt(root: Shape, path: Path): string | undefined {
  return shapesAt(root, path).find((shape) => shape.unit !== undefined)?.unit;
}

/** Returns the types that the schema allows at a path, as JSON Schema names them. */
export const typesAt = (root: Shape, path: Path): readonly string[] =>
  shapesAt(root, path).flatMap(({ type }) => type ?? []);

/** Returns the paths in `value` of the strings that the schema marks as secret. */
export function secretPaths(root: Shape, value: unknown, path: Path = []): readonly Path[] {
  if (typeof value === "string") return shapesAt(root, path).some((shape) => shape.secret === true) ? [path] : [];
  if (Array.isArray(value)) return value.flatMap((item, index) => secretPaths(root, item, [...path, index]));
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]) => secretPaths(root, inner, [...path, key]));
}
