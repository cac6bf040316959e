// An in-memory `Channel` for tests. Arrays that a test can read replace the store. A test can delay
// `accept` or make it fail.

import { setImmediate as turn } from "node:timers/promises";
import type {
  Accepted,
  AgentFacts,
  Channel,
  Clock,
  Log,
  LogFields,
  MarkOwner,
  SessionFacts,
} from "../channel.ts";
import type { InboundEvent, MessageEvent } from "../events.ts";
import { type Cursor, channelId, type SessionId } from "../ids.ts";
import type { ChannelStatus } from "../outcomes.ts";
import { wallClock } from "./clock.ts";
import { elapse } from "./patience.ts";

/** One call of `accept`, recorded when it is made. */
export interface AcceptCall {
  readonly events: readonly InboundEvent[];
  readonly cursor: Cursor | undefined;
  readonly state: "pending" | "committed" | "rejected";
}

export interface LogLine {
  readonly level: keyof Log;
  readonly fields: LogFields;
  readonly message: string;
}

export interface RecordingChannel extends Channel {
  /** The committed events in order, without duplicates. */
  readonly stored: readonly InboundEvent[];
  /** The events of `stored` that are messages. */
  readonly messages: readonly MessageEvent[];
  /** Every call of `accept`, including pending and rejected ones. */
  readonly calls: readonly AcceptCall[];
  /** The last committed cursor, with which the core would start `run`. */
  readonly cursor: Cursor | null;
  readonly statuses: readonly ChannelStatus[];
  /** The last sentence of each `warn` code. */
  readonly warnings: ReadonlyMap<string, string>;
  readonly logged: readonly LogLine[];
  /** Makes `accept` block before its commit until `release`. */
  hold(): void;
  release(): void;
  /** Makes the next `times` (1) calls of `accept` that carry events reject with `error` and commit
   *  nothing. Held calls come first; 0 cancels it. A call with only a cursor succeeds, because it is a
   *  separate commit. */
  reject(times?: number, error?: Error): void;
  /** Resolves as soon as `test` holds, which is checked after every change. Rejects with `what` in the
   *  error after `ms` (default one minute). */
  until(what: string, test: (channel: RecordingChannel) => boolean, ms?: number): Promise<void>;
}

export interface RecordingChannelOptions {
  /** Default `test-channel`. */
  readonly id?: string;
  readonly clock?: Clock;
  /** The public base address of the routes. Default `https://bridge.example/channels/<id>`. */
  readonly publicUrl?: string;
  /** The last cursor that an earlier run of this channel committed. */
  readonly cursor?: Cursor | null;
  /** The result of `agent()`. Default: an active agent named Agent, without an introduction. */
  readonly agent?: AgentFacts | null;
  /** The time when the store first ran the channel. Default: now. */
  readonly since?: Date;
  /** The channel's own mark. Default `testmark00`. */
  readonly mark?: string;
  /** The owner of any other mark. Default: foreign. */
  readonly ownerOf?: (mark: string) => MarkOwner;
  /** The secrets that an earlier run of an adapter's channels has stored. */
  readonly secrets?: Map<string, string>;
}

/** Creates a new channel without stored events or held calls. */
export function recordingChannel(options: RecordingChannelOptions = {}): RecordingChannel {
  const id = channelId(options.id ?? "test-channel");
  const base = options.publicUrl ?? `https://bridge.example/channels/${id}`;
  const stored: InboundEvent[] = [];
  const calls: { -readonly [K in keyof AcceptCall]: AcceptCall[K] }[] = [];
  const statuses: ChannelStatus[] = [];
  const logged: LogLine[] = [];
  const warnings = new Map<string, string>();
  const secrets = options.secrets ?? new Map<string, string>();
  const clock = options.clock ?? wallClock();
  const mark = options.mark ?? "testmark00";
  const since = options.since ?? new Date(clock.now());
  const ids = new Set<string>();
  const fingerprints = new Set<string>();
  const watchers = new Set<() => void>();
  let cursor: Cursor | null = options.cursor ?? null;
  let held = false;
  let rejections = 0;
  let planted = new Error();
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  // Serializes the commits in the order of the calls, as a database does.
  let queue: Promise<unknown> = Promise.resolve();

  const changed = () => {
    for (const watcher of watchers) watcher();
  };
  const store = (event: InboundEvent): Accepted => {
    const fingerprint = "fingerprint" in event ? event.fingerprint : undefined;
    const duplicate = ids.has(event.id) || (fingerprint !== undefined && fingerprints.has(fingerprint));
    if (!duplicate) stored.push(event);
    ids.add(event.id);
    if (fingerprint !== undefined) fingerprints.add(fingerprint);
    return { id: event.id, duplicate };
  };
  const commit = async (call: (typeof calls)[number]): Promise<readonly Accepted[]> => {
    await gate.promise;
    await turn(); // makes the commit asynchronous, to expose callers that do not await it
    call.state = rejections > 0 && call.events.length > 0 ? "rejected" : "committed";
    if (call.state === "rejected") {
      rejections--;
      changed();
      throw planted;
    }
    const accepted = call.events.map(store);
    if (call.cursor !== undefined) cursor = call.cursor;
    changed();
    return accepted;
  };
  const line = (level: keyof Log) => (fields: LogFields, message: string) => {
    logged.push({ level, fields, message });
    changed();
  };

  const channel: RecordingChannel = {
    id,
    log: { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") },
    clock,
    url: (path) => new URL(base + path),
    accept(events, next) {
      const call = { events, cursor: next, state: "pending" as AcceptCall["state"] };
      calls.push(call);
      changed();
      const done = queue.then(() => commit(call));
      queue = done.catch(() => undefined);
      return done;
    },
    known: (wanted) => Promise.resolve(new Set(wanted.filter((one) => ids.has(one)))),
    addresses: () => Promise.resolve(addressesOf(stored)),
    session: (session) => Promise.resolve(factsOf(stored, session)),
    agent: () =>
      options.agent === undefined ? { active: true, name: "Agent", introduction: null } : options.agent,
    identity: () =>
      Promise.resolve({
        since,
        mark,
        ownerOf: (other) => (other === mark ? "self" : (options.ownerOf?.(other) ?? "foreign")),
      }),
    secrets: {
      read: (name) => Promise.resolve(secrets.get(name) ?? null),
      write: async (name, value) => {
        await turn();
        secrets.set(name, value);
        changed();
      },
    },
    report(status) {
      statuses.push(status);
      changed();
    },
    warn(code, sentence) {
      if (sentence === null) warnings.delete(code);
      else warnings.set(code, sentence);
      changed();
    },
    warnings,
    stored,
    get messages() {
      return stored.filter((event) => event.kind === "message");
    },
    calls,
    get cursor() {
      return cursor;
    },
    statuses,
    logged,
    hold() {
      if (held) return;
      held = true;
      gate = Promise.withResolvers<void>();
    },
    release() {
      held = false;
      gate.resolve();
    },
    reject(times = 1, error = new Error("accept: the store is away (planted)")) {
      rejections = times;
      planted = error;
    },
    until: (what, test, ms = 60_000) => watch(what, () => test(channel), watchers, ms),
  };
  return channel;
}

/** Derives the facts that the core would store about a session, from its events only. No message is ever
 *  answered, so every message is pending. */
function factsOf(stored: readonly InboundEvent[], id: SessionId): SessionFacts | null {
  const own = stored.filter((event) => event.kind === "session" && event.session === id);
  const openings = own.filter((event) => event.kind === "session" && event.state === "opened");
  const [first] = openings;
  if (first?.kind !== "session") return null;
  const said = stored.findLast(
    (event) =>
      event.kind === "message" &&
      event.forHumans === undefined &&
      "session" in event.thread &&
      event.thread.session === id,
  );
  let state: SessionFacts["state"] = "open";
  let transferring: string | null = null;
  for (const event of own) {
    if (event.kind !== "session") continue;
    if (event.state === "opened") state = "open";
    if (event.state === "lost" || event.state === "closed") state = event.state;
    if (event.state === "transferring") transferring = event.reason ?? "asked";
  }
  return {
    state,
    from: first.from,
    openedAt: new Date(0),
    openings: openings.length,
    transferring,
    pending: said?.id ?? null,
  };
}

async function watch(
  what: string,
  test: () => boolean,
  watchers: Set<() => void>,
  ms: number,
): Promise<void> {
  if (test()) return;
  const seen = new AbortController();
  // A waiting test resumes immediately after the change that it waits for, before other tasks run.
  await new Promise<void>((resolve, reject) => {
    const look = () => {
      if (!test()) return;
      watchers.delete(look);
      resolve();
      seen.abort();
    };
    watchers.add(look);
    void elapse(ms, { signal: seen.signal }).then(() => {
      watchers.delete(look);
      reject(new Error(`waited ${ms} ms in vain for: ${what}`));
    });
  });
}

function addressesOf(stored: readonly InboundEvent[]): readonly string[] {
  const messages = stored.filter((event) => event.kind === "message");
  return [...new Set(messages.flatMap(({ to }) => to.slice(0, 1).map(({ address }) => address)))];
}
