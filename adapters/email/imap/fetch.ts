// Converts new messages of the mailbox to committed events. A poll lists the messages above the cursor, oldest first: on
// connect, on every announcement and every minute. Download, parsing and commit overlap batch by batch, in the order of
// arrival.

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
import type { Identity } from "../parse/headers.ts";
import type { ParseContext, SenderAuth } from "../parse/mail.ts";
import type { Parser } from "../parse/parser.ts";
import { type Batch, batchesOf, takeMemory } from "./batches.ts";
import { type Envelope, envelopes, unread } from "./header-fields.ts";
import {
  arrivedSince,
  type Fetched,
  type Listed,
  list,
  listOnly,
  listWithSource,
  type Mark,
  type ReadProgress,
  unmarked,
} from "./mailbox.ts";
import { readPartly } from "./oversized.ts";
import { endsOf, nullIfRejected, readSources } from "./sources.ts";
import type { Traces } from "./traces.ts";

export interface FetchOptions {
  /** The methods of the channel that reading needs. `copiedAfter`: see `Arrival`. */
  readonly core: Pick<Channel, "accept" | "known" | "log" | "clock"> & { readonly copiedAfter: number };
  readonly config: EmailConfig;
  readonly self: Identity;
  readonly context: ParseContext;
  readonly read: Parser["read"];
  readonly mark: Mark;
  /** The channel's own mark. */
  readonly own: string;
  readonly traces: Pick<Traces, "handledBefore" | "backlog">;
  readonly client: ImapFlow;
  /** `INBOX/1712345678`: followed by `/<uid>` it is the id of a message. */
  readonly prefix: string;
  readonly progress: ReadProgress;
  /** The attempts of each message, counted across connections, so that reconnects cannot retry one without limit. */
  readonly attempts: Map<ExternalId, number>;
  readonly signal: AbortSignal;
  /** Waits for something else than the server: its silence then shows nothing. */
  readonly pause: <T>(wait: Promise<T>) => Promise<T>;
  /** Returns true for a canary of this channel, which is deleted and is no event. */
  readonly isCanary?: (raw: Uint8Array) => boolean;
}

/** Called with the UIDs that the events settle. Returns the cursor to commit in the same transaction. */
type CursorAfter = (finished: readonly number[]) => Cursor | undefined;

/** The events of a message; or no events, when it is retried later. */
type FetchResult =
  | { readonly kind: "events"; readonly uid: number; readonly events: readonly InboundEvent[] }
  | { readonly kind: "again"; readonly uid: number };

/** A batch that is downloaded and parsed. */
interface StartedBatch {
  /** Resolves when there is memory for it; null when it has been downloaded. */
  readonly memory: Promise<unknown> | null;
  readonly results: Promise<FetchResult[]>;
  /** Frees its memory, not before it is parsed. */
  readonly free: () => void;
}

/** A message that is accepted without its text, because it could not be read. */
interface Unread extends Refusal {
  readonly kind: "unread";
  readonly uid: number;
  readonly mail: Fetched;
}

/** Up to this many announced messages are fetched together with their listing, in one round trip. */
const fewMails = 8;
/** In that round trip at most this many bytes of each message are fetched. */
const smallMail = 256_000;
/** After this many failed attempts a message is settled as unreadable. */
const readLimit = 3;
/** After this many attempts the sender counts as one that cannot be verified, and a message that the server rejects as
 *  unreadable. With the retry delays this takes some minutes. */
const slowLimit = 8;

/** Fetches new messages over one connection. */
export class MailFetcher {
  readonly #options: FetchOptions;
  /** The parts of every request to the parser that depend on the channel only, without the secrets of its configuration. */
  readonly #always: Pick<EventRequest, "config" | "addresses">;
  readonly #idOf = (uid: number): ExternalId => externalId(`${this.#options.prefix}/${uid}`);
  readonly #batchesOf = (listed: readonly Listed[]): Batch[] =>
    batchesOf(listed, ({ uid }) => endsOf(this.#options.attempts, this.#idOf(uid)));

  constructor(options: FetchOptions) {
    this.#options = options;
    const { accept_lists, attachments, automatic_senders, bcc, contact_forms, sender_auth } = options.config;
    this.#always = {
      config: { accept_lists, attachments, automatic_senders, bcc, contact_forms, sender_auth },
      addresses: options.self.addresses,
    };
  }

  /** Accepts the messages above the cursor. `announced`: the number of new messages the server announced, null when
   *  unknown. Resolves with the number of messages to retry, after all others are committed and marked. */
  async poll(announced: number | null): Promise<number> {
    const { client, progress } = this.#options;
    const from = progress.position.uid + 1;
    // Without a new message `N:*` would download the last message again, so a scheduled poll only lists.
    const quick = announced !== null && announced > 0 && announced <= fewMails && !progress.gap;
    const whole = quick ? await listWithSource(client, from, smallMail).catch(nullIfRejected) : null;
    const found = whole ?? (await list(client, from));
    const open = progress.open(found);
    if (open.length === 0) {
      // The message that blocked the cursor was deleted from the mailbox.
      progress.finish([]);
      return 0;
    }
    // Only a new connection can find messages above its cursor that are already stored.
    const fresh = announced === null ? await this.#notKnown(open) : open;
    return this.#take(whole ? quickBatches(fresh as Fetched[]) : this.#batchesOf(fresh), (uids) =>
      progress.finish(uids),
    );
  }

  /** Accepts the messages that arrived since a time (epoch ms) again, at the first start and after a change of
   *  UIDVALIDITY. The core deduplicates known messages by fingerprint. The cursor advances only when the rescan is
   *  complete. Resolves like `poll`. */
  async rescan(since: number): Promise<number> {
    const { core, client, progress } = this.#options;
    const limit = progress.position.uid;
    const uids = (await arrivedSince(client, since)).filter((uid) => uid <= limit);
    // INTERNALDATE has a resolution of one second.
    const listed = (await listOnly(client, uids)).filter((one) => (one.arrived ?? since) + 1000 > since);
    const pending = await this.#take(this.#batchesOf(await this.#notKnown(listed)), () => undefined);
    if (pending === 0) await core.accept([], progress.finish([]));
    return pending;
  }

  async #notKnown(listed: readonly Listed[]): Promise<Listed[]> {
    const { config, core, own, progress } = this.#options;
    if (listed.length === 0) return [];
    const known = await core.known(listed.map((one) => this.#idOf(one.uid)));
    const isKnown = (one: Listed) => known.has(this.#idOf(one.uid));
    const stored = listed.filter(isKnown);
    const uids = stored.map((one) => one.uid);
    if (uids.length > 0) progress.finish(uids);
    await this.#mark(unmarked(stored, config.mark.keyword, own), uids);
    return listed.filter((one) => !isKnown(one));
  }

  /** `marked`: the messages that have their marks after that. After the end of a connection this is unknown, and the next
   *  one marks them (`markRest`). */
  async #mark(uids: readonly number[], marked: readonly number[]): Promise<void> {
    const { client, mark, own, progress } = this.#options;
    await mark(client, uids, own);
    if (client.usable) progress.confirmMarks(marked);
  }

  async #take(batches: readonly Batch[], cursorAfter: CursorAfter): Promise<number> {
    const { core, pause, signal } = this.#options;
    let pending = 0;
    let marks: Promise<void> = Promise.resolve();
    const rest = [...batches];
    const started: StartedBatch[] = [];
    const startUpTo = (most: number) => {
      for (let [next] = rest; next && started.length < (next.alone ? 1 : most); [next] = rest)
        started.push(this.#start(rest.shift() as Batch));
    };
    // A function that waits keeps all that its variables had, so each batch has a call of its own.
    const finish = async () => {
      const [next] = started;
      if (next === undefined) return;
      if (next.memory !== null) await pause(next.memory);
      const ready = await next.results;
      // Fetches two batches ahead: while one is committed, one is parsed and one is downloaded.
      startUpTo(3);
      signal.throwIfAborted();
      const done = ready.filter((one) => one.kind === "events");
      pending += ready.length - done.length;
      const uids = done.map((one) => one.uid);
      const events: InboundEvent[] = done.flatMap((one) => one.events);
      if (done.length > 0) {
        await core.accept(events, cursorAfter(uids));
        // Marks are set after the commit and do not delay the next batch.
        marks = marks.then(() => this.#mark(uids, uids));
      }
      next.free();
      started.shift();
      startUpTo(2);
    };
    try {
      startUpTo(2);
      while (started.length > 0) await finish();
    } finally {
      for (const { free } of started) free();
      await marks;
    }
    return pending;
  }

  #start(batch: Batch): StartedBatch {
    const { config, signal } = this.#options;
    const memory = batch.fetched ? null : takeMemory(batch.listed, config.max_size, signal);
    const results = Promise.resolve(memory).then(() => this.#results(batch));
    results.catch(() => undefined); // not awaited after an error of an earlier batch
    const free = async () => {
      await results.catch(() => undefined);
      (await memory)?.();
    };
    return { memory, results, free: () => void free().catch(() => undefined) };
  }

  async #results(batch: Batch): Promise<FetchResult[]> {
    const { attempts: ends, client, config, traces } = this.#options;
    const fits = (one: Listed) => one.size <= config.max_size;
    const request = { client, maxLength: config.max_size + 1, ends, idOf: this.#idOf };
    const mails = batch.fetched?.filter(fits) ?? (await readSources(request, batch.listed.filter(fits)));
    const found = await Promise.all(mails.map((mail) => this.#read(mail)));
    for (const one of batch.listed) if (!fits(one)) found.push(await this.#readOversized(one));
    const unread = found.filter((one) => one.kind === "unread").map((one) => one.uid);
    const heads = unread.length === 0 ? null : await envelopes(client, unread);
    const byUid = new Map(batch.listed.map((one) => [one.uid, one]));
    // Most messages are new, and no other program has flagged them.
    const isUntouched = (mail: Listed | undefined) =>
      mail !== undefined && mail.uid > traces.backlog && mail.keywords.length === 0;
    const results = found
      .map((one) => (one.kind === "unread" ? this.#refused(one, heads?.get(one.uid) ?? null) : one))
      .sort((a, b) => a.uid - b.uid);
    return Promise.all(
      results.map(async (one) => {
        const mail = byUid.get(one.uid);
        return isUntouched(mail) ? one : this.#withTraces(one, mail);
      }),
    );
  }

  async #read(mail: Fetched): Promise<FetchResult | Unread> {
    const { client, config, context, isCanary } = this.#options;
    const { raw, uid } = mail;
    if (raw === null && mail.failure) return this.#again(mail, slowLimit, "unreadable", mail.failure);
    if (raw === null) return this.#again(mail, readLimit, "unreadable", "the server gives no content");
    // The message is larger than the server reported.
    if (raw.length > config.max_size) return this.#readOversized(mail);
    if (isCanary?.(raw)) {
      // Without UIDPLUS the server would also remove other mail that is marked as deleted.
      if (client.capabilities.has("UIDPLUS")) await client.messageDelete(String(uid), { uid: true }).catch(() => false);
      return { kind: "events", uid, events: [] };
    }
    return this.#parse(mail, raw, context, { omitted: [], truncated: false, auth: null, whole: true }, null);
  }

  /** Reads the text of a message larger than `max_size`. A message on which the connection fails
   *  repeatedly, or whose structure the server does not return, is settled unread. */
  async #readOversized(listed: Listed): Promise<FetchResult | Unread> {
    const { attempts, client, config, context, core } = this.#options;
    const mail = { ...listed, raw: null };
    const { uid, size } = listed;
    // Counted separately from the attempts of `#again`. This count must accumulate although the parts are
    // downloaded on each attempt.
    const parts = externalId(`${this.#idOf(uid)}/parts`);
    const count = (attempts.get(parts) ?? 0) + 1;
    const tooLarge: Unread = {
      kind: "unread",
      uid,
      mail,
      code: "too-large",
      reason: `the mail has ${size} bytes`,
    };
    if (count > readLimit) return tooLarge;
    attempts.set(parts, count);
    const partly = await readPartly(client, uid, config.max_size).catch((error: unknown) => {
      if (!client.usable) throw error;
      core.log.warn({ uid, size, err: error }, "reading the parts of an oversized message failed");
      return null;
    });
    attempts.delete(parts);
    if (partly === null) return tooLarge;
    const { raw, omitted, truncated } = partly;
    // A DKIM signature covers the whole body, which was not downloaded.
    const signed = context.senderAuth.mode === "mailauth";
    return this.#parse(
      mail,
      raw,
      signed ? { ...context, senderAuth: { mode: "off" } } : context,
      { omitted, truncated, auth: signed ? unsigned : null, whole: false },
      tooLarge,
    );
  }

  /** Parses a message in the worker and converts it into events. `unparsed`: the result for a message that
   *  cannot be parsed; null: it says why. */
  async #parse(
    mail: Fetched,
    raw: Uint8Array,
    context: ParseContext,
    request: Pick<EventRequest, "omitted" | "truncated" | "auth" | "whole">,
    unparsed: Unread | null,
  ): Promise<FetchResult | Unread> {
    const { uid } = mail;
    const whole = { ...this.#always, ...request, arrival: this.#arrival(mail) };
    const result = await this.#options.read(raw, context, whole, this.#options.signal);
    if (!result.ok) {
      const code = result.code === "malformed" ? "unparsable" : result.code;
      return unparsed ?? { kind: "unread", uid, mail, code, reason: result.reason };
    }
    const { understanding } = result;
    if (understanding.kind === "again") {
      const { code, reason } = understanding.otherwise;
      return this.#again(mail, slowLimit, code, reason);
    }
    const events = understanding.events.map((event) => ("raw" in event ? { ...event, raw } : event));
    return { kind: "events", uid, events };
  }

  /** Schedules a retry of the message, or settles it as failed after `limit` attempts. */
  #again(mail: Fetched, limit: number, code: string, reason: string): FetchResult | Unread {
    const { attempts } = this.#options;
    const id = this.#idOf(mail.uid);
    const count = (attempts.get(id) ?? 0) + 1;
    if (count < limit) {
      attempts.set(id, count);
      return { kind: "again", uid: mail.uid };
    }
    attempts.delete(id);
    return { kind: "unread", uid: mail.uid, mail, code, reason };
  }

  #refused({ uid, mail, code, reason }: Unread, head: Envelope | null): FetchResult {
    this.#options.core.log.warn({ uid, size: mail.size, code, reason }, "mail unreadable: accepted without its text");
    // A genuine message must not disappear, so a human looks at it.
    const refusal: Refusal = head?.automatic ? { code, reason } : { code, reason, hold: true };
    return { kind: "events", uid, events: [unread(this.#arrival(mail), head, refusal, mail.raw)] };
  }

  /** Sets `handledBefore` for the core on messages that an earlier state of the store, or another
   *  daemon, has handled. */
  async #withTraces(one: FetchResult, mail: Listed | undefined): Promise<FetchResult> {
    if (one.kind !== "events" || mail === undefined) return one;
    const { traces } = this.#options;
    const events: InboundEvent[] = [];
    for (const event of one.events) {
      const handledBefore =
        event.kind === "message" ? await traces.handledBefore(mail, event.cited ? [event.cited] : []) : null;
      events.push(handledBefore === null ? event : ({ ...event, handledBefore } as MessageEvent));
    }
    return { ...one, events };
  }

  #arrival(listed: Listed): Arrival {
    const { clock, copiedAfter } = this.#options.core;
    return { id: this.#idOf(listed.uid), listed, now: listed.arrived ?? clock.now(), copiedAfter };
  }
}

const unsigned: SenderAuth = {
  result: "none",
  method: "dmarc",
  domain: "",
  detail: "the message is too large for its signature to be verified",
};

/** Returns batches in order. Small messages are already fetched; the others are fetched as in any poll. */
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
