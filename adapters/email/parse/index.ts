// Parses messages in worker threads, and exports the functions that work on parsed messages.

export { classify, type Finding, type OwnIdentity } from "./classify.ts";
export type { Mail } from "./mail.ts";
export { createParser, type Parser, sharedParser } from "./parser.ts";
export { trimReply } from "./trim.ts";
export type { SenderAuth, SenderAuthSettings } from "./types.ts";
