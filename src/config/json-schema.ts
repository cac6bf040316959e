// The file's JSON Schema (draft 2020-12), for editors.

import type { AdapterDefinition } from "bridgehead/contract";
import { coreChannel } from "./schema/channel.ts";
import { file } from "./schema/file.ts";
import { type Shape, shapeOf } from "./shape.ts";

/** Returns the schema of the whole file. A channel is one of the named adapters' blocks; a channel with
 *  any other adapter is checked only for the core's keys. `adapters`: the name in the file -> its
 *  definition. */
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
  const { channels } = root.properties ?? {};
  const withBlocks = { ...channels, additionalProperties: { oneOf: [...blocks, foreign] } };
  return {
    ...root,
    title: "Bridgehead's configuration",
    properties: { ...root.properties, channels: withBlocks },
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
