// Converts references where the schema expects a number, or true or false: what they refer to is always a text.

import type { Path } from "./document.ts";
import { findingAt, type SchemaFinding } from "./explain.ts";
import { type Shape, typesAt } from "./json-schema.ts";
import type { Resolved } from "./secrets.ts";

export interface BlockShape {
  readonly path: Path;
  readonly shape: Shape;
}

/** Converts the values that are one reference and nothing else. A text of another type becomes a problem, which does not
 *  quote the text: it may be a secret. */
export function withTypes(resolved: Resolved, blocks: readonly BlockShape[]): Resolved {
  const problems: SchemaFinding[] = [...resolved.problems];
  const converted = new Map<string, unknown>();
  for (const { path, reference, text } of resolved.references) {
    const types = new Set(blocks.flatMap((block) => typesIn(block, path)));
    const isNumber = types.has("number") || types.has("integer");
    if (types.has("string") || !(isNumber || types.has("boolean"))) continue;
    if (isNumber && /^-?\d+(\.\d+)?$/.test(text)) converted.set(joined(path), Number(text));
    else if (types.has("boolean") && /^(true|false)$/.test(text)) converted.set(joined(path), text === "true");
    else {
      const wanted = isNumber ? "a number" : "true or false";
      problems.push(findingAt(path, `must be ${wanted}, but ${reference} is another text`, `set it to ${wanted}`));
    }
  }
  return { ...resolved, value: replaced(resolved.value, converted, []), problems };
}

const joined = (path: Path): string => path.join("\0");

const typesIn = ({ path: base, shape }: BlockShape, path: Path): readonly string[] =>
  base.every((step, index) => path[index] === step) ? typesAt(shape, path.slice(base.length)) : [];

function replaced(value: unknown, converted: ReadonlyMap<string, unknown>, path: Path): unknown {
  if (converted.has(joined(path))) return converted.get(joined(path));
  if (Array.isArray(value)) return value.map((item, index) => replaced(item, converted, [...path, index]));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, replaced(inner, converted, [...path, key])]),
  );
}
