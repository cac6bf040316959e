// config: reads one YAML file and returns one frozen record, or all its problems.

export type { ChannelConfig, Config, Problem, StoreConfig } from "./config.ts";
export { jsonSchema } from "./json-schema.ts";
export { type Loaded, loadConfig } from "./load.ts";
export { maskSecrets, secretValues } from "./mask.ts";
export { loadChannel, loadPolicy, loadStore } from "./part.ts";
