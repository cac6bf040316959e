// Mail parsing, away from the main thread, and what follows from a parsed mail.

export type { Bounce } from "./bounce.ts";
export { classify, type Finding, type OwnIdentity } from "./classify.ts";
export type { Mail, MailAttachment, Mailbox } from "./mail.ts";
export { markerOf } from "./marker.ts";
export { createParser, type Parser, type ParserOptions, sharedParser } from "./parser.ts";
export { type Trimmed, trimReply } from "./trim.ts";
export type { ParseContext, ParseResult, SenderAuth, SenderAuthSettings } from "./types.ts";
