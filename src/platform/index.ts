// Public exports of the embedded platform.

export { readAgents } from "./agents.ts";
export type { AgentDefinition } from "./definition.ts";
export type { Platform, PlatformOptions } from "./platform.ts";
export { startPlatform } from "./platform.ts";
export { newerFile } from "./store/database.ts";
export { type Administration, type Fields, openAdministration, readFields } from "./stored-agents.ts";
