// Names the core never looks into. An adapter makes them; the core stores, compares and hands them back.

declare const brand: unique symbol;
type Opaque<Name extends string> = string & { readonly [brand]: Name };

/** A channel's name as written in the configuration: `support-mail`. */
export type ChannelId = Opaque<"ChannelId">;
/** The provider's name for something (an IMAP position, a Message-ID, a MessageSid); unique in its channel for ever. */
export type ExternalId = Opaque<"ExternalId">;
/** Where reading stopped, in the adapter's own notation. */
export type Cursor = Opaque<"Cursor">;
/** One draft across all its attempts. URL- and Message-ID-safe (`[a-z0-9]+`): it becomes a Message-ID or an idempotency key. */
export type SendKey = Opaque<"SendKey">;
/** A live conversation bound to one socket, such as a call. */
export type SessionId = Opaque<"SessionId">;
/** Where the core keeps the bytes of a file that goes out with a reply. */
export type FileRef = Opaque<"FileRef">;
/** Unguessable name of a conversation, for a plus address or a body marker. `[a-z0-9]+`. */
export type ThreadToken = Opaque<"ThreadToken">;

/** What survives `JSON.parse(JSON.stringify(x))` unchanged. No dates, no buffers, no `undefined`. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

// The one place where a plain string becomes an opaque name.
export const channelId = (text: string): ChannelId => text as ChannelId;
export const externalId = (text: string): ExternalId => text as ExternalId;
export const cursor = (text: string): Cursor => text as Cursor;
export const sendKey = (text: string): SendKey => text as SendKey;
export const sessionId = (text: string): SessionId => text as SessionId;
export const fileRef = (text: string): FileRef => text as FileRef;
export const threadToken = (text: string): ThreadToken => text as ThreadToken;
