// What the core gives an adapter for one configured channel.

import type { InboundEvent } from "./events.ts";
import type { ChannelId, Cursor, ExternalId } from "./ids.ts";
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
  /** Which of these ids are stored already: saves fetching what `accept` would only call a duplicate. */
  known(ids: readonly ExternalId[]): Promise<ReadonlySet<ExternalId>>;
  /** Call at every change of health; cheap, never throws. */
  report(status: ChannelStatus): void;
}

export interface Accepted {
  readonly id: ExternalId;
  /** True when this id, or a message with the same fingerprint, was stored before. */
  readonly duplicate: boolean;
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
