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
