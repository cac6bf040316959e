// A zod schema as JSON Schema: its keys, their descriptions, and which are secret. No check uses
// `instanceof`, so schemas of another copy of zod work too.

import * as z from "zod";
import type { Path } from "./document.ts";

export interface Shape {
  readonly $ref?: string;
  readonly $defs?: { readonly [name: string]: Shape };
  readonly type?: string;
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

/** Returns the schema of the file's values: the input side of every transformation. */
export function shapeOf(schema: z.ZodType): Shape {
  return z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Shape;
}

/** Returns every alternative of the schema at a path; the schema itself for the empty path. */
function shapesAt(root: Shape, path: Path): readonly Shape[] {
  let here = alternatives(root, root);
  for (const step of path) {
    here = here.flatMap((shape) => {
      const inner =
        typeof step === "number" ? shape.items : (shape.properties?.[step] ?? shape.additionalProperties);
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

/** Returns the description of a key. */
export function descriptionAt(root: Shape, path: Path): string | undefined {
  return shapesAt(root, path).find((shape) => shape.description !== undefined)?.description;
}

/** Returns `duration` or `size` when a quantity is expected, also as one of several alternatives. */
export function unitAt(root: Shape, path: Path): string | undefined {
  return shapesAt(root, path).find((shape) => shape.unit !== undefined)?.unit;
}

/** Returns the paths in `value` of the strings that the schema marks as secret. */
export function secretPaths(root: Shape, value: unknown, path: Path = []): readonly Path[] {
  if (typeof value === "string")
    return shapesAt(root, path).some((shape) => shape.secret === true) ? [path] : [];
  if (Array.isArray(value)) return value.flatMap((item, index) => secretPaths(root, item, [...path, index]));
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, inner]) => secretPaths(root, inner, [...path, key]));
}
