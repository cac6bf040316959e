// The embedded platform.

export { readAgents } from "./agents.ts";
export type { Platform, PlatformOptions } from "./platform.ts";
export { startPlatform } from "./platform.ts";
