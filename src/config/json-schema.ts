// The file's JSON Schema (draft 2020-12), for editors.

import type { AdapterDefinition } from "bridgehead/contract";
import { coreChannel } from "./schema/channel.ts";
import { file } from "./schema/file.ts";
import { type Shape, shapeOf } from "./shape.ts";

/** The schema of the whole file. A channel is one of the named adapters' blocks; one with any other adapter is checked
 *  as far as the core's keys go. `adapters`: the name written in the file -> its definition. */
export function jsonSchema(adapters: Readonly<Record<string, AdapterDefinition>>): Shape {
  const root = shapeOf(file);
  const core = shapeOf(coreChannel);
  const blocks = Object.entries(adapters).map(([name, { config }]) =>
    channelBlock(core, name, shapeOf(config)),
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
