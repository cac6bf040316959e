// The agent of a channel: its answers, the outcome of a question, and the settings of its channels.

export type * from "./calls.ts";
export { type AgentClientOptions, createAgentClient } from "./client.ts";
