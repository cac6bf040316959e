// bridgehead/client: a typed client of the External API, usable without the daemon.

export type { Agents } from "./agents.ts";
export { type Client, createClient } from "./client.ts";
export type { Conversations } from "./conversations.ts";
export type { Files, Upload } from "./files.ts";
export type { BodyOf, OperationId, QueryOf } from "./line.ts";
export type { CallOptions, ClientOptions, Place, Region } from "./options.ts";
export { items, pages } from "./pages.ts";
export { createRate, type Rate, type RateOptions } from "./rate.ts";
export type * from "./records.ts";
export { CallFailure, type CallResult, mapped, stopped } from "./result.ts";
export type { Users } from "./users.ts";
export type { Webhooks } from "./webhooks.ts";
