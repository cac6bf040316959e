// The interface that the core provides to an adapter for one configured channel.

import type { InboundEvent, Party } from "./events.ts";
import type { ChannelId, Cursor, ExternalId, SessionId } from "./ids.ts";
import type { ChannelStatus } from "./outcomes.ts";
import type { RoutePath } from "./routes.ts";

export interface Channel {
  readonly id: ChannelId;
  readonly log: Log;
  readonly clock: Clock;
  /** Durations in milliseconds that differ from those of the adapter's table, by name (`timingOf`). Absent outside tests. */
  readonly timing?: DurationTable;
  /** Returns the public address of one of the channel's routes, for example to verify signatures. Never
   *  derived from the Host header. */
  url(path: RoutePath): URL;
  /** Stores events. Resolves after all events, and the cursor with them, are committed; acknowledge to the provider
   *  only then. Rejects when nothing was committed: do not acknowledge, and let the error propagate. */
  accept(events: readonly InboundEvent[], cursor?: Cursor): Promise<readonly Accepted[]>;
  /** Returns those ids that are already stored, either as an event's id or as the id under which one of
   *  our drafts was sent. The first case saves fetching a message that `accept` would report as a
   *  duplicate. In the second case the id belongs to no other draft. */
  known(ids: readonly ExternalId[]): Promise<ReadonlySet<ExternalId>>;
  /** Returns the recipients (in lower case) of this channel's drafts that may have been sent under an id which is not stored:
   *  the attempt is running, or its outcome is unknown. One entry for each draft; those of unknown outcome only when they
   *  changed after `since`. Call it before `known`: a draft that gets its id in between is counted here. */
  unconfirmed(since: Date): Promise<readonly string[]>;
  /** Returns our addresses at which this channel has received messages (the first of `MessageEvent.to`),
   *  newest first. Only for channels with one conversation for each person. Omits an address at which
   *  another channel has received a message since. Used to backfill missed messages. */
  addresses(): Promise<readonly string[]>;
  /** Returns the stored facts about a session of this channel, or null when it was never opened. They
   *  survive a restart, unlike the socket. */
  session(id: SessionId): Promise<SessionFacts | null>;
  /** Returns the platform's settings of the agent for this channel. Null until they were read for the first time. */
  agent(): AgentFacts | null;
  /** Returns the identity of this channel in its store. It is constant for one run of `Inbound.run`.
   *  Rejects when the store cannot be read. */
  identity(): Promise<ChannelIdentity>;
  /** Storage for small secrets that the provider issues at run time. */
  readonly secrets: SecretStore;
  /** Reports the channel's health. Call it at every change. Cheap, never throws. */
  report(status: ChannelStatus): void;
  /** Reports a condition that requires an operator while the channel keeps working. Null clears it. `code` is short and
   *  stable. The sentence is shown by /readyz and logged when it changes. Cheap, never throws. */
  warn(code: string, sentence: string | null, options?: WarningOptions): void;
}

export interface WarningOptions {
  /** Notifies the responders of the escalation policy when the condition lasts, once, and when it has ended. Only a call
   *  with null and this option ends it, so that it survives a restart. Make that call also when no warning was reported
   *  since the start. */
  readonly escalates?: boolean;
}

/** Distinguishes the marks that this adapter left at the provider from those of other installations. */
export interface ChannelIdentity {
  /** The time when this store first ran the channel. Messages that reach the provider later are new,
   *  even if the first connection succeeds hours afterwards. Earlier messages are history. */
  readonly since: Date;
  /** Identifies this channel of this store in marks at the provider. `[a-z0-9]{10}`. A restored store
   *  has a different one. */
  readonly mark: string;
  /** Returns the owner of a mark. `self`: this channel. `earlier`: this channel in an earlier state of
   *  the store, before a restore or a loss. `sibling`: another channel that runs on this store.
   *  `foreign`: another installation. */
  ownerOf(mark: string): MarkOwner;
}

export type MarkOwner = "self" | "earlier" | "sibling" | "foreign";

/** Durations in milliseconds by name. */
export type DurationTable = Readonly<Record<string, number>>;

/** Key-value storage in the core's store, shared by all channels of one adapter. It survives restarts. */
export interface SecretStore {
  /** Returns null when no value is stored under that name. Rejects when the store cannot be read. */
  read(name: string): Promise<string | null>;
  /** Resolves after the commit. Rejects a value that is no string. Encrypt values that must not be readable in a backup of
   *  the store. */
  write(name: string, value: string): Promise<void>;
}

export interface Accepted {
  readonly id: ExternalId;
  /** True when an event with this id, or a message with the same fingerprint, was already stored. */
  readonly duplicate: boolean;
}

export interface SessionFacts {
  readonly state: "open" | "lost" | "closed";
  readonly from: Party;
  readonly openedAt: Date;
  /** Number of times that the session was opened: above 1 after a resume. */
  readonly openings: number;
  /** The reason of a transfer to a human in progress, or null. */
  readonly transferring: string | null;
  /** The newest message of the session while its answer is pending. */
  readonly pending: ExternalId | null;
}

/** The agent's settings from its skill for this channel. */
export interface AgentFacts {
  /** False: messages are stored, and the agent is not asked. */
  readonly active: boolean;
  /** True while the operator lets nothing be sent (the channel is paused or in shadow mode). A new call is not
   *  taken by the agent; running calls continue. Default: false. */
  readonly paused?: boolean;
  readonly name: string;
  /** The agent's first text: the greeting of a call, the introduction of a text message. */
  readonly introduction: string | null;
}

/** Structured log. Fields are columns (`uid`, `attempt` ...); the message is a constant text. Never log
 *  bodies, addresses or secrets. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}
export type LogFields = { readonly [key: string]: unknown };

/** The clock of the daemon. Adapters must use it for all time operations. */
export interface Clock {
  /** Wall-clock milliseconds since the epoch. */
  now(): number;
  /** Monotonic milliseconds, for measuring durations. */
  monotonic(): number;
  /** Resolves after `ms`, or at once (without throwing) when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
