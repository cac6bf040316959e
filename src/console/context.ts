// What the pages of the console receive: the store, the daemon's live view, and the session of a request.

import type { Clock, Log, Traits } from "bridgehead/contract";
import type { Hono } from "hono";
import type { ChannelReport } from "../channels/readiness.ts";
import type { Policy } from "../domain/policy.ts";
import type { Timing } from "../ops/timing.ts";
import type { Database, Query } from "../store/driver.ts";

export interface ConsoleContext {
  readonly db: Database;
  /** Runs an action in a transaction and starts the work that became due. Resolves when it is on disk. */
  commit<T>(write: (q: Query) => Promise<T>): Promise<T>;
  readonly clock: Clock;
  readonly log: Log;
  readonly timing: Timing;
  /** The channels that run on this node, in the configuration's order. */
  channels(): readonly ChannelReport[];
  /** Problems and warnings of the store, such as a restored backup. */
  storeState(): Promise<StoreState>;
  /** Kind of a channel that can send now; null for others. */
  kindOf(channel: string): Traits["platform"] | null;
  /** Null when the configuration has no responders. */
  policy(): Policy | null;
}

export interface StoreState {
  /** Why the store cannot be written; null when it can. */
  readonly problem: string | null;
  readonly warnings: readonly string[];
}

/** The variables of a request, set before a page is called. */
export interface ConsoleEnv {
  readonly Variables: {
    /** Token of the session. */
    session: string;
    /** The entries of the navigation. */
    pages: readonly ConsolePage[];
  };
}

export interface ConsolePage {
  /** Where the page is mounted: `/`, `/held`. */
  readonly path: string;
  /** Entry in the navigation; null for none. */
  readonly label: string | null;
  /** Creates the page's routes, relative to `path`. */
  create(context: ConsoleContext): Hono<ConsoleEnv>;
}
