// Mail parsing, away from the main thread, and what follows from a parsed mail.

export { classify, type Finding, type OwnIdentity } from "./classify.ts";
export type { Mail } from "./mail.ts";
export { createParser, type Parser, sharedParser } from "./parser.ts";
export { trimReply } from "./trim.ts";
export type { SenderAuth, SenderAuthSettings } from "./types.ts";
