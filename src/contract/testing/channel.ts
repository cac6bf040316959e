// An in-memory `Channel` for tests. Arrays that a test can read replace the store. A test can delay
// `accept` or make it fail.

import { setImmediate as turn } from "node:timers/promises";
import type {
  Accepted,
  AgentFacts,
  Channel,
  ChannelIdentity,
  Clock,
  DurationTable,
  Log,
  LogFields,
  MarkOwner,
  SessionFacts,
  WarningOptions,
} from "../channel.ts";
import type { InboundEvent, MessageEvent } from "../events.ts";
import { type Cursor, channelId, type ExternalId, type SessionId } from "../ids.ts";
import type { ChannelStatus } from "../outcomes.ts";
import { wallClock } from "./clock.ts";
import { elapse } from "./patience.ts";

/** One call of `accept`, recorded when it is made. */
export interface AcceptCall {
  readonly events: readonly InboundEvent[];
  readonly cursor: Cursor | undefined;
  readonly state: "pending" | "committed" | "rejected";
}

type RecordedCall = { -readonly [K in keyof AcceptCall]: AcceptCall[K] };

export interface LogLine {
  readonly level: keyof Log;
  readonly fields: LogFields;
  readonly message: string;
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
  /** Durations that differ from those of the adapter's table. */
  readonly timing?: DurationTable;
  /** The result of `unconfirmed()`. Default: none. */
  readonly unconfirmed?: readonly string[];
}

/** Creates a new channel without stored events or held calls. */
export function recordingChannel(options: RecordingChannelOptions = {}): RecordingChannel {
  return new RecordingChannel(options);
}

export class RecordingChannel implements Channel {
  readonly id: Channel["id"];
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: DurationTable;
  readonly secrets: Channel["secrets"];
  /** The committed events in order, without duplicates. */
  readonly stored: InboundEvent[] = [];
  readonly statuses: ChannelStatus[] = [];
  /** The last sentence of each `warn` code. */
  readonly warnings = new Map<string, string>();
  /** The last call of `warn` with `escalates`, by code. Null: the condition was absent. */
  readonly escalated = new Map<string, string | null>();
  readonly logged: LogLine[] = [];
  readonly #options: RecordingChannelOptions;
  readonly #calls: RecordedCall[] = [];
  readonly #since: Date;
  readonly #ids = new Set<string>();
  readonly #fingerprints = new Set<string>();
  readonly #watchers = new Set<() => void>();
  #cursor: Cursor | null;
  #rejections = 0;
  #planted = new Error();
  /** Blocks commits while it is set. */
  #gate: PromiseWithResolvers<void> | null = null;
  /** Serializes the commits in the order of the calls, as a database does. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: RecordingChannelOptions) {
    this.#options = options;
    this.id = channelId(options.id ?? "test-channel");
    this.clock = options.clock ?? wallClock();
    this.timing = options.timing ?? {};
    this.#since = options.since ?? new Date(this.clock.now());
    this.#cursor = options.cursor ?? null;
    const line = (level: keyof Log) => (fields: LogFields, message: string) => {
      this.logged.push({ level, fields, message });
      this.#changed();
    };
    this.log = { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
    const secrets = options.secrets ?? new Map<string, string>();
    this.secrets = {
      read: (name) => Promise.resolve(secrets.get(name) ?? null),
      write: async (name, value) => {
        await turn();
        if (typeof value !== "string") throw new TypeError(`storing secret ${name}: its value is ${typeof value}`);
        secrets.set(name, value);
        this.#changed();
      },
    };
  }

  get messages(): readonly MessageEvent[] {
    return this.stored.filter((event) => event.kind === "message");
  }

  /** Every call of `accept`, including pending and rejected ones. */
  get calls(): readonly AcceptCall[] {
    return this.#calls;
  }

  /** The last committed cursor, with which the core would start `run`. */
  get cursor(): Cursor | null {
    return this.#cursor;
  }

  url(path: string): URL {
    return new URL((this.#options.publicUrl ?? `https://bridge.example/channels/${this.id}`) + path);
  }

  accept(events: readonly InboundEvent[], cursor?: Cursor): Promise<readonly Accepted[]> {
    const call: RecordedCall = { events, cursor, state: "pending" };
    this.#calls.push(call);
    this.#changed();
    const done = this.#queue.then(() => this.#commit(call));
    this.#queue = done.catch(() => undefined);
    return done;
  }

  async known(ids: readonly ExternalId[]): Promise<ReadonlySet<ExternalId>> {
    return new Set(ids.filter((id) => this.#ids.has(id)));
  }

  async unconfirmed(): Promise<readonly string[]> {
    return this.#options.unconfirmed ?? [];
  }

  async addresses(): Promise<readonly string[]> {
    return [...new Set(this.messages.flatMap(({ to }) => to.slice(0, 1).map(({ address }) => address)))];
  }

  async session(id: SessionId): Promise<SessionFacts | null> {
    return factsOf(this.stored, id);
  }

  agent(): AgentFacts | null {
    const { agent } = this.#options;
    return agent === undefined ? { active: true, name: "Agent", introduction: null } : agent;
  }

  async identity(): Promise<ChannelIdentity> {
    const { mark = "testmark00", ownerOf } = this.#options;
    const owner = (other: string) => (other === mark ? "self" : (ownerOf?.(other) ?? "foreign"));
    return { since: this.#since, mark, ownerOf: owner };
  }

  report(status: ChannelStatus): void {
    this.statuses.push(status);
    this.#changed();
  }

  warn(code: string, sentence: string | null, { escalates = false }: WarningOptions = {}): void {
    if (escalates) this.escalated.set(code, sentence);
    if (sentence === null) this.warnings.delete(code);
    else this.warnings.set(code, sentence);
    this.#changed();
  }

  /** Makes `accept` block before its commit until `release`. */
  hold(): void {
    this.#gate ??= Promise.withResolvers();
  }

  release(): void {
    this.#gate?.resolve();
    this.#gate = null;
  }

  /** Makes the next `times` (1) calls of `accept` that carry events reject with `error` and commit nothing. Held calls
   *  come first; 0 cancels it. A call with only a cursor succeeds, because it is a separate commit. */
  reject(times = 1, error = new Error("accept: the store is away (planted)")): void {
    this.#rejections = times;
    this.#planted = error;
  }

  /** Resolves as soon as `test` holds, which is checked after every change. Rejects with `what` in the
   *  error after `ms` (default one minute). */
  async until(what: string, test: (channel: RecordingChannel) => boolean, ms = 60_000): Promise<void> {
    if (test(this)) return;
    const seen = new AbortController();
    // A waiting test resumes immediately after the change that it waits for, before other tasks run.
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        if (!test(this)) return;
        this.#watchers.delete(look);
        resolve();
        // Null instead of a new DOMException, which captures a stack: tests count what an adapter costs.
        seen.abort(null);
      };
      this.#watchers.add(look);
      void elapse(ms, { signal: seen.signal }).then(() => {
        this.#watchers.delete(look);
        reject(new Error(`waited ${ms} ms in vain for: ${what}`));
      });
    });
  }

  #changed(): void {
    for (const watcher of this.#watchers) watcher();
  }

  async #commit(call: RecordedCall): Promise<readonly Accepted[]> {
    await this.#gate?.promise;
    await turn(); // makes the commit asynchronous, to expose callers that do not await it
    call.state = this.#rejections > 0 && call.events.length > 0 ? "rejected" : "committed";
    if (call.state === "rejected") {
      this.#rejections--;
      this.#changed();
      throw this.#planted;
    }
    const accepted = call.events.map((event) => this.#store(event));
    if (call.cursor !== undefined) this.#cursor = call.cursor;
    this.#changed();
    return accepted;
  }

  #store(event: InboundEvent): Accepted {
    const fingerprint = "fingerprint" in event ? event.fingerprint : undefined;
    const duplicate = this.#ids.has(event.id) || (fingerprint !== undefined && this.#fingerprints.has(fingerprint));
    if (!duplicate) this.stored.push(event);
    this.#ids.add(event.id);
    if (fingerprint !== undefined) this.#fingerprints.add(fingerprint);
    return { id: event.id, duplicate };
  }
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
