// config: one YAML file in, one frozen record or all its problems out.

export type {
  AgentConfig,
  ChannelConfig,
  Config,
  CoreChannel,
  PlatformConfig,
  Problem,
  StoreConfig,
} from "./config.ts";
export { jsonSchema } from "./json-schema.ts";
export { type Loaded, type LoadOptions, loadConfig } from "./load.ts";
export { maskSecrets, secretValues } from "./mask.ts";
export { shapeOf } from "./shape.ts";
