// Stage accept: converts between the events of the contract and their rows. Pure.

import { createHash } from "node:crypto";
import type {
  Attachment,
  DeliveryEvent,
  InboundEvent,
  MessageEvent,
  SessionEvent,
} from "bridgehead/contract";
import type { NewAttachment, NewEvent } from "./rows.ts";

/** A session event with the node that received it. For `opened` this is the node that holds the socket. */
export type StoredSession = SessionEvent & { readonly node: string };
/** A message of a session also records its node. */
export type StoredMessage = MessageEvent & { readonly node?: string };

/** Returns the id under which an answer of ours may cite the message, when such an answer is the only trace
 *  of an earlier handling; else null. */
export const tracedBy = (event: InboundEvent): string | null =>
  event.kind === "message" && event.handledBefore?.cited ? (event.cited ?? event.id) : null;

/** Removes `handledBefore`. The store knows the cited id, so it explains the answer: the sender has reused
 *  the id. */
export function withoutTrace(event: InboundEvent): InboundEvent {
  if (event.kind !== "message") return event;
  const { handledBefore: _, ...rest } = event;
  return rest;
}

/** True for a message that this channel handled in another state of the store. */
export const isHandled = (event: InboundEvent): boolean =>
  event.kind === "message" && event.handledBefore?.by === "self";

/** The columns `subject` and `cited` are for lists and for the search, whose index entries are limited by PostgreSQL.
 *  The body has the complete values. */
const longestColumn = 250;

/** Returns the row of an event that `node` has received. */
export function toRow(channel: string, event: InboundEvent, node: string): NewEvent {
  const bytes = "raw" in event ? event.raw : undefined;
  const message = event.kind === "message" ? event : null;
  return {
    channel,
    externalId: event.id,
    fingerprint: digestOf("fingerprint" in event ? event.fingerprint : undefined),
    cited: message?.cited === undefined ? null : message.cited.slice(0, longestColumn),
    kind: event.kind,
    sender: event.kind === "delivery" ? null : event.from.address.toLowerCase(),
    subject: (message?.subject ?? message?.forHumans?.subject)?.slice(0, longestColumn) ?? null,
    body: bodyOf(withNode(event, node)),
    sentAt: message ? message.sentAt.getTime() : null,
    raw: bytes ? blob(bytes) : null,
    attachments: (message?.attachments ?? []).map(toAttachment),
    exempt: message !== null && isExempt(message),
    ...(message?.sender === undefined ? {} : { verified: message.sender === "verified" }),
    ...(message && "answers" in message.thread ? { answers: message.thread.answers } : {}),
  };
}

/** An adapter's fingerprint may contain an address. Its digest recognizes a copy as well, and stays when the person is
 *  erased. */
const digestOf = (fingerprint: string | undefined): string | null =>
  fingerprint === undefined ? null : createHash("sha256").update(fingerprint).digest("base64url");

/** Messages that are never asked, and messages of a call, are exempt from the channel's caps. They
 *  cannot cause a storm of automatic replies. */
const isExempt = (message: MessageEvent): boolean =>
  message.consent !== undefined || message.forHumans !== undefined || "session" in message.thread;

function toAttachment(attachment: Attachment): NewAttachment {
  const { name, mediaType } = attachment;
  const named = attachment.named ?? true;
  const common = { name, mediaType, named, meant: attachment.meant ?? named };
  if ("bytes" in attachment) {
    return { ...common, size: attachment.bytes.byteLength, blob: blob(attachment.bytes), ref: null };
  }
  const elsewhere = { ...common, size: attachment.size ?? null, blob: null };
  if ("missing" in attachment) return { ...elsewhere, ref: null, reason: attachment.missing };
  return { ...elsewhere, ref: JSON.stringify(attachment.ref) };
}

function withNode(event: InboundEvent, node: string): InboundEvent | StoredSession | StoredMessage {
  if (event.kind === "session") return { ...event, node };
  if (event.kind === "message" && "session" in event.thread) return { ...event, node };
  return event;
}

/** Serializes the event as JSON, without the parts that have their own tables. `readBody` is the
 *  inverse. */
function bodyOf(event: InboundEvent | StoredSession | StoredMessage): string {
  // A Buffer serializes itself as a list of numbers before the replacer sees it.
  const rest = { ...event, raw: undefined, attachments: undefined };
  return JSON.stringify(rest, (key, value: unknown) =>
    key === "raw" || key === "attachments" ? undefined : value,
  );
}

/** Parses a stored event body. Dates become `Date` objects again; raw bytes and attachments stay in
 *  their tables. */
export function readBody(body: string): StoredMessage | DeliveryEvent | StoredSession {
  const event = JSON.parse(body) as InboundEvent & { sentAt?: string };
  const dated = event.sentAt === undefined ? event : { ...event, sentAt: new Date(event.sentAt) };
  return dated as ReturnType<typeof readBody>;
}

const blob = (bytes: Uint8Array) => ({ id: createHash("sha256").update(bytes).digest("hex"), bytes });
