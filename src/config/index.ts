// config: one YAML file in, one frozen record or all its problems out.

export type { ChannelConfig, Config, Problem } from "./config.ts";
export { jsonSchema } from "./json-schema.ts";
export { type Loaded, loadConfig, loadStore } from "./load.ts";
export { maskSecrets, secretValues } from "./mask.ts";
