// Reads one mailbox while a connection is open. One loop alone owns the state of the connection. Events on it (a
// new message, a timer, a closed socket) only wake the loop. A watchdog ends a connection without progress.

import type { Channel, ChannelIdentity, Clock, Cursor, ExternalId, Health } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { Parser } from "../parse/parser.ts";
import { brief, statusOfSide } from "../status.ts";
import type { EmailTiming } from "../timing.ts";
import { type ConnectionOptions, type ImapConnection, openConnection } from "./connection.ts";
import { type FetchOptions, MailFetcher } from "./fetch.ts";
import {
  Announcements,
  lastUid,
  markRest,
  openMailbox,
  type Position,
  ReadProgress,
  readPosition,
  validityOf,
} from "./mailbox.ts";
import { Traces, type TracesOptions } from "./traces.ts";

export interface ReaderOptions
  extends Pick<FetchOptions, "config" | "self" | "context" | "mark" | "isCanary">,
    Pick<TracesOptions, "sent"> {
  readonly channel: Channel;
  readonly connection: ConnectionOptions;
  readonly health: Health;
  /** Called at the start of each run; closed at its end. */
  readonly parser: () => Pick<Parser, "read" | "close">;
  /** In ms: how long the provider lets a connection idle. */
  readonly idleLimit: number;
}

/** One connection, and what its loop uses. */
interface OpenedMailbox extends ImapConnection {
  /** The cursor at the start. */
  readonly cursor: Cursor | null;
  readonly read: Parser["read"];
  readonly watchdog: ReturnType<typeof createWatchdog>;
  readonly signal: AbortSignal;
}

export class MailboxReader {
  readonly #options: ReaderOptions;
  /** In ms: the time between two polls. */
  readonly #interval: number;
  readonly #attempts = new Map<ExternalId, number>();
  /** The last UID at the first connection of this process, by mailbox and UIDVALIDITY. */
  readonly #backlogs = new Map<string, number>();
  #failures = 0;

  constructor(options: ReaderOptions) {
    this.#options = options;
    const { poll, idle } = options.connection.imap;
    this.#interval = Math.min(poll, idle, options.idleLimit);
  }

  /** Implements `Inbound.run`. */
  async run(committed: Cursor | null, signal: AbortSignal): Promise<void> {
    const { channel, health } = this.#options;
    const state = health.of("imap")?.state;
    if (state !== "degraded" && state !== "unauthorized") health.set("imap", { state: "connecting" });
    let cursor = committed;
    const parser = this.#options.parser();
    try {
      // A login with a token ends when the token expires. A new connection then replaces it; this does not
      // count as a failure.
      while (!signal.aborted) cursor = await this.#connect(cursor, parser.read, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.#failures += 1;
      health.set("imap", statusOfSide("imap", error, this.#failures));
      channel.log.debug({ reason: brief(error), failures: this.#failures }, "imap connection lost");
      throw error;
    } finally {
      void parser.close();
    }
  }

  /** Resolves with the last committed cursor when the login is about to expire; throws when the connection fails. */
  async #connect(cursor: Cursor | null, read: Parser["read"], signal: AbortSignal): Promise<Cursor | null> {
    const { channel, connection: options } = this.#options;
    const { timing } = options;
    const ending = new AbortController();
    const within = AbortSignal.any([signal, ending.signal]);
    const connection = await openConnection(options, signal);
    const { client } = connection;
    const watchdog = createWatchdog(channel.clock, this.#interval, timing.stuck, () => client.close());
    void watchdog.run(within);
    const reading = this.#readOn({ ...connection, cursor, read, watchdog, signal: within });
    reading.catch(() => {});
    const aborted = new Promise<"aborted">((resolve) => {
      if (signal.aborted) resolve("aborted");
      else signal.addEventListener("abort", () => resolve("aborted"), { once: true, signal: ending.signal });
    });
    try {
      const first = await Promise.race([reading, connection.closed.then((error) => ({ error })), aborted]);
      if (first === "aborted") {
        await Promise.race([reading.catch(() => {}), channel.clock.sleep(timing.commitGrace)]);
        return cursor;
      }
      if (first !== null && typeof first === "object") {
        if (watchdog.hasEnded) throw new Error("the server did not respond (timeout)");
        throw first.error ?? new Error("the server closed the connection");
      }
      return first;
    } finally {
      ending.abort();
      client.close();
    }
  }

  /** Opens the mailbox and runs the loop. Resolves with the last committed cursor. */
  async #readOn(session: OpenedMailbox): Promise<Cursor | null> {
    const { channel, config, mark, connection } = this.#options;
    const { timing } = connection;
    const { client, signal, read, watchdog } = session;
    const identity = await channel.identity();
    let { cursor } = session;
    const core: FetchOptions["core"] = {
      log: channel.log,
      clock: channel.clock,
      copiedAfter: timing.copied,
      known: (ids) => channel.known(ids),
      accept: async (events, next) => {
        const accepted = await channel.accept(events, next).catch(storeFailed);
        cursor = next ?? cursor;
        watchdog.provenAt = channel.clock.monotonic(); // a long backlog is read in batches; each committed batch resets the watchdog
        return accepted;
      },
    };
    const pause: FetchOptions["pause"] = async (wait) => {
      watchdog.provenAt = Number.POSITIVE_INFINITY;
      return wait.finally(() => (watchdog.provenAt = channel.clock.monotonic()));
    };
    const own = { core, client, read, signal, pause, own: identity.mark, attempts: this.#attempts };
    const movedSince = config.mark.with === "move" ? restoredSince(identity, cursor, timing) : null;
    if (movedSince !== null) await this.#readMoved({ ...this.#options, ...own }, movedSince);
    const box = await client.mailboxOpen(config.imap.mailbox);
    const origin = await originOf(channel, identity, client, session.cursor, {
      history: config.first_start.history,
      ...timing,
    });
    const prefix = `${box.path}/${validityOf(client)}`;
    const traces = await this.#traces(client, identity, prefix, origin);
    await markRest(client, mark, origin.position, config, identity.mark);
    const progress = new ReadProgress(origin.position);
    const fetcher = new MailFetcher({ ...this.#options, ...own, prefix, progress, traces });
    const isBegun = origin.isNew || movedSince !== null;
    if (isBegun && origin.rescanSince === null) await core.accept([], progress.finish([]));
    await this.#loop(session, fetcher, traces, origin.rescanSince);
    return cursor;
  }

  /** Accepts what was moved out of the mailbox since then (epoch ms) and before the store was restored. It is held, unless the
   *  store knows it. Writes no cursor, so that the next connection repeats an interrupted call. */
  async #readMoved(options: Omit<FetchOptions, "prefix" | "progress" | "traces">, since: number): Promise<void> {
    const { client, config, core, signal } = options;
    const { folder } = config.mark;
    const box = await client.mailboxOpen(folder, { readOnly: true }).catch(nullIfMissing);
    if (box === null) return;
    const [uid, uidValidity] = [await lastUid(client), validityOf(client)];
    const handled = { by: "self", reason: `it was moved to ${folder} before the store was restored` } as const;
    const fetcher = new MailFetcher({
      ...options,
      core: { ...core, accept: (events) => core.accept(events) },
      mark: async () => {},
      prefix: `${box.path}/${uidValidity}`,
      progress: new ReadProgress({ v: 1, mailbox: box.path, uidValidity, uid, at: since, since }),
      traces: { backlog: uid, handledBefore: async () => handled },
    });
    while ((await fetcher.rescan(since)) > 0) await core.clock.sleep(this.#options.connection.timing.unread, signal);
  }

  async #traces(client: ImapFlow, identity: ChannelIdentity, prefix: string, origin: Origin): Promise<Traces> {
    const { channel, config, self, sent, connection } = this.#options;
    const backlog = this.#backlogs.get(prefix) ?? (await lastUid(client));
    this.#backlogs.set(prefix, backlog);
    const watchFrom = origin.position.watch?.uid ?? backlog + 1;
    // The Sent folder may take one interval, because the watchdog ends the connection after three intervals
    // without a response.
    const patience = this.#interval;
    const { keyword } = config.mark;
    const { recentMarks: recent } = connection.timing;
    const traces = new Traces({ channel, self, keyword, sent, patience, recent, identity, backlog, watchFrom });
    client.on("flags", ({ flags }) => traces.noteKeywords(flags ?? []));
    return traces;
  }

  /** Polls, idles and waits for the next wake-up, until the login must be renewed. */
  async #loop(session: OpenedMailbox, fetcher: MailFetcher, traces: Traces, rescan: number | null): Promise<void> {
    const { client, loginEndsAt, signal } = session;
    const { channel, connection } = this.#options;
    const { clock } = channel;
    const { loginRenewal, unread } = connection.timing;
    const validity = validityOf(client);
    const announcements = new Announcements(client, signal);
    const started = clock.now();
    const renewAt =
      loginEndsAt === null
        ? Number.POSITIVE_INFINITY
        : loginEndsAt - Math.min(loginRenewal, (loginEndsAt - started) / 4);
    let rescanSince = rescan;
    let announced: number | null = null;
    for (let retries = 0; ; ) {
      if (validityOf(client) !== validity) throw new Error("the mailbox counts anew");
      let pending = 0;
      if (rescanSince !== null) {
        pending = await fetcher.rescan(rescanSince);
        if (pending === 0) rescanSince = null;
      }
      // A cursor committed now would end the rescan, so no other message is accepted before the rescan is complete.
      if (rescanSince === null) pending += await fetcher.poll(announced);
      openMailbox(client);
      session.watchdog.provenAt = clock.monotonic();
      this.#failures = 0;
      if (announced === null) this.#options.health.set("imap", { state: "ready" });
      if (announced === null || announced === 0) await traces.lookForOthers(client);
      retries = pending > 0 ? retries + 1 : 0;
      if (clock.now() >= renewAt) return;
      const pause = pending > 0 ? Math.min(this.#interval, unread * 2 ** (retries - 1)) : this.#interval;
      announced = await announcements.next(clock, Math.min(pause, Math.max(0, renewAt - clock.now())));
      signal.throwIfAborted();
    }
  }
}

/** Where a new connection starts to read. */
interface Origin {
  readonly position: Position;
  /** Epoch ms: first rescan all messages that arrived since, up to `position.uid`. Null: no rescan. */
  readonly rescanSince: number | null;
  /** True when the mailbox was never read before. The position must then be committed first. */
  readonly isNew: boolean;
}

/** Marks the error of a failed commit, such as a full disk, so that the status does not name the connection. */
const storeFailed = (error: unknown): never => {
  throw Object.assign(new Error(brief(error), { cause: error }), { storeFailed: true });
};

const nullIfMissing = (error: unknown): null => {
  if ((error as { mailboxMissing?: boolean }).mailboxMissing !== true) throw error;
  return null;
};

/** Returns from when on (epoch ms) an earlier state of the store may have handled messages that this one does not know: another
 *  installation has written the cursor. Null when there was none. */
function restoredSince(
  { mark }: ChannelIdentity,
  cursor: Cursor | null,
  { rescanMargin }: Pick<EmailTiming, "rescanMargin">,
): number | null {
  const before = cursor === null ? null : readPosition(cursor);
  if (before?.watch === undefined || before.watch.mark === mark) return null;
  return readAgainSince(before, rescanMargin);
}

/** Returns the epoch ms from which on messages are read once more. */
const readAgainSince = ({ since, at }: { readonly since: number; readonly at: number }, margin: number): number =>
  Math.max(since, at - margin);

/** `history`: how long before its first start the channel reads. Does not write. */
async function originOf(
  channel: Channel,
  identity: ChannelIdentity,
  client: ImapFlow,
  committed: Cursor | null,
  { history, rescanMargin }: Pick<EmailTiming, "rescanMargin"> & { readonly history: number },
): Promise<Origin> {
  const mailbox = openMailbox(client);
  const uidValidity = validityOf(client);
  if (uidValidity === "0") channel.log.warn({}, "imap server returned no usable UIDVALIDITY");
  const now = channel.clock.now();
  const before = committed === null ? null : readPosition(committed);
  const uid = await lastUid(client);
  const watch = { mark: identity.mark, uid: uid + 1 };
  const end = { v: 1, mailbox: mailbox.path, uidValidity, uid, at: now, watch } as const;
  if (before === null) {
    // The first login may come long after the channel was configured. Messages that arrived in between are new.
    const since = identity.since.getTime() - history;
    return { position: { ...end, since }, rescanSince: since, isNew: true };
  }
  if (before.mailbox !== mailbox.path) {
    channel.log.warn({}, "mailbox changed: reading starts at its end");
    const since = now - history;
    return { position: { ...end, since }, rescanSince: history > 0 ? since : null, isNew: true };
  }
  if (before.uidValidity === uidValidity) {
    const same = before.watch?.mark === identity.mark;
    return { position: same ? before : { ...before, watch }, rescanSince: null, isNew: false };
  }
  channel.log.warn({ from: before.uidValidity, to: uidValidity }, "mailbox UIDVALIDITY changed: reading it again");
  return { position: { ...end, since: before.since }, rescanSince: readAgainSince(before, rescanMargin), isNew: false };
}

/** Calls `end` once when `provenAt` is older than three intervals and `least`; a half-open socket shows no other
 *  error. Time in which the machine was suspended does not count, because responses that arrived during that time are
 *  still unread. */
function createWatchdog(clock: Clock, interval: number, least: number, end: () => void) {
  const patience = Math.max(3 * interval, least);
  const watchdog = {
    /** Monotonic ms at which the connection and the database last worked. */
    provenAt: clock.monotonic(),
    /** True when the watchdog has ended the connection. */
    hasEnded: false,
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        const due = clock.monotonic() + interval;
        await clock.sleep(interval, signal);
        watchdog.provenAt += Math.max(0, clock.monotonic() - due);
        if (signal.aborted || clock.monotonic() - watchdog.provenAt < patience) continue;
        watchdog.hasEnded = true;
        return end();
      }
    },
  };
  return watchdog;
}
