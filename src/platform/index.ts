// Public exports of the embedded platform.

export {
  Administration,
  type AgentFields,
  readFields,
} from "./agents/administration.ts";
export type { AgentDefinition } from "./agents/definition.ts";
export { type InlineAgent, InvalidAgents, inlineAgents, readAgents } from "./agents/file.ts";
export { probeModel } from "./brain/model.ts";
export { deleteUsers } from "./conversations/start.ts";
export { type Platform, type PlatformOptions, startPlatform } from "./platform.ts";
export { newerFile, platformFileProblem } from "./store/store.ts";
