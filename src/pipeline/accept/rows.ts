// Stage accept: converts events to rows, and inserts them with their bytes and attachments, several events in one
// statement.

import { createHash } from "node:crypto";
import type { Attachment, Cursor, DeliveryEvent, InboundEvent, MessageEvent, SessionEvent } from "bridgehead/contract";
import { traceOf } from "../../ops/hops.ts";
import { standardTiming } from "../../ops/timing.ts";
import { keyOf, ManyRows, type Query, touch, type Value } from "../../store/driver.ts";
import { exempt, insertBlobs } from "../../store/tables/events.ts";

/** A session event with the node that received it. For `opened` this is the node that holds the socket. */
export type StoredSession = SessionEvent & { readonly node: string };
/** A message of a session also records its node. */
export type StoredMessage = MessageEvent & { readonly node?: string };

export interface NewEvent {
  readonly channel: string;
  readonly externalId: string;
  readonly fingerprint: string | null;
  /** The id that answers cite, when it differs from `externalId`; for the search. */
  readonly cited?: string | null;
  readonly kind: "message" | "delivery" | "session";
  readonly sender: string | null;
  readonly subject: string | null;
  /** The event without its bytes, as JSON. */
  readonly body: string;
  readonly sentAt: number | null;
  /** `id`: the digest. */
  readonly raw: { readonly id: string; readonly bytes: Uint8Array } | null;
  readonly attachments: readonly NewAttachment[];
  /** True for an event that is not subject to the channel's cap and never waits for it. */
  readonly exempt?: boolean;
  /** Whether the sender is authenticated; absent where the channel cannot determine it. */
  readonly verified?: boolean;
  /** Ids of the messages that it replies to, nearest first. */
  readonly answers?: readonly string[];
}

export interface NewAttachment {
  readonly name: string;
  readonly mediaType: string;
  readonly size: number | null;
  readonly blob: { readonly id: string; readonly bytes: Uint8Array } | null;
  readonly ref: string | null;
  /** Whether the agent gets the name of the attachment. */
  readonly named: boolean;
  /** Whether the sender attached the file intentionally. Default: same as `named`. */
  readonly meant?: boolean;
  /** Reason why the bytes will not be available. */
  readonly reason?: string;
}

/** The columns `subject` and `cited` are for lists and for the search, whose index entries are limited by PostgreSQL.
 *  The body has the complete values. */
const longestColumn = 250;

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
    ...(message?.sender == null ? {} : { verified: message.sender === "verified" }),
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
  message.consent != null || message.forHumans != null || "session" in message.thread;

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

/** Serializes the event as JSON, without the parts that have their own tables. `readBody` is the inverse. */
function bodyOf(event: InboundEvent | StoredSession | StoredMessage): string {
  return JSON.stringify({ ...event, raw: undefined, attachments: undefined });
}

/** Parses a stored event body. Dates become `Date` objects again; raw bytes and attachments stay in their tables. */
export function readBody(body: string): StoredMessage | DeliveryEvent | StoredSession {
  const event = JSON.parse(body) as InboundEvent & { sentAt?: string };
  const dated = event.sentAt === undefined ? event : { ...event, sentAt: new Date(event.sentAt) };
  return dated as ReturnType<typeof readBody>;
}

const blob = (bytes: Uint8Array) => ({ id: createHash("sha256").update(bytes).digest("hex"), bytes });

/** Ids that a message references and that are looked up; the nearest come first. */
const answersLookedUp = [0, 1, 2, 3, 4] as const;

/**
 * Inserts the events that are not stored yet, in their order. The statement itself detects copies and determines the
 * priority, so that nothing is read before it:
 * - A copy by fingerprint gets a row (`ignored`, `duplicate`), so that every id has an outcome. The row has no text and no
 *   sender: a mailbox that is read again would bring back what was erased from the original.
 * - `preferred` senders come first under the channel's cap, with one queue per sender: authenticated senders, those with
 *   an earlier conversation, notification targets, and those that reference one of our messages. The other senders share
 *   one queue per domain.
 */
const insert = new ManyRows<readonly Value[]>(
  `WITH given (channel, external_id, fingerprint, cited, kind, code, sender, subject, body, sent_at, standing, domain,
     answer0, answer1, answer2, answer3, answer4, known_before) AS (VALUES`,
  "(?, ?, ?, CAST(? AS TEXT), ?, ?, ?, ?, ?, CAST(? AS BIGINT), CAST(? AS BIGINT), ?, ?, ?, ?, ?, ?, now_ms() - ?)",
  `)
   INSERT INTO events (channel, external_id, fingerprint, cited, kind, state, code, reason, sender, subject, body, due_at, sent_at, received_at, preferred, queue)
   SELECT channel, external_id, CASE WHEN original IS NULL THEN fingerprint END, CASE WHEN original IS NULL THEN cited END, kind,
     CASE WHEN original IS NULL THEN 'stored' ELSE 'ignored' END, CASE WHEN original IS NULL THEN code ELSE 'duplicate' END,
     'a copy of message ' || original, CASE WHEN original IS NULL THEN sender END, CASE WHEN original IS NULL THEN subject END,
     CASE WHEN original IS NULL THEN body ELSE '{}' END, now_ms(), sent_at, now_ms(),
     preferred, CASE WHEN original IS NOT NULL THEN NULL WHEN preferred = 1 THEN sender ELSE domain END
   FROM (
     SELECT given.*, (
         SELECT id FROM events WHERE events.channel = given.channel AND events.fingerprint = given.fingerprint
       ) AS original,
       CASE WHEN standing = 1 OR EXISTS (
         SELECT 1 FROM conversations WHERE conversations.channel = given.channel AND conversations.person = given.sender
           AND opened_at < known_before
       ) OR EXISTS (
         SELECT 1 FROM notification_targets WHERE notification_targets.channel = given.channel AND notification_targets.address = given.sender
       ) OR (answer0 IS NOT NULL AND EXISTS (
         SELECT 1 FROM citations WHERE citations.channel = given.channel AND draft IS NOT NULL
           AND citations.external_id IN (answer0, answer1, answer2, answer3, answer4)
       )) THEN 1 ELSE 0 END AS preferred
     FROM given
   ) AS judged WHERE true
   ON CONFLICT DO NOTHING RETURNING id, external_id, state`,
);

const insertRaw = new ManyRows<readonly Value[]>(
  "INSERT INTO raw_messages (channel, event, digest, bytes) VALUES",
  "(?, ?, ?, ?)",
);

const insertAttachments = new ManyRows<readonly Value[]>(
  "INSERT INTO attachments (event, position, channel, name, media_type, size, blob, ref, named, meant, reason, due_at) VALUES",
  "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CASE WHEN ? = 1 THEN now_ms() END)",
);

/** Stores events of one channel in state `stored`, in their order. Returns for each of them whether it was new. An
 *  event is a duplicate when its id or its fingerprint is already stored. A sender counts as known `knownMs` after the
 *  first conversation, which keeps the addresses of a flood unknown, even if some of its messages were answered. */
export async function insertEvents(
  q: Query,
  events: readonly NewEvent[],
  knownMs: number = standardTiming.accept.knownSender,
): Promise<readonly boolean[]> {
  const results: boolean[] = [];
  for (const group of withoutRepeats(events)) {
    const rows = group.map((event) => [...valuesOf(event), knownMs]);
    const stored = new Map<string, number>();
    for (const row of await insert.all<{ id: number; external_id: string; state: string }>(q, rows))
      if (row.state === "stored") stored.set(keyOf(row.external_id), row.id);
    if (stored.size > 0) touch(q, "events", group[0]?.channel);
    const raw = group.flatMap((event) => rawValues(event, stored.get(keyOf(event.externalId))));
    if (raw.length > 0) await insertRaw.write(q, raw);
    const blobs = group.flatMap(({ externalId, attachments }) =>
      stored.has(keyOf(externalId)) ? attachments.flatMap(({ blob }) => blob ?? []) : [],
    );
    await insertBlobs(q, blobs);
    const attachments = group.flatMap((event) => attachmentValues(event, stored.get(keyOf(event.externalId))));
    if (attachments.length > 0) await insertAttachments.write(q, attachments);
    if (attachments.some((values) => values.at(-1) === 1)) touch(q, "attachments", group[0]?.channel);
    results.push(...group.map(({ externalId }) => stored.has(keyOf(externalId))));
    for (const event of group) reportReceived(q, event, stored.get(keyOf(event.externalId)));
  }
  return results;
}

function reportReceived(q: Query, { channel, kind }: NewEvent, event: number | undefined): void {
  if (event === undefined) q.hop({ name: "duplicate", channel, trace: "" });
  else if (kind === "message") q.hop({ name: "received", channel, trace: traceOf(event), event });
}

/** Splits the events before every repeated id or fingerprint: a statement does not see its own rows. */
function* withoutRepeats(events: readonly NewEvent[]): Generator<readonly NewEvent[]> {
  let group: NewEvent[] = [];
  const [ids, fingerprints] = [new Set<string>(), new Set<string>()];
  for (const event of events) {
    const { fingerprint } = event;
    const id = keyOf(event.externalId);
    if (ids.has(id) || (fingerprint !== null && fingerprints.has(fingerprint))) {
      yield group;
      group = [];
      ids.clear();
      fingerprints.clear();
    }
    group.push(event);
    ids.add(id);
    if (fingerprint !== null) fingerprints.add(fingerprint);
  }
  if (group.length > 0) yield group;
}

function valuesOf(event: NewEvent): Value[] {
  const { channel, kind, sender, answers = [] } = event;
  const domain = sender === null ? null : sender.slice(sender.lastIndexOf("@") + 1);
  return [
    channel,
    event.externalId,
    event.fingerprint,
    event.cited ?? null,
    kind,
    event.exempt ? exempt : null,
    sender,
    event.subject,
    event.body,
    event.sentAt,
    kind !== "message" || sender === null || event.verified ? 1 : 0,
    domain,
    ...answersLookedUp.map((at) => answers[at] ?? null),
  ];
}

const rawValues = ({ channel, raw }: NewEvent, event: number | undefined): Value[][] =>
  raw === null || event === undefined ? [] : [[channel, event, raw.id, raw.bytes]];

function attachmentValues({ channel, attachments }: NewEvent, event: number | undefined): Value[][] {
  if (event === undefined) return [];
  return attachments.map((attachment, position) => [
    event,
    position,
    channel,
    attachment.name,
    attachment.mediaType,
    attachment.size,
    attachment.blob?.id ?? null,
    attachment.ref,
    attachment.named ? 1 : 0,
    (attachment.meant ?? attachment.named) ? 1 : 0,
    attachment.reason ?? null,
    attachment.ref !== null && attachment.blob === null ? 1 : 0,
  ]);
}

/** The reader that writes a cursor. A reader without the lease must not move the cursor. Absent for
 *  events without a cursor (webhooks). */
export interface ReaderLease {
  readonly lease: string;
  readonly token: number;
}

/** Stores the cursor of the channel. Throws when the reader has lost its lease. PostgreSQL keeps the lease's
 *  row locked until the commit, so that no other node takes it over in between. */
export async function moveCursor(
  q: Query,
  channel: string,
  { cursor, reader }: { readonly cursor: Cursor; readonly reader: ReaderLease },
): Promise<void> {
  const changed = await q.run(
    `UPDATE channels SET cursor = $2, cursor_at = now_ms() WHERE id = $1 AND EXISTS (
       SELECT 1 FROM leases WHERE name = $3 AND token = $4 AND until > now_ms()
       FOR UPDATE -- only: postgres
     )`,
    channel,
    cursor,
    reader.lease,
    reader.token,
  );
  if (changed !== 1) throw new Error(`accepting from channel ${channel}: another node reads it now`);
}
