// The agent behind a channel: what it says, what became of a question, how its channels are set.

export type * from "./calls.ts";
export { type AgentClientOptions, createAgentClient } from "./client.ts";
