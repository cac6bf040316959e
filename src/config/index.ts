// config: reads one YAML file and returns one frozen record, or all its problems. Durations are in
// milliseconds, sizes in bytes, paths absolute, secrets plain strings (print it with `maskSecrets` only).

import type { AdapterDefinition, ChannelId } from "bridgehead/contract";
import type * as z from "zod";
import type { Policy } from "../domain/policy.ts";
import type { coreChannel } from "./schema/channel.ts";
import type { File } from "./schema/file.ts";

export { type LoadOptions, located, parseStore } from "./document.ts";
export { jsonSchema } from "./json-schema.ts";
export { type Loaded, loadConfig, type Rejected } from "./load.ts";
export { channelSecrets, masking, maskSecrets, secretValues } from "./mask.ts";
export {
  type ChannelSummary,
  loadAdminListener,
  loadChannel,
  loadConsole,
  loadPolicy,
  loadSecretFiles,
  loadStore,
} from "./parts.ts";

/** The core's keys of a channel block. */
export type CoreChannel = DeepReadonly<
  Omit<z.output<typeof coreChannel>, "on_new_message"> & { on_new_message: "send" | "drop" }
>;
export type PlatformConfig = DeepReadonly<Omit<File["platform"], "embedded">> & {
  /** Absolute paths. `agents` is absent when the agents are defined in this file, with the key `model`. */
  readonly embedded?: {
    readonly agents?: string;
    readonly database: string;
    readonly listen: { readonly host: string; readonly port: number };
  };
};
/** An agent of the embedded platform without a key in the file has one that changes with the process. */
export type AgentConfig = DeepReadonly<File["agents"][string] & { key: string }>;
export type StoreConfig =
  /** An absolute path. */
  | { readonly kind: "sqlite"; readonly file: string }
  /** A connection string with its secrets inserted. */
  | { readonly kind: "postgres"; readonly url: string };

export interface ChannelConfig {
  readonly id: ChannelId;
  readonly core: CoreChannel;
  readonly adapter: AdapterDefinition;
  /** The output of the adapter's own schema: the second argument of its `create`. */
  readonly settings: unknown;
}

export interface Config {
  /** Absolute path of the file this was read from. */
  readonly file: string;
  readonly platform: PlatformConfig;
  /** The model of the agents below; null when a platform elsewhere, or a file of its own, defines them. */
  readonly model: DeepReadonly<NonNullable<File["model"]>> | null;
  readonly agents: { readonly [name: string]: AgentConfig };
  /** In the file's order, disabled ones included. */
  readonly channels: readonly ChannelConfig[];
  /** Null when the configuration has no escalation policy. */
  readonly escalation: Policy | null;
  readonly http: DeepReadonly<Omit<File["http"], "admin_listen">> & {
    readonly admin_listen: DeepReadonly<File["http"]["listen"]>;
  };
  readonly console: DeepReadonly<Omit<File["console"], "listen">> & {
    readonly listen: DeepReadonly<File["http"]["listen"]>;
  };
  readonly store: StoreConfig;
  readonly log: DeepReadonly<File["log"]>;
  readonly retention: DeepReadonly<File["retention"]>;
  /** Null when they are not configured. */
  readonly heartbeat: DeepReadonly<NonNullable<File["heartbeat"]>> | null;
  readonly otlp: DeepReadonly<NonNullable<File["otlp"]>> | null;
  readonly node: string;
}

/** One problem of the configuration, with its position. */
export interface Problem {
  readonly file: string;
  /** Counted from 1; 0 when the file could not be read at all. */
  readonly line: number;
  readonly column: number;
  /** `channels.support-mail.imap.host`; empty for the file as a whole. */
  readonly key: string;
  readonly message: string;
  readonly fix: string;
}

export type DeepReadonly<T> = T extends (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;
