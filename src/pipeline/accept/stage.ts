// Stage accept.
// Input: events from a channel, and the cursor after them.
// Effect: stores their bytes as blobs and does nothing else, so that the provider gets a fast response.
// Output: events in state `stored` (or reported as duplicates) and the cursor, in one transaction.
// Failure: the call rejects, nothing is stored, and the provider retries.
// Crash: as for a failure.

import { createHash } from "node:crypto";
import type {
  Accepted,
  Attachment,
  Cursor,
  DeliveryEvent,
  InboundEvent,
  MessageEvent,
  SessionEvent,
} from "bridgehead/contract";
import type { Scheduler } from "../../engine/scheduler.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Query } from "../../store/driver.ts";
import { holdsLease } from "../../store/leases.ts";
import { holdOpenWork } from "../../store/restored.ts";
import { isCited } from "../../store/tables/conversations.ts";
import { insertEvent, type NewAttachment, type NewEvent, writeCursor } from "../../store/tables/events.ts";

/** The reader that writes a cursor. A reader without the lease must not move the cursor. Absent for
 *  events without a cursor (webhooks). */
export interface Reader {
  readonly lease: string;
  readonly token: number;
}

/** A session event with the node that received it. For `opened` this is the node that holds the socket. */
export type StoredSession = SessionEvent & { readonly node: string };
/** A message of a session also records its node. */
export type StoredMessage = MessageEvent & { readonly node?: string };

/** Stores the events of one channel. Resolves after the commit. Rejects when the reader has lost its
 *  lease. `startedAt` is the time, in epoch milliseconds, at which this process began to run the
 *  channel. */
export async function accept(
  scheduler: Scheduler,
  channel: string,
  events: readonly InboundEvent[],
  position: { readonly cursor: Cursor; readonly reader: Reader } | null,
  node: string,
  startedAt = 0,
): Promise<readonly Accepted[]> {
  const rows = events.map((given) => ({ given, row: toRow(channel, given, node) }));
  const accepted = await scheduler.commit(async (q) => {
    if (position && !(await holdsLease(q, position.reader.lease, position.reader.token))) {
      throw new Error(`accepting from channel ${channel}: another node reads it now`);
    }
    const results: Accepted[] = [];
    let behind = false;
    for (const { given, row } of rows) {
      const event = await withTrace(q, channel, given);
      const body = event === given ? row.body : bodyOf(withNode(event, node));
      const duplicate = !(await insertEvent(q, { ...row, body }));
      results.push({ id: event.id, duplicate });
      behind ||= !duplicate && isHandled(event);
    }
    // The store is older than the traces at the provider (it was restored). Work that it still lists as
    // open may have been answered too, so that work is held.
    if (behind) await holdOpenWork(q, { channel, before: startedAt });
    if (position) await writeCursor(q, channel, position.cursor);
    failpoint("event.commit", "before", { channel, events: events.length });
    return results;
  });
  failpoint("event.commit", "after", { channel, events: events.length });
  return accepted;
}

/** Removes `handledBefore` when our answer cites an id that this store knows. The store then explains
 *  the answer, and the sender has reused the id. */
async function withTrace(q: Query, channel: string, event: InboundEvent): Promise<InboundEvent> {
  if (event.kind !== "message" || !event.handledBefore?.cited) return event;
  if (!(await isCited(q, channel, event.cited ?? event.id))) return event;
  const { handledBefore: _, ...rest } = event;
  return rest;
}

const isHandled = (event: InboundEvent | undefined): boolean =>
  event?.kind === "message" && event.handledBefore?.by === "self";

function toRow(channel: string, event: InboundEvent, node: string): NewEvent {
  const bytes = "raw" in event ? event.raw : undefined;
  const message = event.kind === "message" ? event : null;
  return {
    channel,
    externalId: event.id,
    fingerprint: ("fingerprint" in event ? event.fingerprint : undefined) ?? null,
    kind: event.kind,
    sender: event.kind === "delivery" ? null : event.from.address.toLowerCase(),
    subject: message?.subject ?? message?.forHumans?.subject ?? null,
    body: bodyOf(withNode(event, node)),
    sentAt: message ? message.sentAt.getTime() : null,
    raw: bytes ? blob(bytes) : null,
    attachments: (message?.attachments ?? []).map(toAttachment),
    exempt: message !== null && isExempt(message),
    ...(message?.sender === undefined ? {} : { verified: message.sender === "verified" }),
    ...(message && "answers" in message.thread ? { answers: message.thread.answers } : {}),
  };
}

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
  return JSON.stringify(event, (key, value: unknown) =>
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
