// The client of the External API.

export type { AgentClientOptions } from "./caller.ts";
export type * from "./calls.ts";
export { createAgentClient } from "./client.ts";
