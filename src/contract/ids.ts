// Opaque ids. An adapter creates them; the core stores, compares and returns them without parsing them.

declare const brand: unique symbol;
type Opaque<Name extends string> = string & { readonly [brand]: Name };

/** A channel's name as written in the configuration: `support-mail`. */
export type ChannelId = Opaque<"ChannelId">;
/** The provider's id of an object (an IMAP position, a Message-ID, a MessageSid). It is unique in its
 *  channel and never reused. */
export type ExternalId = Opaque<"ExternalId">;
/** The read position of an adapter, in the adapter's own format. */
export type Cursor = Opaque<"Cursor">;
/** Identifies one draft across all its attempts. URL- and Message-ID-safe (`[a-z0-9]+`): it becomes a
 *  Message-ID or an idempotency key. */
export type SendKey = Opaque<"SendKey">;
/** A live conversation bound to one socket, such as a call. */
export type SessionId = Opaque<"SessionId">;
/** A reference to the bytes of an outgoing file in the core's store. */
export type FileRef = Opaque<"FileRef">;
/** An unguessable id of a conversation, for a plus address or a body marker. `[a-z0-9]+`. */
export type ThreadToken = Opaque<"ThreadToken">;

/** A value that `JSON.parse(JSON.stringify(x))` leaves unchanged: no dates, no buffers, no `undefined`. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

// The only functions that convert a plain string to an opaque id.
export const channelId = (text: string): ChannelId => text as ChannelId;
export const externalId = (text: string): ExternalId => text as ExternalId;
export const cursor = (text: string): Cursor => text as Cursor;
export const sendKey = (text: string): SendKey => text as SendKey;
export const sessionId = (text: string): SessionId => text as SessionId;
export const fileRef = (text: string): FileRef => text as FileRef;
export const threadToken = (text: string): ThreadToken => text as ThreadToken;

/** Returns the key of part `n` (counted from 0) of a reply. The first part has the reply's own key. */
export const partKey = (reply: SendKey, part: number): SendKey => (part === 0 ? reply : sendKey(`${reply}p${part}`));
