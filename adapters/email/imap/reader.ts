// Reads one mailbox while a connection is open. This loop alone owns the state of the connection. Events on it (a
// new message, a timer, a closed socket) only wake the loop. A watchdog ends a connection without progress.

import type { Channel, Clock, Cursor, ExternalId, Health } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import type { Parser } from "../parse/parser.ts";
import { brief, statusOf } from "../status.ts";
import { type ConnectionOptions, type ImapConnection, openConnection } from "./connection.ts";
import { type Core, type IntakeOptions, intake, rescan, type Sweeper, sweep } from "./intake.ts";
import { lastUid, openMailbox, originOf, progress, validityOf } from "./mailbox.ts";
import { type Backlog, type TracesOptions, tracesOf } from "./traces.ts";

export interface ReaderOptions
  extends Pick<IntakeOptions, "config" | "self" | "context" | "mark" | "isCanary">,
    Pick<TracesOptions, "sent"> {
  readonly channel: Channel;
  readonly connection: ConnectionOptions;
  readonly health: Health;
  /** Called at the start of each run; closed at its end. */
  readonly parser: () => Pick<Parser, "read" | "close">;
  /** In ms: how long the provider lets a connection idle. */
  readonly idleLimit: number;
}

/** In ms: how long an aborted run waits for a commit in progress. */
const grace = 500;
/** In ms: delay before the first retry of a message that could not be read. The delay doubles with each
 *  retry. */
const lookAgain = 2_000;

/** `Inbound.run` of one channel. */
export function reader(
  options: ReaderOptions,
): (cursor: Cursor | null, signal: AbortSignal) => Promise<void> {
  const { channel, health } = options;
  const looks = new Map<ExternalId, number>();
  const backlogs = new Map<string, Backlog>();
  let failures = 0;

  return async (committed, signal) => {
    const state = health.of("imap")?.state;
    if (state !== "degraded" && state !== "unauthorized") health.set("imap", { state: "connecting" });
    let cursor = committed;
    const parser = options.parser();
    try {
      // A login with a token ends when the token expires. A new connection then replaces it; this does not
      // count as a failure.
      while (!signal.aborted) {
        const own = { ...options, read: parser.read, backlogs };
        cursor = await oneConnection(own, looks, cursor, signal, () => {
          failures = 0;
          health.set("imap", { state: "ready" });
        });
      }
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      health.set("imap", statusOf(error, failures));
      channel.log.debug({ reason: brief(error), failures }, "imap connection lost");
      throw error;
    } finally {
      void parser.close();
    }
  };
}

/** Resolves with the last committed cursor when the login is about to expire; throws when the connection
 *  fails. */
async function oneConnection(
  options: ReaderOptions & Pick<ReadLoop, "read" | "backlogs">,
  looks: Map<ExternalId, number>,
  cursor: Cursor | null,
  signal: AbortSignal,
  ready: () => void,
): Promise<Cursor | null> {
  const { channel } = options;
  const ending = new AbortController();
  const within = AbortSignal.any([signal, ending.signal]);
  const connection = await openConnection(options.connection, signal);
  const { client } = connection;
  const interval = Math.min(options.connection.imap.poll, options.connection.imap.idle, options.idleLimit);
  const dog = watchdog(channel.clock, interval, within, () => client.close());
  const reading = readOn({
    ...options,
    connection,
    cursor,
    interval,
    looks,
    ready,
    proven: dog.proven,
    signal: within,
  });
  reading.catch(() => {});
  const aborted = new Promise<"aborted">((resolve) => {
    if (signal.aborted) resolve("aborted");
    else signal.addEventListener("abort", () => resolve("aborted"), { once: true, signal: ending.signal });
  });
  try {
    const first = await Promise.race([reading, connection.closed.then((error) => ({ error })), aborted]);
    if (first === "aborted") {
      client.close();
      await Promise.race([reading.catch(() => {}), channel.clock.sleep(grace)]);
      return cursor;
    }
    if (first !== null && typeof first === "object") {
      if (dog.barked()) throw new Error("the line was silent for too long");
      throw first.error ?? new Error("the server closed the line");
    }
    return first;
  } finally {
    ending.abort();
    client.close();
  }
}

interface ReadLoop extends Omit<ReaderOptions, "connection">, Pick<IntakeOptions, "read"> {
  readonly connection: ImapConnection;
  readonly cursor: Cursor | null;
  readonly interval: number;
  readonly looks: Map<ExternalId, number>;
  /** The messages present at the first connection of this process, by mailbox and UIDVALIDITY. */
  readonly backlogs: Map<string, Backlog>;
  readonly ready: () => void;
  readonly proven: () => void;
  readonly signal: AbortSignal;
}

/** Runs the loop: sweep, idle, wait for the next wake-up. */
async function readOn(options: ReadLoop): Promise<Cursor | null> {
  const { channel, signal, proven, interval } = options;
  const { client, loginEndsAt } = options.connection;
  const { clock } = channel;
  const { config, self } = options;
  const identity = await channel.identity();
  const box = await client.mailboxOpen(config.imap.mailbox);
  const origin = await originOf(channel, identity, client, options.cursor, config.first_start.history);
  const validity = validityOf(client);
  let cursor = options.cursor;
  const steps = progress(origin.position);
  const prefix = `${box.path}/${validity}`;
  const backlog = options.backlogs.get(prefix) ?? { lastUid: await lastUid(client) };
  options.backlogs.set(prefix, backlog);
  const watchFrom = origin.position.watch?.uid ?? backlog.lastUid + 1;
  const traces = tracesOf(
    // The Sent folder may take one interval, because the watchdog ends the connection after three intervals
    // without a response.
    { channel, self, keyword: config.mark.keyword, sent: options.sent, patience: interval },
    identity,
    backlog,
    watchFrom,
  );
  client.on("flags", ({ flags }) => traces.noteKeywords(flags ?? []));
  const core: Core = {
    log: channel.log,
    clock,
    known: (ids) => channel.known(ids),
    accept: async (events, next) => {
      const accepted = await channel.accept(events, next);
      cursor = next ?? cursor;
      proven(); // a long backlog is read in batches; each committed batch resets the watchdog
      return accepted;
    },
  };
  const taking = intake({ ...options, core, client, prefix, traces, own: identity.mark }, options.looks);
  const sweeper: Sweeper = { core, client, intake: taking, progress: steps };
  const waking = wakening(client, signal);
  const started = clock.now();
  const renewAt =
    loginEndsAt === null
      ? Number.POSITIVE_INFINITY
      : loginEndsAt - Math.min(60_000, (loginEndsAt - started) / 4);
  let rescanSince = origin.rescanSince;
  if (origin.isNew && rescanSince === null) await core.accept([], steps.settle([]));

  let announced: number | null = null;
  for (let retries = 0; ; ) {
    if (validityOf(client) !== validity) throw new Error("the mailbox counts anew");
    let pending = 0;
    if (rescanSince !== null) {
      pending = await rescan(sweeper, rescanSince);
      if (pending === 0) rescanSince = null;
    }
    // A cursor committed now would end the rescan, so no other message is accepted before the rescan is
    // complete.
    if (rescanSince === null) pending += await sweep(sweeper, announced);
    openMailbox(client);
    proven();
    options.ready();
    if (announced === null || announced === 0) await traces.lookForOthers(client);
    retries = pending > 0 ? retries + 1 : 0;
    if (clock.now() >= renewAt) return cursor;
    const pause = pending > 0 ? Math.min(interval, lookAgain * 2 ** (retries - 1)) : interval;
    announced = await waking.next(clock, Math.min(pause, Math.max(0, renewAt - clock.now())));
    signal.throwIfAborted();
  }
}

export interface Wakening {
  /** Idles until an event occurs. Returns the number of messages announced since the last call; after at
   *  most `ms` it returns 0, for a scheduled poll. An announcement during a sweep makes the next call
   *  return at once. */
  next(clock: Clock, ms: number): Promise<number>;
}

/** Listens until the signal aborts, which also wakes the loop; one per connection. */
function wakening(client: ImapFlow, signal: AbortSignal): Wakening {
  let announced = 0;
  let changed = false;
  let poke: () => void = () => {};
  client.on("exists", ({ count, prevCount }) => {
    announced += Math.max(0, count - prevCount);
    changed = true;
    poke();
  });
  // A server that changes UIDVALIDITY closes and reopens the mailbox during the session.
  client.on("mailboxOpen", () => {
    changed = true;
    poke();
  });
  signal.addEventListener("abort", () => poke(), { once: true });
  const idles = client.capabilities.has("IDLE") || client.capabilities.has("IMAP4REV2");

  return {
    async next(clock, ms) {
      if (!changed && !signal.aborted) {
        // imapflow ends IDLE when the next command is sent.
        if (idles) client.idle().catch(() => {});
        const timer = new AbortController();
        poke = () => timer.abort(null);
        await clock.sleep(ms, timer.signal);
        poke = () => {};
      }
      const count = announced;
      announced = 0;
      changed = false;
      return count;
    },
  };
}

export interface Watchdog {
  /** Called when the connection and the database have just worked. */
  readonly proven: () => void;
  /** True when the watchdog has ended the connection. */
  readonly barked: () => boolean;
}

/** Calls `end` once when `proven` was not called for three intervals; a half-open socket shows no other
 *  error. Time in which the machine was suspended does not count, because responses that arrived during
 *  that time are still unread. */
function watchdog(clock: Clock, interval: number, signal: AbortSignal, end: () => void): Watchdog {
  let last = clock.monotonic();
  let barked = false;
  void (async () => {
    while (!signal.aborted) {
      const due = clock.monotonic() + interval;
      await clock.sleep(interval, signal);
      last += Math.max(0, clock.monotonic() - due);
      if (signal.aborted || clock.monotonic() - last < 3 * interval) continue;
      barked = true;
      return end();
    }
  })();
  return {
    proven: () => {
      last = clock.monotonic();
    },
    barked: () => barked,
  };
}
