// Converts new messages of the mailbox to committed events. A sweep lists the messages above the cursor, oldest
// first: on connect, on every announcement and every minute. Fetch, parse and commit overlap batch by batch, in
// the order of arrival.

import { createHash } from "node:crypto";
import {
  type Channel,
  type Cursor,
  type ExternalId,
  externalId,
  type InboundEvent,
  type MessageEvent,
  type Refusal,
} from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { EmailConfig } from "../config.ts";
import type { Arrival, EventRequest } from "../events.ts";
import type { ParseContext, SenderAuth } from "../parse/mail.ts";
import type { Parser } from "../parse/parser.ts";
import type { Identity } from "../parties.ts";
import {
  arrivedSince,
  type Envelope,
  envelopes,
  type Fetched,
  type Listed,
  list,
  listOnly,
  listWithSource,
  type ReadProgress,
  sources,
} from "./mailbox.ts";
import { readPartly } from "./oversized.ts";
import type { Mark, Traces } from "./traces.ts";

/** The methods of the channel that reading needs. */
export type Core = Pick<Channel, "accept" | "known" | "log" | "clock">;

export interface IntakeOptions {
  readonly core: Core;
  readonly config: EmailConfig;
  readonly self: Identity;
  readonly context: ParseContext;
  readonly read: Parser["read"];
  readonly mark: Mark;
  /** The channel's own mark. */
  readonly own: string;
  readonly traces: Pick<Traces, "handledBefore">;
  readonly client: ImapFlow;
  /** `INBOX/1712345678`: followed by `/<uid>` it is the id of a message. */
  readonly prefix: string;
  readonly signal: AbortSignal;
  /** Returns true for a canary of this channel, which is deleted and is no event. */
  readonly isCanary?: (raw: Uint8Array) => boolean;
  /** Called after every committed batch: connection and database work. */
  readonly proven: () => void;
}

/** One batch of a sweep. */
export interface Batch {
  readonly listed: readonly Listed[];
  /** Present when listing and bytes came in one response. */
  readonly fetched?: readonly Fetched[];
}

/** Called with the UIDs that the events settle. Returns the cursor to commit in the same transaction. */
export type CursorAfter = (settled: readonly number[]) => Cursor | undefined;

/** Three batches fit into memory at this size, and one commit still covers many messages. */
const batchCount = 50;
const batchBytes = 4_000_000;
/** After this many failed attempts a message is settled as unreadable. */
const readLimit = 3;
/** After this many attempts the sender counts as one that cannot be verified. With the retry delays this
 *  takes some minutes. */
const senderLimit = 8;

export interface Intake {
  /** Resolves with the number of messages to retry, after all others are committed and marked. */
  take(batches: readonly Batch[], cursorAfter: CursorAfter): Promise<number>;
  readonly idOf: (uid: number) => ExternalId;
}

/** One per connection. `looks` counts attempts across connections, so that reconnects cannot retry a
 *  message without limit. */
export function intake(options: IntakeOptions, looks: Map<ExternalId, number>): Intake {
  const { core, client, signal } = options;
  const { max_size: maxSize } = options.config;
  const idOf = (uid: number) => externalId(`${options.prefix}/${uid}`);
  const always = { config: eventConfigOf(options.config), addresses: options.self.addresses };

  async function fetched(batch: Batch): Promise<Understood[]> {
    const wanted = batch.listed.filter((one) => one.size <= maxSize);
    const here = batch.fetched?.filter((one) => one.size <= maxSize);
    const mails = here ?? (await sources(client, wanted, maxSize + 1));
    const tooLarge = batch.listed.filter((one) => one.size > maxSize);
    const found = await Promise.all(mails.map(read));
    for (const one of tooLarge) found.push(await readOversized(one));
    const hard = found.filter((one) => one.kind === "unread").map((one) => one.uid);
    const heads = hard.length === 0 ? null : await envelopes(client, hard);
    const all = found
      .map((one) => (one.kind === "unread" ? refused(one, heads?.get(one.uid) ?? null) : one))
      .sort((a, b) => a.uid - b.uid);
    const byUid = new Map(batch.listed.map((one) => [one.uid, one]));
    return Promise.all(all.map((one) => withTraces(one, byUid.get(one.uid))));
  }

  /** Reads the text of a message larger than `max_size`. A message on which the connection fails
   *  repeatedly, or whose structure the server does not return, is settled unread. */
  async function readOversized(listed: Listed): Promise<Understood | Unread> {
    const mail = { ...listed, raw: null };
    const { uid, size } = listed;
    // Counted separately from the attempts of `again`. This count must accumulate although the parts are
    // downloaded on each attempt.
    const parts = externalId(`${idOf(uid)}/parts`);
    const count = (looks.get(parts) ?? 0) + 1;
    const tooLarge: Unread = {
      kind: "unread",
      uid,
      mail,
      code: "too-large",
      reason: `the mail has ${size} bytes`,
    };
    if (count > readLimit) return tooLarge;
    looks.set(parts, count);
    const partly = await readPartly(client, uid, maxSize).catch((error: unknown) => {
      if (!client.usable) throw error;
      core.log.warn({ uid, size, err: error }, "reading the parts of an oversized message failed");
      return null;
    });
    looks.delete(parts);
    if (partly === null) return tooLarge;
    // A DKIM signature covers the whole body, which was not downloaded.
    const signed = options.context.senderAuth.mode === "mailauth";
    const context: ParseContext = signed
      ? { ...options.context, senderAuth: { mode: "off" } }
      : options.context;
    const { raw, omitted, truncated } = partly;
    const auth = signed ? unsigned : null;
    const request = { ...always, arrival: arrival(mail), omitted, truncated, auth, whole: false };
    return understood(mail, raw, context, request, tooLarge);
  }

  /** Parses a message in the worker and converts it into events. `unparsed`: the result for a message that
   *  cannot be parsed; null: it says why. */
  async function understood(
    mail: Fetched,
    raw: Uint8Array,
    context: ParseContext,
    request: EventRequest,
    unparsed: Unread | null,
  ): Promise<Understood | Unread> {
    const { uid } = mail;
    const result = await options.read(raw, context, request, signal);
    if (!result.ok) {
      const code = result.code === "malformed" ? "unparsable" : result.code;
      return unparsed ?? { kind: "unread", uid, mail, code, reason: result.reason };
    }
    const { understanding } = result;
    if (understanding.kind === "again") {
      const { code, reason } = understanding.otherwise;
      return again(mail, senderLimit, code, reason);
    }
    const events = understanding.events.map((event) => ("raw" in event ? { ...event, raw } : event));
    return { kind: "events", uid, events };
  }

  /** Sets `handledBefore` for the core on messages that an earlier state of the store, or another
   *  daemon, has handled. */
  async function withTraces(one: Understood, mail: Listed | undefined): Promise<Understood> {
    if (one.kind !== "events" || mail === undefined) return one;
    const events: InboundEvent[] = [];
    for (const event of one.events) {
      if (event.kind !== "message") events.push(event);
      else {
        const handledBefore = await options.traces.handledBefore(mail, event.cited ? [event.cited] : []);
        events.push(handledBefore === null ? event : { ...event, handledBefore });
      }
    }
    return { ...one, events };
  }

  async function read(mail: Fetched): Promise<Understood | Unread> {
    const { raw } = mail;
    if (raw === null) return again(mail, readLimit, "unreadable", "the server gives no content");
    // The message is larger than the server reported.
    if (raw.length > maxSize) return readOversized(mail);
    if (options.isCanary?.(raw)) {
      // Without UIDPLUS the server would also remove other mail that is marked as deleted.
      if (client.capabilities.has("UIDPLUS"))
        await client.messageDelete(String(mail.uid), { uid: true }).catch(() => false);
      return { kind: "events", uid: mail.uid, events: [] };
    }
    const request = {
      ...always,
      arrival: arrival(mail),
      omitted: [],
      truncated: false,
      auth: null,
      whole: true,
    };
    return understood(mail, raw, options.context, request, null);
  }

  /** Schedules a retry of the message, or settles it as failed after `limit` attempts. */
  function again(mail: Fetched, limit: number, code: string, reason: string): Understood | Unread {
    const id = idOf(mail.uid);
    const count = (looks.get(id) ?? 0) + 1;
    if (count < limit) {
      looks.set(id, count);
      return { kind: "again", uid: mail.uid };
    }
    looks.delete(id);
    return { kind: "unread", uid: mail.uid, mail, code, reason };
  }

  function refused({ uid, mail, code, reason }: Unread, head: Envelope | null): Understood {
    core.log.warn({ uid, size: mail.size, code }, "mail not accepted: kept unread for a retry");
    return { kind: "events", uid, events: [unread(arrival(mail), head, { code, reason }, mail.raw)] };
  }

  const arrival = (listed: Listed): Arrival => ({ id: idOf(listed.uid), listed, now: core.clock.now() });

  async function take(batches: readonly Batch[], cursorAfter: CursorAfter): Promise<number> {
    let pending = 0;
    let marks: Promise<void> = Promise.resolve();
    // Fetches two batches ahead: while one is committed, one is parsed and one is downloaded.
    const ahead: Promise<Understood[]>[] = [];
    const start = (batch: Batch) => {
      const work = fetched(batch);
      work.catch(() => {});
      ahead.push(work);
    };
    const rest = [...batches];
    for (const batch of rest.splice(0, 2)) start(batch);
    for (let next = ahead.shift(); next !== undefined; next = ahead.shift()) {
      const ready = await next;
      const following = rest.shift();
      if (following) start(following);
      signal.throwIfAborted();
      const settled = ready.filter((one) => one.kind === "events");
      pending += ready.length - settled.length;
      const uids = settled.map((one) => one.uid);
      if (settled.length === 0) continue;
      const events: InboundEvent[] = settled.flatMap((one) => one.events);
      await core.accept(events, cursorAfter(uids));
      options.proven();
      // Marks are set after the commit and do not delay the next batch.
      marks = marks.then(() => options.mark(client, uids, options.own));
    }
    await marks;
    return pending;
  }

  return { take, idOf };
}

type Understood =
  | { readonly kind: "events"; readonly uid: number; readonly events: readonly InboundEvent[] }
  | { readonly kind: "again"; readonly uid: number };
interface Unread {
  readonly kind: "unread";
  readonly uid: number;
  readonly mail: Fetched;
  readonly code: string;
  readonly reason: string;
}

/** Copies what the worker needs of the configuration, so that no secret is sent to it. */
function eventConfigOf(config: EmailConfig): EventRequest["config"] {
  const { accept_lists, attachments, automatic_senders, bcc, contact_forms, sender_auth } = config;
  return { accept_lists, attachments, automatic_senders, bcc, contact_forms, sender_auth };
}

/** Returns the event of a message that was not read: too large, not available, or not parsable. `raw` is
 *  kept when it is present and small. */
function unread(
  arrival: Arrival,
  envelope: Envelope | null,
  refusal: Refusal,
  raw: Uint8Array | null,
): MessageEvent {
  const print = raw
    ? createHash("sha256").update(raw).digest("hex")
    : `${arrival.listed.size}+${arrival.listed.arrived}`;
  return {
    kind: "message",
    id: arrival.id,
    fingerprint: `${envelope?.messageId ?? ""}+${print}`,
    ...(envelope?.messageId ? { cited: externalId(envelope.messageId) } : {}),
    from: envelope?.from
      ? { address: envelope.from.address, ...(envelope.from.name && { name: envelope.from.name }) }
      : { address: "unknown@invalid" },
    to: [],
    thread: { answers: envelope?.inReplyTo ? [externalId(envelope.inReplyTo)] : [] },
    sentAt: new Date(arrival.listed.arrived ?? arrival.now),
    ...(envelope?.subject ? { subject: envelope.subject } : {}),
    text: "",
    refusal,
    ...(raw !== null && raw.length <= 1_000_000 ? { raw } : {}),
  };
}

const unsigned: SenderAuth = {
  verdict: "none",
  method: "dmarc",
  domain: "",
  detail: "the message is too large for its signature to be verified",
};

/** Splits a listing into batches, by number of messages and by size. */
export function batchesOf(listed: readonly Listed[]): Batch[] {
  const batches: Listed[][] = [];
  let bytes = 0;
  for (const one of listed) {
    const last = batches.at(-1);
    if (last === undefined || last.length >= batchCount || bytes + one.size > batchBytes) {
      batches.push([one]);
      bytes = one.size;
    } else {
      last.push(one);
      bytes += one.size;
    }
  }
  return batches.map((batch) => ({ listed: batch }));
}

/** Up to this many announced messages are fetched together with their listing, in one round trip. */
const fewMails = 8;
/** In that round trip at most this many bytes of each message are fetched. */
const smallMail = 256_000;

export interface Sweeper {
  readonly core: Core;
  readonly client: ImapFlow;
  readonly intake: Intake;
  readonly progress: ReadProgress;
}

/** `announced`: the number of new messages the server announced, null when unknown. Resolves with the
 *  number of messages to retry. */
export async function sweep(sweeper: Sweeper, announced: number | null): Promise<number> {
  const { client, intake, progress } = sweeper;
  const from = progress.position.uid + 1;
  // Without a new message `N:*` would download the last message again, so a scheduled poll only lists.
  const quick = announced !== null && announced > 0 && announced <= fewMails && !progress.gap;
  const found = quick ? await listWithSource(client, from, smallMail) : await list(client, from);
  const open = progress.open(found);
  if (open.length === 0) {
    // The message that blocked the cursor was deleted from the mailbox.
    progress.settle([]);
    return 0;
  }
  // Only a new connection can find messages above its cursor that are already stored.
  const fresh = announced === null ? await notKnown(sweeper, open) : open;
  return intake.take(quick ? quickBatches(fresh as Fetched[]) : batchesOf(fresh), (uids) =>
    progress.settle(uids),
  );
}

/** Rescans the messages that arrived since a time, at the first start and after a change of UIDVALIDITY.
 *  The core deduplicates known messages by fingerprint. The cursor advances only when the rescan is
 *  complete. */
export async function rescan(sweeper: Sweeper, since: number): Promise<number> {
  const { core, client, intake, progress } = sweeper;
  const limit = progress.position.uid;
  const uids = (await arrivedSince(client, since)).filter((uid) => uid <= limit);
  // INTERNALDATE has a resolution of one second.
  const listed = (await listOnly(client, uids)).filter((one) => (one.arrived ?? since) + 1000 > since);
  const pending = await intake.take(batchesOf(await notKnown(sweeper, listed)), () => undefined);
  if (pending === 0) await core.accept([], progress.settle([]));
  return pending;
}

async function notKnown<T extends { readonly uid: number }>(
  sweeper: Sweeper,
  listed: readonly T[],
): Promise<T[]> {
  if (listed.length === 0) return [];
  const { core, intake, progress } = sweeper;
  const known = await core.known(listed.map((one) => intake.idOf(one.uid)));
  if (known.size === 0) return [...listed];
  const old = listed.filter((one) => known.has(intake.idOf(one.uid)));
  progress.settle(old.map((one) => one.uid));
  return listed.filter((one) => !known.has(intake.idOf(one.uid)));
}

/** Returns batches in order. Small messages are already fetched; the others are fetched as in any sweep. */
function quickBatches(found: readonly Fetched[]): Batch[] {
  const batches: { listed: Fetched[]; here: boolean }[] = [];
  for (const one of found) {
    const here = one.raw !== null || one.size <= smallMail;
    const last = batches.at(-1);
    if (last?.here === here) last.listed.push(one);
    else batches.push({ listed: [one], here });
  }
  return batches.flatMap(({ listed, here }) => (here ? [{ listed, fetched: listed }] : batchesOf(listed)));
}
