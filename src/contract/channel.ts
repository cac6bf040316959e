// What the core gives an adapter for one configured channel.

import type { InboundEvent, Party } from "./events.ts";
import type { ChannelId, Cursor, ExternalId, SessionId } from "./ids.ts";
import type { ChannelStatus } from "./outcomes.ts";
import type { RoutePath } from "./routes.ts";

export interface Channel {
  readonly id: ChannelId;
  readonly log: Log;
  readonly clock: Clock;
  /** The public address of one of its routes, e.g. for signatures. Never built from the Host header. */
  url(path: RoutePath): URL;
  /** Resolves once all events, and the cursor with them, are committed; only then tell the provider.
   *  Rejects when nothing was committed: do not acknowledge, let the error out. */
  accept(events: readonly InboundEvent[], cursor?: Cursor): Promise<readonly Accepted[]>;
  /** Which of these ids are stored already, as an event's (saves fetching what `accept` would only call a duplicate) or as
   *  what a draft of ours was sent under (it is no other draft's). */
  known(ids: readonly ExternalId[]): Promise<ReadonlySet<ExternalId>>;
  /** Our addresses at which this channel has received messages (the first of `MessageEvent.to`; channels of one conversation
   *  a person only), newest first. One that another channel has received at since is left out. For finding what was missed. */
  addresses(): Promise<readonly string[]>;
  /** What is stored about a session of this channel; null when it was never opened. Survives a restart, as a socket does not. */
  session(id: SessionId): Promise<SessionFacts | null>;
  /** What the platform says of the agent on this channel; null until it was read once. */
  agent(): AgentFacts | null;
  /** Who this channel is in its store. Stays the same for one run of `Inbound.run`. Rejects when the store cannot be read. */
  identity(): Promise<ChannelIdentity>;
  /** Small secrets that the provider issues at run time. */
  readonly secrets: SecretStore;
  /** Call at every change of health; cheap, never throws. */
  report(status: ChannelStatus): void;
  /** A condition that needs an operator while the channel goes on working; null ends it. `code` is short and stable. The
   *  sentence is shown by /readyz and logged when it changes. Cheap, never throws. */
  warn(code: string, sentence: string | null): void;
}

/** How an adapter tells the traces it left at the provider from those of other installations. */
export interface ChannelIdentity {
  /** When this store first ran the channel. What reaches the provider later is new, even when the first connection
   *  succeeds hours afterwards; what was there before is history. */
  readonly since: Date;
  /** Names this channel in this store, for marks at the provider. `[a-z0-9]{10}`. A restored store has another one. */
  readonly mark: string;
  /** Who left a mark. `self`: this channel; `earlier`: this channel in an earlier state of the store, before a restore or a
   *  loss; `sibling`: another channel that runs on this store; `foreign`: another installation. */
  ownerOf(mark: string): MarkOwner;
}

export type MarkOwner = "self" | "earlier" | "sibling" | "foreign";

/** Kept in the core's store, for all channels of one adapter, across restarts. */
export interface SecretStore {
  /** Null when nothing was stored under that name. Rejects when the store cannot be read. */
  read(name: string): Promise<string | null>;
  /** Resolves after the commit. Encrypt what must not be readable in a backup of the store. */
  write(name: string, value: string): Promise<void>;
}

export interface Accepted {
  readonly id: ExternalId;
  /** True when this id, or a message with the same fingerprint, was stored before. */
  readonly duplicate: boolean;
}

export interface SessionFacts {
  readonly state: "open" | "lost" | "closed";
  readonly from: Party;
  readonly openedAt: Date;
  /** How often it was opened: above 1 after a resume. */
  readonly openings: number;
  /** Why it is being given to a human; null when it is not. */
  readonly handingOver: string | null;
  /** The newest message of the session while it waits for its answer. */
  readonly pending: ExternalId | null;
}

/** The agent as its skill for this channel describes it. */
export interface AgentFacts {
  /** False: messages are stored, nothing is asked. */
  readonly active: boolean;
  readonly name: string;
  /** The first thing the agent says: a call's greeting, a text's introduction. */
  readonly introduction: string | null;
}

/** Structured log: fields are columns (`uid`, `attempt` ...), the message is a constant text. No bodies, no addresses, no secrets. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
}
export type LogFields = { readonly [key: string]: unknown };

/** The only door to time. */
export interface Clock {
  /** Wall-clock milliseconds since the epoch. */
  now(): number;
  /** Milliseconds that only ever go forward; for measuring. */
  monotonic(): number;
  /** Resolves after `ms`, or at once (without throwing) when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}
